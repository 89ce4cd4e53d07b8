package queue

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// strategy is the effect of an event on an entity that failed. The highest of the plugins' answers wins.
type strategy int

const (
	skip strategy = iota
	afterBackoff
	immediately
)

// pluginName is a plugin of a profile: profiles may configure one plugin differently.
type pluginName struct{ profile, plugin string }

// eventKind is the part of an event that registrations are matched against.
type eventKind struct {
	resource fwk.EventResource
	action   fwk.ActionType
}

// plugin is a plugin of a profile, with its registrations and memos.
type plugin struct {
	profile, name string
	// known says that the profile told which events it wants; otherwise it wants all.
	known bool
	regs  []*registration
	// matching are the registrations that match an event, by the event's number: nil until asked.
	matching [][]*registration
	// gates are the entities with a member that this plugin gates; gating says that it is in Queue.gating.
	gates  []*Entity
	gating bool
}

// registration is one event that a plugin registered.
type registration struct {
	event fwk.ClusterEvent
	hint  fwk.QueueingHintFn
	pre   fwk.PreQueueingHintFn
	// The answer of pre about the occurrence numbered answered: all pods, or these. Scratch, no state.
	answered uint64
	all      bool
	names    []types.NamespacedName
	named    map[types.NamespacedName]struct{}
}

// refusedAlike is the unschedulable entities that the same plugins of the same profile rejected. Whether these plugins
// registered an event is the same for all of them, so it is looked up once for all of them. Example: NodeResourcesFit
// alone rejected 10,000 pods, and an event comes that it did not register: one look shows that all of them stay.
type refusedAlike struct {
	rejectors []*plugin
	pending   []*plugin
	entities  []*Entity
}

// occurrence is one event. Each Move makes one.
type occurrence struct {
	id       int    // the number of the event's kind
	serial   uint64 // of the occurrence
	wildcard bool
	only     types.UID // a wildcard for the entity of this pod only; empty for all
	nobody   bool      // a wildcard that concerns no pod
	oldObj   any
	newObj   any
}

func (o *occurrence) concerns(e *Entity) bool {
	if o.nobody {
		return false
	}
	if o.only == "" {
		return true
	}
	for _, m := range e.members {
		if m.pod.UID == o.only {
			return true
		}
	}
	return false
}

// internProfiles makes the plugins that the profiles name.
func (q *Queue) internProfiles() {
	for _, profile := range slices.Sorted(maps.Keys(q.opts.Profiles)) {
		hints := q.opts.Profiles[profile].Hints
		for _, name := range slices.Sorted(maps.Keys(hints)) {
			p := &plugin{profile: profile, name: name, known: true}
			for _, h := range hints[name] {
				p.regs = append(p.regs, &registration{event: h.Event, hint: h.QueueingHintFn, pre: h.PreQueueingHintFn})
			}
			q.pluginsByName[pluginName{profile, name}] = p
			q.pluginsOf[profile] = append(q.pluginsOf[profile], p)
		}
	}
}

// plugin returns the plugin of the profile; the first call for it makes it.
func (q *Queue) plugin(profile, name string) *plugin {
	key := pluginName{profile, name}
	p := q.pluginsByName[key]
	if p == nil {
		p = &plugin{profile: profile, name: name}
		q.pluginsByName[key] = p
	}
	return p
}

// events are the events that the plugin registered.
func (p *plugin) events() []fwk.ClusterEvent {
	events := make([]fwk.ClusterEvent, len(p.regs))
	for i, r := range p.regs {
		events[i] = r.event
	}
	return events
}

// occur gives an event a number and finds its kind.
func (q *Queue) occur(ev fwk.ClusterEvent, oldObj, newObj any) occurrence {
	kind := eventKind{ev.Resource, ev.ActionType}
	id, ok := q.events[kind]
	if !ok {
		id = len(q.events)
		q.events[kind] = id
		// Matching depends on the kind only: found out once here, looked up by number ever after.
		// any order: every plugin is given its own table
		for _, p := range q.pluginsByName {
			p.match(id, kind)
		}
	}
	q.moves++
	o := occurrence{
		id:       id,
		serial:   q.moves,
		wildcard: framework.ClusterEventIsWildCard(ev),
		oldObj:   oldObj,
		newObj:   newObj,
	}
	if o.wildcard && newObj != nil {
		if pod, ok := newObj.(*v1.Pod); ok {
			o.only = pod.UID
		} else {
			o.nobody = true
		}
	}
	return o
}

// match fills in the registrations that match the event numbered id.
func (p *plugin) match(id int, kind eventKind) {
	if !p.known {
		return
	}
	ev := fwk.ClusterEvent{Resource: kind.resource, ActionType: kind.action}
	var regs []*registration
	for _, r := range p.regs {
		if framework.MatchClusterEvents(r.event, ev) {
			regs = append(regs, r)
		}
	}
	p.matching = append(p.matching, regs)
	if len(p.matching) != id+1 {
		panic("queue: plugin " + p.name + " missed an event")
	}
}

