package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// textOptions is the number of sets of victims that a text shows, textPossible the number of possible victims.
const (
	textOptions  = 8
	textPossible = 20
)

// Eviction writes the explanation of an eviction for people.
func Eviction(w io.Writer, x *answer.PodEviction) error {
	out := page{at: x.At}
	out.printf("Pod %s %s.\n\n", x.Pod, x.Message)
	var f facts
	f.add("at", "%s", x.At)
	f.knownFrom(x.KnownFrom)
	if x.Decision.Seq > 0 {
		f.add("decided", "%s", x.Decision)
	}
	f.add("rule", "%s", x.Rule)
	if p := x.Preemption; p != nil {
		f.add("for", "%s", phrase.Preemptor(&p.By))
		f.add("victims", "%s", victimsText(p))
	}
	if r := x.Removal; r != nil {
		f.add("first seen", "%s: %s", r.Point, r.Reason)
		f.add("said", "%s", r.Details)
	}
	if r := x.Result; r != nil {
		f.add("result", "%s: %s%s", r.Point, r.Outcome, phrase.InWords(r))
	}
	f.add("note", "%s", x.Unknown)
	out.columns(f)
	var rows [][]string
	for i := range x.Options {
		o := &x.Options[i]
		if i == textOptions && len(x.Options) > textOptions+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(x.Options)-i)})
			break
		}
		where := o.Node
		switch {
		case o.Domain > 0:
			where = phrase.Count(int64(o.Domain), "node", "nodes")
		case where == "":
			where = "all nodes"
		}
		rows = append(rows, []string{where, chosenText(o.Chosen), fmt.Sprint(o.Pods), numberOr(o.Violations, ""),
			fmt.Sprint(o.Highest), strings.Join(o.Victims[:min(textVictims, len(o.Victims))], ", ")})
	}
	out.table([]string{"ROOM ON", "CHOSEN", "VICTIMS", "AGAINST BUDGETS", "HIGHEST PRIORITY", "THESE"}, rows)
	out.possible(x)
	return out.writeTo(w)
}

// possible shows the possible victims: the ones that were chosen first.
func (p *page) possible(x *answer.PodEviction) {
	var rows [][]string
	more := x.OtherPossible
	for _, chosen := range []bool{true, false} {
		for i := range x.Possible {
			v := &x.Possible[i]
			switch {
			case v.Chosen != chosen:
			case len(rows) == textPossible:
				more++
			default:
				rows = append(rows, []string{v.Pod, fmt.Sprint(v.Priority), v.Node, v.Why})
			}
		}
	}
	if more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more)})
	}
	p.table([]string{"POSSIBLE VICTIM", "PRIORITY", "NODE", "WHY"}, rows)
}

func chosenText(chosen bool) string {
	if chosen {
		return "yes"
	}
	return "no"
}
