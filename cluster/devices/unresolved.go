package devices

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Devices stay taken, as capacity does, until the result of the bind that may write them is logged: also if the claim
// is logged with them and then without, and if the pod's deletion comes first. Otherwise another claim could be given
// devices that the API server still has in the first one.

// isUnresolved reports whether a bind of the pod may still write its claims.
func (d *State) isUnresolved(uid types.UID) bool {
	p, ok := d.cluster.Pod(uid)
	return !ok || !p.Bound || d.returned[uid]
}

// HoldsUnresolved reports whether devices stay allocated for a pod that is being bound when it goes: until Resolve.
func (d *State) HoldsUnresolved(uid types.UID) bool {
	p, _ := d.cluster.Pod(uid)
	return (p.Binding || d.returned[uid]) && len(d.byPod[uid]) > 0
}

// NoteReturned notes that a bind is under way for a pod that was deleted and is back, if devices are allocated for it.
// The pod's object does not show the bind. The devices stay allocated until Resolve, or until another bind takes its
// place.
func (d *State) NoteReturned(uid types.UID) {
	if p, ok := d.cluster.Pod(uid); ok && !p.Binding && len(d.byPod[uid]) > 0 {
		d.returned[uid] = true
	}
}

// BoundElsewhere notes that a pod which was being bound is on another node: its bind is under way, and fails. Its
// devices stay allocated until Resolve.
func (d *State) BoundElsewhere(uid types.UID) {
	if len(d.byPod[uid]) > 0 {
		d.returned[uid] = true
	}
}

// Binding notes that a bind of the pod begins, in place of one that may still be under way.
func (d *State) Binding(uid types.UID) { delete(d.returned, uid) }

// Bound notes that the pod is bound: it does not depend any longer on claims that are logged as its decision has them.
func (d *State) Bound(uid types.UID) {
	if !d.returned[uid] {
		d.settle(uid)
	}
}

// Release takes back what was assumed for a pod that loses its node.
func (d *State) Release(uid types.UID) (c Changes) {
	if !d.returned[uid] {
		c = d.Forget(uid)
	}
	return c
}

// Gone notes that the pod is about to go.
func (d *State) Gone(uid types.UID) (c Changes) {
	if !d.HoldsUnresolved(uid) {
		c = d.Forget(uid)
	}
	delete(d.returned, uid)
	return c
}

// Unresolved returns the claims with the devices that are allocated for a bind that the pod's object does not show. The
// pod is gone, or was gone and is back, or is bound to another node.
func (d *State) Unresolved(uid types.UID) (list []eventlog.DeviceClaim) {
	if _, ok := d.cluster.Pod(uid); ok && !d.returned[uid] {
		return nil
	}
	for _, key := range d.byPod[uid] {
		list = append(list, d.assumed[key].claim())
	}
	return list
}

// Resolve frees the devices of a pod that is gone, because its bind's result is known. If the pod is back, they stay
// allocated if it is bound, or if a decision has given it a node since.
func (d *State) Resolve(uid types.UID, bound bool) (c Changes) {
	delete(d.returned, uid)
	switch p, ok := d.cluster.Pod(uid); {
	case !ok, !bound && !p.Waiting:
		return d.Forget(uid)
	case p.Bound:
		d.settle(uid)
	}
	return c
}
