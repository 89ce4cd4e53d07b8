package render

import (
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// choice writes who else bound the pod, and how good its node was.
func (p *page) choice(x *answer.Pod) {
	c := x.Choice
	if c == nil {
		if x.Unrated != "" {
			p.printf("\nHow good the node was is not known: %s.\n", x.Unrated)
		}
		return
	}
	p.printf("\n%s\n", c.Message)
	if c.Chosen != nil {
		p.pointsBeside(c.Chosen, c.Ours)
	}
}

// pointsBeside compares the points of two feasible nodes, plugin by plugin.
func (p *page) pointsBeside(chosen, ours *answer.NodeScore) {
	if len(chosen.Plugins) == 0 {
		return
	}
	other := func(int64) string { return "" }
	heading := []string{"POINTS", chosen.Node, ""}
	if ours.Node != chosen.Node {
		heading[2] = ours.Node
		other = func(n int64) string { return fmt.Sprint(n) }
	}
	var rows [][]string
	for i, s := range chosen.Plugins {
		theirs := int64(0)
		if i < len(ours.Plugins) {
			theirs = ours.Plugins[i].Weighted
		}
		if s.Weighted != 0 || theirs != 0 {
			rows = append(rows, []string{s.Plugin, fmt.Sprint(s.Weighted), other(theirs)})
		}
	}
	rows = append(rows, []string{"total", fmt.Sprint(chosen.Total), other(ours.Total)})
	p.table(heading, rows)
}

// managed writes who else queues the pod.
func (f *facts) managed(p *answer.Pod) {
	for i := range p.Managed {
		x := &p.Managed[i]
		var parts []string
		add := func(label, value string) {
			if value != "" {
				parts = append(parts, label+" "+value)
			}
		}
		add("queue", x.Queue)
		add("gang", x.Gang)
		add("part", x.Part)
		switch {
		case x.Admitted == nil:
		case *x.Admitted:
			parts = append(parts, "admitted")
		default:
			parts = append(parts, "not admitted yet")
		}
		if len(parts) == 0 {
			parts = append(parts, "its scheduler")
		}
		f.add(x.Project, "%s; as the pod says (%s): its own objects are not in the log", strings.Join(parts, ", "),
			strings.Join(x.From, ", "))
	}
	if p.Disruption != "" && p.Removal == nil {
		f.add("evicted", "by others: %s", p.Disruption)
	}
}
