package render

import (
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// textDomains is the number of domains of a resource that the text shows.
const textDomains = 5

// domains writes the table of the room in each domain, for the resources of a gang that requires one.
func (p *page) domains(asOf answer.Point, uses []answer.ResourceUse) {
	var rows [][]string
	title := ""
	for _, u := range uses {
		d := u.Domains
		if d == nil || u.Resource == "pods" {
			continue
		}
		title = strings.Join(d.Labels, ", ")
		others, free, usable := d.Others, d.OthersFree, d.OthersUsable
		for i, row := range d.Domains {
			if i >= textDomains {
				others, free, usable = others+1, free+row.Free, usable+row.Usable
				continue
			}
			fits, chosen := "", ""
			if row.Fits != nil {
				fits = fmt.Sprint(*row.Fits)
			}
			if row.Chosen {
				chosen = "yes"
			}
			rows = append(rows, []string{string(u.Resource), row.Domain, fmt.Sprint(row.Nodes),
				phrase.Amount(u.Resource, row.Free), phrase.Amount(u.Resource, row.Usable),
				phrase.Amount(u.Resource, row.Allocatable), fits, chosen})
		}
		if others > 0 {
			rows = append(rows, []string{string(u.Resource), phrase.Count(int64(others), "other", "others"), "",
				phrase.Amount(u.Resource, free), phrase.Amount(u.Resource, usable)})
		}
		if d.Outside > 0 {
			rows = append(rows, []string{string(u.Resource), "in none", fmt.Sprint(d.Outside),
				phrase.Amount(u.Resource, d.OutsideFree), "0"})
		}
	}
	p.table([]string{p.dated("BY "+title, asOf), "DOMAIN", "NODES", "FREE", "USABLE", "OF", "MEMBERS THAT FIT",
		"CHOSEN"}, rows)
}

// unmatched writes the table of the requirements of a pod that no node meets, and of the labels that are similar.
func (p *page) unmatched(x *answer.Reason) {
	if x == nil || x.Unmatched == nil {
		return
	}
	u := x.Unmatched
	var rows [][]string
	for i := range u.Requirements {
		r := &u.Requirements[i]
		from := r.From
		if r.Term > 0 {
			from += fmt.Sprintf(", term %d", r.Term)
		}
		rows = append(rows, []string{phrase.Requirement(r), from, fmt.Sprintf("%d of %d", r.Nodes, u.Nodes),
			strings.TrimPrefix(phrase.NearMisses(r), "near: ")})
	}
	if u.Others > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", u.Others)})
	}
	p.table([]string{"REQUIRED BY " + u.Pod, "FROM", "NODES THAT HAVE IT", "NEAR"}, rows)
}
