package phrase

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Choice says who bound a pod and how good its node was, in sentences.
func Choice(x *answer.Choice) string {
	text := []string{whoChose(x)}
	switch x.Verdict {
	case answer.Unrated:
		return text[0] + " How good the node was is not known: " + x.Unrated + "."
	case answer.Infeasible:
		text = append(text, infeasible(x)...)
	default:
		text = append(text, feasible(x)...)
	}
	text = append(text, choiceLimits(x)...)
	if g := x.Gang; g != nil {
		text = append(text, choiceGang(g))
	}
	return strings.Join(text, " ")
}

func whoChose(x *answer.Choice) string {
	if x.By != "" {
		return fmt.Sprintf("%s bound it to %s.", x.By, x.Node)
	}
	return fmt.Sprintf("Its scheduler is %s; who bound it to %s is not in the log.", x.Scheduler, x.Node)
}

// underWhat names the configuration and the state of a rating.
func underWhat(x *answer.Choice) string {
	config := "the configuration in the log"
	if x.Configuration != "" {
		config = "the configuration of " + x.Configuration
	}
	return fmt.Sprintf("With %s and the state just before entry %d", config, x.Seq)
}

func feasible(x *answer.Choice) []string {
	if x.Feasible == 1 {
		return []string{fmt.Sprintf("%s, it was the only feasible one of %s.", underWhat(x),
			Count(int64(x.Nodes), "node", "nodes"))}
	}
	rank := fmt.Sprintf("%s, %d of %d nodes were feasible; %s ranked %s", underWhat(x), x.Feasible, x.Nodes, x.Node,
		Ordinal(x.Rank))
	if x.MaxPoints > 0 {
		rank += fmt.Sprintf(" with %d of %d points", x.Chosen.Total, x.MaxPoints)
	}
	if x.Tied > 0 {
		rank += fmt.Sprintf(", as did %s", Count(int64(x.Tied), "other node", "other nodes"))
	}
	text := []string{rank + "."}
	switch {
	case x.Verdict == answer.Same:
		text = append(text, "Rollcall would have chosen it, too.")
	case x.Ours.Node == x.Nominated:
		text = append(text, fmt.Sprintf("Rollcall would have chosen %s, which was kept for the pod.", x.Ours.Node))
	case x.Rank == 1:
		text = append(text, fmt.Sprintf("Rollcall would have chosen %s, which is as good: the smaller name is first.",
			x.Ours.Node))
	default:
		text = append(text, fmt.Sprintf("Rollcall would have chosen %s with %d points.", x.Ours.Node, x.Ours.Total))
	}
	if x.Sample > 0 {
		text = append(text, fmt.Sprintf("kube-scheduler scores a sample of nodes: by default it stops searching at %d "+
			"feasible ones.", x.Sample))
	} else if x.Tied > 0 {
		text = append(text, "kube-scheduler chooses at random among equal nodes.")
	}
	return text
}

func infeasible(x *answer.Choice) []string {
	why := "no plugin says why"
	if len(x.Refusals) > 0 {
		r := &x.Refusals[0]
		if why = r.Plugin; r.Reason != "" {
			why += " (" + plainReason(*r) + ")"
		}
		if r.Nodes == 0 {
			why += ", the pod as a whole"
		}
	}
	text := []string{fmt.Sprintf("%s, %s was not feasible: refused by %s. %d of %d nodes were feasible.", underWhat(x),
		x.Node, why, x.Feasible, x.Nodes)}
	race := "Its scheduler decided on an earlier state, and something may have come between (a race), or reached the " +
		"log before the bind that it came after (a lag of a watch)"
	if c := x.NodeChanged; c != nil {
		race += fmt.Sprintf("; the last change of %s known before is entry %d, %s earlier: %s", x.Node, c.Seq,
			eventlog.Time(x.Time).Sub(eventlog.Time(c.Time)).Round(time.Millisecond), c.What)
	}
	text = append(text, race+".", "Or its scheduler runs with another configuration.")
	if x.Ours != nil {
		text = append(text, fmt.Sprintf("Rollcall would have chosen %s.", x.Ours.Node))
	}
	return text
}

func choiceLimits(x *answer.Choice) (text []string) {
	if x.Nominated != "" && (x.Ours == nil || x.Ours.Node != x.Nominated || x.Verdict == answer.Same) {
		text = append(text, fmt.Sprintf("%s was kept for it.", x.Nominated))
	}
	if x.Claims {
		text = append(text, "It has volumes or devices: their claims may have been bound for this node before the "+
			"pod, which then limits the nodes.")
	}
	if x.Extenders {
		text = append(text, "HTTP extenders have a say in it, and were not asked.")
	}
	if x.AfterGap {
		text = append(text, "It was bound while nothing was recorded, so the state may not be the one of then.")
	}
	if x.Together {
		text = append(text, "The log never had it without a node: it was made and bound between two reads.")
	}
	return text
}

func choiceGang(g *answer.ChoiceGang) string {
	if g.Waits == "" {
		return fmt.Sprintf("Its gang %s had its minimum of %d with it.", g.Group, g.Min)
	}
	text := fmt.Sprintf("Rollcall would not have bound it then, because of its gang %s: %s", g.Group, g.Waits)
	switch {
	case g.Fits == nil:
	case *g.Fits:
		text += "; all the members that it needs would have found nodes then"
	default:
		text += "; there was no room for all the members that it needs"
	}
	return text + "."
}

// Ordinal is a rank in words: first, second, third, and from eleven on 11th, 12th, 21st.
func Ordinal(n int) string {
	words := []string{"", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"}
	if n > 0 && n < len(words) {
		return words[n]
	}
	end := "th"
	if n/10%10 != 1 {
		end = cmp.Or(map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10], end)
	}
	return fmt.Sprintf("%d%s", n, end)
}
