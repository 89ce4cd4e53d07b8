package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// dated is a title for a state: with its entry, unless that is the entry in question.
func (p *page) dated(title string, asOf answer.Point) string {
	if asOf == p.at {
		return title
	}
	return fmt.Sprintf("%s (ENTRY %d)", title, asOf.Seq)
}

// refusals writes the table of which plugins refused what; reasons that differ in their code only are one row.
func (p *page) refusals(d *answer.Decision) {
	if d == nil {
		return
	}
	merged := phrase.MergeRefusals(d.Refusals)
	var rows [][]string
	for i, r := range merged {
		if i == textReasons {
			rows = append(rows, []string{"", fmt.Sprintf("and %d more", len(merged)-i)})
			break
		}
		nodes := "pod"
		if r.Nodes > 0 {
			nodes = fmt.Sprint(r.Nodes)
		}
		rows = append(rows, []string{nodes, r.Plugin, phrase.ReasonText(d, r), strings.Join(r.Examples, ", ")})
	}
	p.table([]string{p.dated("NODES", d.Point), "REFUSED BY", "REASON", "FOR EXAMPLE"}, rows)
}

// resources writes the table of resources and their holders, as of an entry.
func (p *page) resources(title string, asOf answer.Point, uses []answer.ResourceUse) {
	var rows [][]string
	for _, u := range uses {
		largest := "0"
		if u.LargestFree > 0 {
			largest = fmt.Sprintf("%s on %s", phrase.Amount(u.Resource, u.LargestFree), u.LargestFreeNode)
		}
		usable := ""
		if u.Usable != u.Free {
			usable = phrase.Amount(u.Resource, u.Usable)
		}
		rows = append(rows, []string{string(u.Resource), phrase.Amount(u.Resource, u.Needed),
			phrase.Amount(u.Resource, u.Free), usable, phrase.Parts(&u, textReasons), largest,
			phrase.Amount(u.Resource, u.Allocatable), shares(u, u.KeptFor, u.KeptForOthers, u.KeptForOthersAmount),
			cmp.Or(shares(u, u.Holders, u.Others, u.OthersAmount), "nobody")})
	}
	p.table([]string{p.dated(title, asOf), "NEEDED", "FREE", "USABLE", "NOT USABLE", "MOST ON ONE NODE", "OF",
		"KEPT FOR", "HELD BY"}, rows)
	p.domains(asOf, uses)
}

// shares names the entities that have some of a resource, or for which some is kept, each with its amount; "" for none.
func shares(u answer.ResourceUse, holders []answer.Holder, others int, rest int64) string {
	var parts []string
	for i, h := range holders {
		if i >= textHolders {
			others, rest = others+1, rest+h.Amount
			continue
		}
		kind := map[string]string{"group": "gang ", "composite": "composite "}[h.Kind]
		parts = append(parts, fmt.Sprintf("%s%s %s", kind, h.Name, phrase.Amount(u.Resource, h.Amount)))
	}
	if others > 0 {
		parts = append(parts, phrase.Count(int64(others), "other", "others")+" "+phrase.Amount(u.Resource, rest))
	}
	return strings.Join(parts, ", ")
}

// scores writes how the plugins rated the chosen node, and why the next ones came after it.
func (p *page) scores(d *answer.Decision) {
	if d == nil || d.Winner == nil || len(d.Winner.Plugins) == 0 {
		return
	}
	var rows [][]string
	for i, s := range d.Winner.Plugins {
		if s.Weighted == 0 && !slices.ContainsFunc(d.RunnersUp,
			func(n answer.NodeScore) bool { return i < len(n.Plugins) && n.Plugins[i].Weighted != 0 }) {
			continue // it tells none of these nodes from another
		}
		rows = append(rows, []string{s.Plugin, fmt.Sprint(s.Raw), fmt.Sprint(s.Normalized), fmt.Sprint(s.Weight),
			fmt.Sprint(s.Weighted)})
	}
	rows = append(rows, []string{"total", "", "", "", fmt.Sprint(d.Winner.Total)})
	p.table([]string{"SCORE OF " + d.Winner.Node, "RAW", "NORMALIZED", "WEIGHT", "WEIGHTED"}, rows)
	rows = nil
	for _, n := range d.RunnersUp {
		rows = append(rows, []string{n.Node, fmt.Sprint(n.Total), fmt.Sprintf("%+d", n.Total-d.Winner.Total),
			scoreDifference(n, *d.Winner)})
	}
	p.table([]string{"RUNNER-UP", "TOTAL", "AGAINST " + d.Winner.Node, "BY PLUGIN"}, rows)
}

// scoreDifference names the plugins that scored n otherwise than the winner.
func scoreDifference(n, winner answer.NodeScore) string {
	var parts []string
	for i, s := range n.Plugins {
		if i < len(winner.Plugins) && s.Weighted != winner.Plugins[i].Weighted {
			parts = append(parts, fmt.Sprintf("%s %+d", s.Plugin, s.Weighted-winner.Plugins[i].Weighted))
		}
	}
	if len(parts) == 0 {
		return "equal; the smaller name goes first"
	}
	return strings.Join(parts, ", ")
}

// composites shows how far each composite is that is below the one in question.
func (p *page) composites(x *answer.Composite) {
	var rows [][]string
	for _, c := range x.Composites {
		rows = append(rows, []string{c.Composite, c.Parent, fmt.Sprint(c.Min), fmt.Sprint(c.Groups),
			fmt.Sprint(c.WithMinimum)})
	}
	p.table([]string{"COMPOSITE", "BELOW", "MINIMUM", "THERE", "WITH MINIMUM"}, rows)
}

