package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	kai "github.com/rollcall-sched/rollcall/apis/kai/v2alpha2"
	volcano "github.com/rollcall-sched/rollcall/apis/volcano/v1beta1"
)

// parts are a gang's needs by the value of a member label. The values differ, and are sorted. Permit counts members of
// any part. So the gang is refused if some choice of members reaches the minimum and leaves a part short: see
// judgeParts. Example: the minimum 3 is 1 of ps and 2 of worker. With 1 ps and 2 workers all is well. With a third
// worker the gang is refused, because 3 workers alone would reach the minimum.
type parts struct {
	label string // of pods
	each  []part
}

// part is one of them.
type part struct {
	value string // of the label
	min   int
	field string // that gives min
}

// add takes a part in. One of which no members are needed is none.
func (p *parts) add(one part) {
	if one.min != 0 {
		p.each = append(p.each, one)
	}
}

// of returns the index of a member's part; ok is false for one of no part.
func (p *parts) of(m *Pod) (i int, ok bool) {
	return slices.BinarySearchFunc(p.each, m.facts.parts.of(p), func(one part, value string) int {
		return strings.Compare(one.value, value)
	})
}

// partCount counts members of a part. placed are bound or being bound. open can be chosen for the rest of the minimum:
// they wait on nodes, or a cycle could place them.
type partCount struct{ placed, open int }

// memberParts are the values that distinguish parts.
type memberParts struct {
	task, subGroup string // labels
	role           string // the annotation that Volcano reads before the label of the task
}

func partsOf(pod *v1.Pod) memberParts {
	return memberParts{
		task: pod.Labels[volcano.TaskLabel], subGroup: pod.Labels[kai.SubGroupLabel],
		role: pod.Annotations[volcano.TaskAnnotation],
	}
}

func (m memberParts) of(p *parts) string {
	switch {
	case p.label == kai.SubGroupLabel:
		return m.subGroup
	case m.role != "":
		return m.role
	}
	return m.task
}

// judgeParts finds a part of which those members need not be enough that have nodes and any others that bring the gang
// to its minimum. As long as these are too few nothing is said: others are waited for. Members that ended well count
// for any part, since it is not known any more of which they were.
func (g *Group) judgeParts() string {
	if g.parts == nil {
		return ""
	}
	d, ended := &g.declarations[0], g.counts.Succeeded
	lacking := d.terms.min - g.counts.Placed() - ended
	surplus := g.open - lacking
	if lacking <= 0 || surplus < 0 {
		return ""
	}
	for i, p := range d.parts.each {
		c := g.parts[i]
		if fewest := c.placed + max(0, c.open-surplus); fewest+ended < p.min {
			return fmt.Sprintf("%s %s has %s %d: more members could be placed than its minimum %d takes, which would "+
				"do without these; a minimum of a part is not carried out", d.resource, g, p.field, p.min, d.terms.min)
		}
	}
	return ""
}

// RefusedForParts reports whether the gang is refused for nothing but its parts, so that its minimum is known.
func (g *Group) RefusedForParts() bool { return g.Refusal() != "" && g.forParts }

// countParts counts the members again: the gang's object has come, changed or gone.
func (gs *Gangs) countParts(g *Group) {
	g.parts, g.open = nil, 0
	if len(g.declarations) == 0 || len(g.declarations[0].parts.each) == 0 {
		return
	}
	g.parts = make([]partCount, len(g.declarations[0].parts.each))
	// any order: sums
	for _, p := range g.members {
		gs.countPart(p, +1)
	}
}

// countPart counts a member in or out, as tally does.
func (gs *Gangs) countPart(p *Pod, sign int) {
	g := p.Group
	if g.parts == nil {
		return
	}
	if sign < 0 {
		gs.noteJudged(g)
	}
	var placed, open int
	switch {
	case p.hasNode():
		placed = sign
	case p.Stage <= Waiting && gs.isReady(p):
		open = sign
	}
	g.open += open
	if i, ok := g.declarations[0].parts.of(p); ok {
		g.parts[i].placed += placed
		g.parts[i].open += open
	}
	g.judged = false
}

// noteJudged notes whether a gang is refused whose members are about to be counted otherwise.
func (gs *Gangs) noteJudged(g *Group) {
	if _, noted := gs.judged[g]; !noted && !gs.restoring && !gs.nodes.unknown {
		gs.judged[g] = g.Refusal() != ""
	}
}

// takeJudged returns Changes.Judged.
func (gs *Gangs) takeJudged() []*Group {
	if len(gs.judged) == 0 {
		return nil
	}
	var changed []*Group
	for _, g := range slices.SortedFunc(maps.Keys(gs.judged), compareGroups) {
		if was := gs.judged[g]; was != (g.Refusal() != "") {
			changed = append(changed, g)
		}
	}
	clear(gs.judged)
	return changed
}
