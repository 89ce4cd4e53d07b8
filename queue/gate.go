package queue

import (
	"cmp"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// test asks the PreEnqueue plugins of the profile about a pending member. It begins with the plugin that gated the
// member last, which is the most likely to do so again. The first plugin that does not answer Success gates the member.
func (q *Queue) test(m *member) {
	if m.placed || m.entity.resize {
		return
	}
	plugins := q.opts.Profiles[m.pod.Spec.SchedulerName].PreEnqueue
	last := -1
	if m.gate != nil {
		last = slices.IndexFunc(plugins, func(p fwk.PreEnqueuePlugin) bool { return p.Name() == m.gate.name })
		if last >= 0 && !q.passes(m, plugins[last]) {
			return
		}
	}
	for i, p := range plugins {
		if i != last && !q.passes(m, p) {
			return
		}
	}
	q.ungate(m)
}

// passes puts the member to one plugin, and gates it if the answer is not Success.
func (q *Queue) passes(m *member, p fwk.PreEnqueuePlugin) bool {
	s := p.PreEnqueue(q.ctx, m.pod)
	if s.IsSuccess() {
		return true
	}
	q.gate(m, q.plugin(m.pod.Spec.SchedulerName, p.Name()), s.Message())
	return false
}

// testAll tests every pending member.
func (q *Queue) testAll(e *Entity) {
	for _, m := range e.members {
		q.test(m)
	}
}

// gate records that p keeps the pending member out.
func (q *Queue) gate(m *member, p *plugin, message string) {
	e := m.entity
	if m.gate == p {
		m.message, e.gatingPlugin, e.gatingMessage = message, p.name, message
		return
	}
	q.ungate(m)
	e.count(m, -1)
	m.gate, m.message = p, message
	e.count(m, 1)
	e.gatingPlugin, e.gatingMessage = p.name, message
	for i := range e.gates {
		if e.gates[i].plugin == p {
			e.gates[i].members++
			return
		}
	}
	if !p.gating {
		p.gating = true
		i, _ := slices.BinarySearchFunc(q.gating, p, func(a, b *plugin) int {
			return cmp.Or(strings.Compare(a.profile, b.profile), strings.Compare(a.name, b.name))
		})
		q.gating = slices.Insert(q.gating, i, p)
	}
	e.gates = append(e.gates, gateRef{plugin: p, members: 1, slot: len(p.gates)})
	p.gates = append(p.gates, e)
}

// ungate records that nothing keeps the member out.
func (q *Queue) ungate(m *member) {
	if m.gate == nil {
		return
	}
	e, p := m.entity, m.gate
	e.count(m, -1)
	m.gate, m.message = nil, ""
	e.count(m, 1)
	if e.gated == 0 {
		e.gatingPlugin, e.gatingMessage = "", ""
	}
	i := e.gateIndex(p)
	if e.gates[i].members--; e.gates[i].members > 0 {
		return
	}
	slot, last := e.gates[i].slot, len(p.gates)-1
	moved := p.gates[last]
	p.gates[slot] = moved
	moved.gates[moved.gateIndex(p)].slot = slot
	p.gates[last] = nil
	p.gates = p.gates[:last]
	e.gates[i] = e.gates[len(e.gates)-1]
	e.gates = e.gates[:len(e.gates)-1]
}

// gateIndex is the place of p in gates.
func (e *Entity) gateIndex(p *plugin) int {
	for i := range e.gates {
		if e.gates[i].plugin == p {
			return i
		}
	}
	panic("queue: " + e.key.String() + " is not gated by " + p.name)
}
