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

// The gangs of generated histories that want the rest of them evicted when they have lost their minimum.

// past is what the books know of a gang beyond its pods and objects.
type past struct {
	met             bool // it had its minimum, and some of it is still there
	lost, succeeded int  // since it last had it
}

// remember brings the gangs' pasts up to date; gone is a member that just went, nil for none.
func (h *history) remember(gone *bookedPod, succeeded bool) {
	if gone != nil && gone.group != "" && h.pasts[gone.group].met && (gone.stage == cluster.Binding || gone.stage == cluster.Bound) {
		p := h.pasts[gone.group]
		if succeeded {
			p.succeeded++
		} else {
			p.lost++
		}
		h.pasts[gone.group] = p
	}
	placed := h.placed()
	for _, group := range []string{"g0", "g1", "g2", "g3"} {
		members, leaving := 0, 0
		// any order: counts
		for _, b := range h.pods {
			if b.group == group {
				members++
				if h.leaving(b) {
					leaving++
				}
			}
		}
		p := h.pasts[group]
		switch terms := h.terms(group); {
		case placed[group] == 0 && (p.lost > 0 && p.succeeded == 0 || p.succeeded >= terms.min || members == 0 || leaving > 0):
			delete(h.pasts, group)
		case terms.declared && placed[group] >= terms.min:
			h.pasts[group] = past{met: true}
		}
	}
}

// leaving says whether a pod that has its node for good is to give it up.
func (b *books) leaving(p *bookedPod) bool {
	if p.stage != cluster.Binding && p.stage != cluster.Bound {
		return false
	}
	return p.object.DeletionTimestamp != nil || b.evicting[p.object.UID] || b.nodes[p.node] == nil
}

// fallen returns the gang's members that are to be evicted.
func (h *history) fallen(group string) (members []types.UID) {
	terms, p := h.terms(group), h.pasts[group]
	if !terms.declared || !terms.evicts || h.refused(group) || p.lost == 0 || h.placed()[group]+p.succeeded >= terms.min {
		return nil
	}
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		b := h.pods[uid]
		if b.group == group && b.stage == cluster.Bound && b.object.DeletionTimestamp == nil && !h.evicting[uid] && b.object.Spec.SchedulerName != "somebody-else" {
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
	for _, group := range []string{"g0", "g1", "g2", "g3"} {
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
