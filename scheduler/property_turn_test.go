package scheduler_test

import (
	"cmp"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/queue"
)

// checkTurn: no attempt begins on an entity while one that comes before it lacks something that it needs.
func (h *history) checkTurn(d *eventlog.Decision) {
	e := h.m.Queue().Find(d.UID)
	if h.pods[d.UID].stage != cluster.Pending || e == nil || e.State() == queue.InFlight {
		return
	}
	for _, other := range h.m.Queue().All() {
		if s := other.State(); s != queue.Active && s != queue.Backoff && s != queue.Unschedulable {
			continue
		}
		key, its := other.Key(), e.Key()
		before := cmp.Or(
			cmp.Compare(e.Priority(), other.Priority()),
			cmp.Compare(other.FirstActive(), e.FirstActive()),
			queue.CompareKeys(key, its),
		) < 0
		if before && !h.hasEnough(key) {
			h.fatalf(
				"cycle %d is about %s, and %s %s is before it: %s",
				d.Cycle,
				its,
				key,
				other.State(),
				other.FirstActive(),
			)
		}
	}
}

// hasEnough reports whether an entity of the queue wants members beyond its minimum only.
func (h *history) hasEnough(key queue.Key) bool {
	enough := func(group string) bool {
		_, assigned := h.count(group)
		_, met := h.eras[group]
		return met && assigned >= h.terms(group).min
	}
	switch key.Type {
	case fwk.PodGroupKeyType:
		return enough(key.Name)
	case fwk.CompositePodGroupKeyType:
		_, ok := h.needed(key.Name)
		return ok && h.satisfied(key.Name, enough)
	}
	return false
}

// enterReservation checks that a reservation is for pods that pend, and has room for them once all that will have ended
// by their own declarations are gone.
func (h *history) enterReservation(d *eventlog.Decision) {
	left := map[string]amounts{}
	for _, place := range d.Places {
		n, p := h.nodes[place.Node], h.pods[place.UID]
		if n == nil || p == nil || p.stage != cluster.Pending || !h.ready(p) {
			h.fatalf("cycle %d reserves %s for %s", d.Cycle, place.Node, place.UID)
		}
		if _, ok := left[place.Node]; !ok {
			there := h.left(place.Node)
			// any order: sums
			for uid, other := range h.pods {
				at, ends := h.m.Cluster().Pods().Get(uid).Ends()
				if other.node == place.Node && other.stage != cluster.Waiting && ends && at <= max(d.WaitUntil, h.now) {
					for i, amount := range requests(other.object) {
						there[i] += amount
					}
				}
			}
			left[place.Node] = there
		}
		there := left[place.Node]
		for i, amount := range requests(p.object) {
			if there[i] -= amount; amount > 0 && there[i] < 0 {
				h.fatalf("cycle %d reserves more of %s than there will be at %s", d.Cycle, place.Node, d.WaitUntil)
			}
		}
		left[place.Node] = there
	}
}