// gangs shows how far each gang is, and what it lacks.
func (p *page) gangs(x *answer.Composite) {
	var rows [][]string
	for i, g := range x.Gangs {
		if i == textMembers && len(x.Gangs)+x.Others > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(x.Gangs)+x.Others-i)})
			break
		}
		minimum := fmt.Sprint(g.Min)
		if !g.Declared {
			minimum = "not known"
		}
		rows = append(rows, []string{g.Group, g.Parent, g.Stage, minimum, fmt.Sprint(g.Present), numberOr(g.Held, ""),
			fmt.Sprint(g.Placed), numberOr(g.EndedWell, ""),
			numberOr(g.Missing, ""), whyOf(g)})
	}
	p.table([]string{"GANG", "BELOW", "STAGE", "MINIMUM", "THERE", "HELD", "PLACED", "DONE", "MISSING", "WHY"}, rows)
}

// whyOf is the reason why a gang is pending, as a sentence of its own.
func whyOf(g answer.CompositeGang) string {
	if strings.HasPrefix(g.Predicate, "and ") {
		return "it " + g.Predicate
	}
	return g.Predicate
}

func (p *page) members(members []answer.GroupMember) {
	var rows [][]string
	for i, m := range members {
		if i == textMembers && len(members) > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(members)-i)})
			break
		}
		gate := ""
		if m.GatingPlugin != "" && m.GatingPlugin != gangPlugin {
			gate = m.GatingPlugin + ": " + m.GatingMessage
		}
		stage := m.Stage
		if m.Leaving {
			stage += ", ending"
		}
		rows = append(rows, []string{m.Pod, stage, m.Node, m.Nominated, gate})
	}
	p.table([]string{"MEMBER", "STAGE", "NODE", "NOMINATED TO", "GATED BY"}, rows)
}

func (p *page) attempts(h *answer.GroupHistory) {
	var rows [][]string
	shown := h.Attempts[max(0, len(h.Attempts)-textAttempts):]
	if before := h.Omitted + len(h.Attempts) - len(shown); before > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d before", before)})
	}
	for _, a := range shown {
		entries := fmt.Sprintf("%d-%d", a.First.Seq, a.Last.Seq)
		if a.First.Seq == a.Last.Seq {
			entries = fmt.Sprint(a.First.Seq)
		}
		rows = append(rows, []string{a.First.Time.String(), entries, a.Outcome, fmt.Sprint(a.Placed),
			numberOr(a.NoNode, ""),
			numberOr(a.Released, ""), a.FailedMember, a.Why})
	}
	p.table([]string{"ATTEMPT", "ENTRIES", "OUTCOME", "FOUND A NODE", "NO NODE", "RELEASED", "STOPPED AT", "WHY"}, rows)
}

// together shows how far those are that are admitted together.
func (p *page) together(t *answer.Together) {
	if t == nil {
		return
	}
	var rows [][]string
	for i, g := range t.Gangs {
		if i == textMembers && len(t.Gangs)+t.Others > textMembers+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(t.Gangs)+t.Others-i)})
			break
		}
		minimum := fmt.Sprint(g.Min)
		if !g.Declared {
			minimum = "not known"
		}
		rows = append(rows, []string{g.Group, minimum, fmt.Sprint(g.Present), numberOr(g.Held, ""),
			fmt.Sprint(g.Placed), g.Refusal})
	}
	p.table([]string{"TOGETHER WITH", "MINIMUM", "THERE", "HELD", "PLACED", "REFUSED"}, rows)
}

// refusedMembers shows which members found no node in the last attempt, if they are more than the one that ended it.
func (p *page) refusedMembers(asOf answer.Point, members []answer.RefusedMembers, others int) {
	if len(members) == 0 || len(members) == 1 && members[0].Count == 1 {
		return
	}
	var rows [][]string
	for i, r := range members {
		if i == textReasons {
			more := others
			for _, row := range members[i:] {
				more += row.Count
			}
			rows = append(rows, []string{fmt.Sprint(more), "others"})
			break
		}
		rows = append(rows, []string{fmt.Sprint(r.Count), strings.Join(r.Examples, ", "), phrase.Refusals(r.Refusals)})
	}
	p.table([]string{p.dated("NO NODE FOR", asOf), "MEMBERS", "WHY"}, rows)
}

func amountsText(amounts []answer.Amount) string {
	var parts []string
	for _, a := range amounts {
		if a.Amount > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", phrase.Amount(a.Resource, a.Amount), a.Resource))
		}
	}
	return strings.Join(parts, ", ")
}

// shortfall shows what there is too little of at the point in question.
func (p *page) shortfall(x *answer.Reason) {
	var uses []answer.ResourceUse
	for _, s := range x.Shortfall {
		uses = append(uses, s.ResourceUse)
	}
	title := "FOR ALL"
	if n := x.Shortfall[0].Members; n > 0 {
		title = "FOR " + phrase.Count(int64(n), "MEMBER", "MEMBERS")
	}
	p.resources(title, x.Shortfall[0].AsOf, uses)
}

// cause shows what a decision that placed nothing rests on.
func (p *page) cause(d *answer.Decision) {
	p.refusals(d)
	if d.Evaluated == 0 && d.Gang != nil {
		p.resources(fmt.Sprintf("FOR %s", phrase.Count(int64(d.Gang.Members), "MEMBER", "MEMBERS")), d.Gang.AsOf,
			d.Gang.Resources)
		return
	}
	p.resources("FOR "+d.Pod, d.Point, d.Resources)
}