// reach returns which pods the plugin's registrations for the occurrence concern: all, some (the pods that a
// PreQueueingHintFn named), or none.
func (p *plugin) reach(o *occurrence) (all, some bool) {
	if !p.known {
		return true, false
	}
	for _, r := range p.matching[o.id] {
		r.narrow(o)
		if r.all {
			return true, false
		}
		some = some || len(r.names) > 0
	}
	return false, some
}

// narrow asks the PreQueueingHintFn, once an occurrence.
func (r *registration) narrow(o *occurrence) {
	if r.answered == o.serial {
		return
	}
	r.answered = o.serial
	r.all, r.names, r.named = true, nil, nil
	if r.pre == nil || o.oldObj == nil && o.newObj == nil {
		return
	}
	res, err := r.pre(klog.Logger{}, o.oldObj, o.newObj)
	if err != nil || res.AllPods {
		return
	}
	r.all, r.names = false, res.Pods
	r.named = make(map[types.NamespacedName]struct{}, len(res.Pods))
	for _, n := range res.Pods {
		r.named[n] = struct{}{}
	}
}

// wants asks the hints of p, for the members of e that it may concern, whether the occurrence makes a retry worthwhile.
// One Queue is enough. A hint that fails, or is missing, means Queue. The members concerned are the refused ones if
// these are known: a retry that helps another member is of no use to them. Otherwise they are the pending ones. heldToo
// asks for all members.
func (p *plugin) wants(e *Entity, o *occurrence, heldToo bool) bool {
	if !p.known {
		return true
	}
	if len(p.matching[o.id]) == 0 {
		return false
	}
	known := !heldToo && e.knowsRefused()
	for _, r := range p.matching[o.id] {
		r.narrow(o)
		for _, m := range e.members {
			if (heldToo || !m.placed && (m.refused || !known)) && r.wants(m, o) {
				return true
			}
		}
	}
	return false
}

// knowsRefused reports whether a pending member is known to have been refused by the last attempt.
func (e *Entity) knowsRefused() bool {
	return slices.ContainsFunc(e.members, func(m *member) bool { return m.refused && !m.placed })
}

func (r *registration) wants(m *member, o *occurrence) bool {
	if !r.all {
		if _, ok := r.named[types.NamespacedName{Namespace: m.pod.Namespace, Name: m.pod.Name}]; !ok {
			return false
		}
	}
	if r.hint == nil {
		return true
	}
	hint, err := r.hint(klog.Logger{}, m.pod, o.oldObj, o.newObj)
	return err != nil || hint == fwk.Queue
}

// Move takes in a change in the cluster (MoveAllToActiveOrBackoffQueue upstream). oldObj is the object before it, nil
// if it did not exist. newObj is the object after it, nil if it is gone.
//
// An unschedulable entity is retried after its backoff if a hint of a plugin that rejected it returns Queue. The hint
// is asked about its refused members, or about all pending ones if the refused ones are not known. If that plugin had
// answered Pending, the entity is retried at once. An entity that failed without a recorded plugin is retried by any
// event. A wildcard event retries all entities, or with a pod as newObj only the pod's entity.
//
// A gated member is tested again with PreEnqueue if the plugin that gates it registered the event and its hint returns
// Queue. For entities in flight, the plugins whose hints return Queue are remembered for Park.
func (q *Queue) Move(ev fwk.ClusterEvent, oldObj, newObj any) {
	q.changed()
	occurred := q.occur(ev, oldObj, newObj)
	o := &occurred
	for _, e := range q.flight {
		q.note(e, o)
	}
	for _, c := range q.alike {
		q.moveAlike(c, o)
	}
	// The plugins that gate a member now, in the order of their names: of the members that are tested, the last one's
	// reason is the entity's, and what was gated when must not matter to it.
	q.gatingNow = q.gatingNow[:0]
	for _, p := range q.gating {
		if len(p.gates) > 0 {
			q.gatingNow = append(q.gatingNow, p)
		}
	}
	for _, p := range q.gatingNow {
		q.moveGated(p, o)
	}
}

// moveAlike moves the entities refused alike for which the occurrence makes a retry worthwhile. A moved entity leaves
// the list, and the last one fills its place. So the loop runs from the end.
func (q *Queue) moveAlike(c *refusedAlike, o *occurrence) {
	if len(c.entities) == 0 {
		return
	}
	all, some := o.wildcard || len(c.rejectors)+len(c.pending) == 0, false
	for _, ps := range [...][]*plugin{c.pending, c.rejectors} {
		for _, p := range ps {
			if !all {
				a, s := p.reach(o)
				all, some = a, some || s
			}
		}
	}
	switch {
	case all:
		for i := len(c.entities) - 1; i >= 0; i-- {
			q.tell(c.entities[i], o)
		}
	case some:
		q.moveNamed(c, o)
	}
}

