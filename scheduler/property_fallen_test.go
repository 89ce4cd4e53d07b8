package scheduler_test

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// The fate of the gangs of generated histories once they had their minimum. These books follow members by UID, and
// count each time from all pods.

// era is the time since a gang first came to its minimum, for as long as there is something of it.
type era struct {
	needed map[types.UID]bool // placed members, when the gang last came to its minimum or later
	well   map[types.UID]bool // who ended well when it was needed
	lost   map[types.UID]bool // of those needed, who went otherwise
}

// keptPlaces are the pods of the gang that have been given a node, by a decision or by another scheduler, and may stay
// there.
func (b *books) keptPlaces(group string) map[types.UID]bool {
	settled := map[types.UID]bool{}
	// any order: fills a set
	for uid, p := range b.pods {
		if p.group == group && p.given() && !b.goes(p) {
			settled[uid] = true
		}
	}
	return settled
}

// given reports whether the pod is bound or being bound.
func (p *bookedPod) given() bool { return p.stage == cluster.Binding || p.stage == cluster.Bound }

// goes reports whether the pod is to go, or its node is gone under it.
func (b *books) goes(p *bookedPod) bool {
	return b.leaves(p) || p.given() && b.nodes[p.node] == nil
}

// missed counts the pods that the gang needs and will not have again.
func (b *books) missed(group string) int {
	n := len(b.eras[group].lost)
	// any order: a count
	for uid := range b.eras[group].needed {
		if p := b.pods[uid]; p != nil && b.goes(p) {
			n++
		}
	}
	return n
}

// ends notes that a pod goes.
func (b *books) ends(uid types.UID, succeeded bool) {
	p := b.pods[uid]
	e, ok := b.eras[p.group]
	if !ok || !e.needed[uid] {
		return
	}
	if succeeded && p.object.DeletionTimestamp == nil && !b.evicting[uid] {
		e.well[uid] = true
	} else {
		e.lost[uid] = true
	}
}

// remember brings the eras up to date.
func (b *books) remember() {
	for _, group := range groupNamesOfAll {
		settled, terms := b.keptPlaces(group), b.terms(group)
		e, met := b.eras[group]
		members, going := 0, 0
		// any order: counts
		for _, p := range b.pods {
			if p.group == group {
				members++
				if p.given() && b.goes(p) && (p.object.DeletionTimestamp != nil || b.nodes[p.node] == nil) {
					going++
				}
			}
		}
		_, lasts := b.object(group)
		lasts = lasts && met && len(e.well) > 0 && len(e.well) < terms.min
		switch {
		case len(settled) == 0 && !lasts &&
			(len(e.lost) > 0 && len(e.well) == 0 || len(e.well) >= terms.min || members == 0 || going > 0):
			delete(b.eras, group)
		case terms.declared && len(settled) >= terms.min:
			if !met {
				e.well = map[types.UID]bool{}
			}
			b.eras[group] = era{needed: settled, well: e.well, lost: map[types.UID]bool{}}
		case met:
			maps.Copy(e.needed, settled)
		}
	}
}

// groupNamesOfAll are the gangs that there are.
var groupNamesOfAll = []string{"g0", "g1", "g2", "g3"}

// fallen returns the gang's members that are to be evicted.
func (h *history) fallen(group string) (members []types.UID) {
	terms := h.terms(group)
	left := len(h.keptPlaces(group)) + len(h.eras[group].well)
	for _, x := range h.m.Unwanted() { // these may stay
		if p := h.pods[x.UID]; p != nil && p.group == group && p.given() && p.object.DeletionTimestamp == nil &&
			h.nodes[p.node] != nil {
			left++
		}
	}
	if !terms.declared || !terms.evicts || h.refused(group) || h.missed(group) == 0 || left >= terms.min {
		return nil
	}
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		b := h.pods[uid]
		if b.group == group && b.stage == cluster.Bound && b.object.DeletionTimestamp == nil && !h.evicting[uid] &&
			b.object.Spec.SchedulerName != "somebody-else" {
			members = append(members, uid)
		}
	}
	return members
}

// enterEviction checks that a gang is evicted as a whole, and only if it has fallen.
func (h *history) enterEviction(d *eventlog.Decision) {
	want, got := h.fallen(h.pods[d.UID].group), slices.Sorted(slices.Values(d.Victims))
	if len(got) == 0 || !slices.Equal(want, got) || !slices.Contains(got, d.UID) {
		h.fatalf("cycle %d evicts %v of gang %s; the books say %v", d.Cycle, got, h.pods[d.UID].group, want)
	}
	for _, uid := range got {
		h.evicting[uid] = true
	}
}

// checkFallen: when nothing is left to decide, nothing is left of a gang that has fallen that is not asked to go.
func (h *history) checkFallen() {
	for _, group := range groupNamesOfAll {
		if members := h.fallen(group); len(members) > 0 {
			h.fatalf("nothing is left to decide, and %v are left of gang %s, which has fallen", members, group)
		}
	}
}

// evictionComesBack deletes a pod that was asked to go.
func (h *history) evictionComesBack() {
	if len(h.evicting) == 0 {
		return
	}
	uid := rapid.SampledFrom(slices.Sorted(maps.Keys(h.evicting))).Draw(h.t, "evicted")
	h.step(h.deletionOf(uid))
}

func (h *history) deletionOf(uid types.UID) eventlog.Payload {
	return &eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: h.pods[uid].object.Name, UID: uid}
}

// binds are the effects that ask for a bind.
func binds(effects []scheduler.Effect) []scheduler.Effect {
	return slices.DeleteFunc(slices.Clone(effects), func(x scheduler.Effect) bool { return x.Kind != scheduler.Bind })
}
