package effect

import (
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Carry takes on the effects of a Ready, and stops sending the evictions of its withdrawals. It never blocks. The
// decisions of all effects must be durable. Carry ignores an effect that is being carried out already, and the
// withdrawal of an eviction that is not. An eviction that was sent before its withdrawal ends as it would have.
func (e *Effects) Carry(ready engine.Ready) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range ready.Effects {
		e.carry(x)
	}
	for _, w := range ready.Withdrawals {
		e.withdraw(w)
	}
}

func (e *Effects) carry(x engine.Effect) {
	l := e.lanes[x.UID]
	if l == nil {
		l = &lane{}
		e.lanes[x.UID] = l
	}
	for _, t := range l.tasks {
		if t.Kind == x.Kind && t.Seq == x.Seq {
			return
		}
	}
	t := &task{Effect: x, due: true, withdrawn: new(atomic.Bool)}
	e.withdrawGivingBack(t)
	t.step = e.start(t)
	l.tasks = append(l.tasks, t)
	e.outstanding++
	e.offer(l)
}

func (e *Effects) withdraw(w engine.Withdrawal) {
	l := e.lanes[w.UID]
	if l == nil {
		return
	}
	for _, t := range l.tasks {
		if t.Kind == scheduler.Evict && t.Seq == w.Seq && t.withdrawn.CompareAndSwap(false, true) && !l.running {
			t.due = true // it waits no longer for its next try
		}
	}
	e.offer(l)
}

// start returns the first step of an effect.
func (e *Effects) start(t *task) step {
	x := t.Effect
	switch x.Kind {
	case scheduler.Bind:
		b := &binding{Effects: e, Effect: x}
		if x.Earlier {
			return b.look
		}
		return b.reserveClaims
	case scheduler.Evict:
		v := &eviction{Effects: e, Effect: x, withdrawn: t.withdrawn, began: e.opts.Clock.Now()}
		return v.look
	case scheduler.GiveBack:
		return e.givingBack(t).begin
	case scheduler.Ask:
		a := &asking{Effects: e, Effect: x}
		return a.ask
	}
	panic(fmt.Sprintf("effect of unknown kind %d on pod %s/%s", x.Kind, x.Namespace, x.Name))
}

// withdrawGivingBack has the claims stay that a pod is about to use which is to be bound, whichever of the two effects
// is taken on first. e.mu is held.
func (e *Effects) withdrawGivingBack(t *task) {
	if t.Kind == scheduler.GiveBack {
		for _, l := range e.lanes { // any order: one is enough
			t.withdrawn.Store(t.withdrawn.Load() || slices.ContainsFunc(l.tasks, func(bind *task) bool {
				return bind.uses(t.UID)
			}))
		}
		return
	}
	for _, group := range t.GroupClaims { // any order: each is withdrawn
		if l := e.lanes[group.UID]; l != nil {
			for _, other := range l.tasks {
				other.withdrawn.Store(other.withdrawn.Load() || other.Kind == scheduler.GiveBack)
			}
		}
	}
}

// uses reports whether the pod to be bound uses claims of the PodGroup.
func (t *task) uses(group types.UID) bool {
	for _, of := range t.GroupClaims { // any order: one is enough
		if of.UID == group {
			return true
		}
	}
	return false
}