// moveNamed is moveAlike when every hint of interest named the pods that it is for.
func (q *Queue) moveNamed(c *refusedAlike, o *occurrence) {
	for _, ps := range [...][]*plugin{c.pending, c.rejectors} {
		for _, p := range ps {
			if !p.known {
				continue
			}
			for _, r := range p.matching[o.id] {
				for _, name := range r.names {
					if m := q.byName[name]; m != nil && m.entity.alike == c {
						q.tell(m.entity, o)
					}
				}
			}
		}
	}
}

// tell moves an unschedulable entity that is not retryable, if the occurrence makes a retry worthwhile.
func (q *Queue) tell(e *Entity, o *occurrence) bool {
	switch q.worth(e, o) {
	case immediately:
		q.activate(e)
		return true
	case afterBackoff:
		q.requeue(e)
		return true
	}
	return false
}

// worth returns the effect of the event on e, by the hints of the plugins that rejected it. Plugins that answered
// Pending are asked first: if one of them wants a retry, the entity skips its backoff, and no other answer matters.
func (q *Queue) worth(e *Entity, o *occurrence) strategy {
	if o.wildcard {
		if o.concerns(e) {
			return afterBackoff
		}
		return skip
	}
	c := e.alike
	if len(c.rejectors)+len(c.pending) == 0 {
		return afterBackoff
	}
	for _, p := range c.pending {
		if p.wants(e, o, false) {
			return immediately
		}
	}
	for _, p := range c.rejectors {
		if p.wants(e, o, false) {
			return afterBackoff
		}
	}
	return skip
}

// note remembers, for an entity in flight, the plugins whose hints want it retried after the event. It is not known yet
// which plugins will reject the entity. If one of these does, the entity is retried at once, see verdict: otherwise an
// event that comes in the middle of an attempt would be lost.
func (q *Queue) note(e *Entity, o *occurrence) {
	if o.wildcard {
		if o.concerns(e) {
			e.notedAny, e.notedAll = true, true
		}
		return
	}
	e.notedAny = true
	if len(e.noted) == len(q.pluginsOf[e.profile]) {
		return
	}
	for _, p := range q.pluginsOf[e.profile] {
		if len(p.matching[o.id]) == 0 {
			continue
		}
		i, found := slices.BinarySearch(e.noted, p.name)
		if !found && p.wants(e, o, true) {
			e.noted = slices.Insert(e.noted, i, p.name)
		}
	}
}

// wasNoted reports whether an event came while e was in flight after which the plugin would have it retried. For a
// plugin that registered no events, every event counts.
func (q *Queue) wasNoted(e *Entity, name string) bool {
	if !q.plugin(e.profile, name).known {
		return e.notedAny
	}
	_, found := slices.BinarySearch(e.noted, name)
	return found
}

// moveGated tests the members again that p gates, if the occurrence is one that p waits for.
func (q *Queue) moveGated(p *plugin, o *occurrence) {
	if len(p.gates) == 0 {
		return
	}
	all, some := true, false
	if !o.wildcard {
		all, some = p.reach(o)
	}
	switch {
	case all:
		for i := len(p.gates) - 1; i >= 0; i-- {
			q.tellGated(p.gates[i], p, o)
		}
	case some:
		for _, r := range p.matching[o.id] {
			for _, name := range r.names {
				if m := q.byName[name]; m != nil && m.gate == p && r.wants(m, o) {
					q.test(m)
					q.rest(m.entity)
				}
			}
		}
	}
}

// tellGated tests the members of e that p gates and whose hint says Queue.
func (q *Queue) tellGated(e *Entity, p *plugin, o *occurrence) {
	if o.wildcard && !o.concerns(e) {
		return
	}
	for _, m := range e.members {
		if m.gate != p {
			continue
		}
		if o.wildcard || !p.known || slices.ContainsFunc(p.matching[o.id], func(r *registration) bool {
			r.narrow(o)
			return r.wants(m, o)
		}) {
			q.test(m)
		}
	}
	q.rest(e)
}

// classify puts an unschedulable entity among the entities that failed for the same reasons.
func (q *Queue) classify(e *Entity) {
	reason := strings.Join(
		[]string{e.profile, strings.Join(e.plugins, "\x01"), strings.Join(e.pendingPlugins, "\x01")},
		"\x00",
	)
	c := q.alikeByReason[reason]
	if c == nil {
		c = &refusedAlike{}
		for _, name := range e.plugins {
			c.rejectors = append(c.rejectors, q.plugin(e.profile, name))
		}
		for _, name := range e.pendingPlugins {
			c.pending = append(c.pending, q.plugin(e.profile, name))
		}
		q.alikeByReason[reason] = c
		q.alike = append(q.alike, c)
	}
	e.alike, e.slot = c, len(c.entities)
	c.entities = append(c.entities, e)
}

// declassify takes it out again.
func (q *Queue) declassify(e *Entity) {
	c, last := e.alike, len(e.alike.entities)-1
	c.entities[e.slot] = c.entities[last]
	c.entities[e.slot].slot = e.slot
	c.entities[last] = nil
	c.entities = c.entities[:last]
	e.alike = nil
}
