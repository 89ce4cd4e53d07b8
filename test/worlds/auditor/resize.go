package auditor

import "slices"

// awaitsResize reports whether a pod is on its node, and its resize, which the kubelet has deferred, is up to the
// scheduler: its profile has the plugin that the feature gate adds.
func (s *state) awaitsResize(p *pod) bool {
	profile := s.profiles[p.object.Spec.SchedulerName]
	return p.stage == bound && !p.leaving && p.object.Metadata.DeletionTimestamp == nil &&
		profile != nil && profile.plugins["DeferredPodScheduling"] &&
		slices.ContainsFunc(p.object.Status.Conditions, func(c struct{ Type, Reason string }) bool {
			return c.Type == "PodResizePending" && c.Reason == "Deferred"
		})
}

// resized records a Decision on a pod that keeps its node, and checks its victims. They are less important pods of
// that node. Without them the pod has room there for its requests, and none of them could stay.
func (a *auditor) resized(p *pod, d *decision) {
	const check = "preemption"
	if d.Group != "" || d.Nominated != "" {
		a.find(check, "the Decision on the resize of pod %s names the gang %q and the node %q", p.name, d.Group,
			d.Nominated)
	}
	a.checkTurnedAway(p, d)
	for _, uid := range d.Rejected {
		a.rejected(uid)
	}
	if len(d.Victims) > 0 {
		a.checkResizeVictims(p, d)
	}
	a.carryOut(d)
	a.noteComplete()
}

func (a *auditor) checkResizeVictims(p *pod, d *decision) {
	const check = "preemption"
	a.asked(check)
	victims, ok := a.lessImportant(p, "the resize of "+p.name, d, func(victim *pod) string {
		if victim.node != p.node {
			return "is not on node " + p.node
		}
		return ""
	})
	if !ok {
		return
	}
	node := a.nodes[p.node]
	if node == nil {
		a.find(check, "pods are preempted for the resize of %s, whose node %s is gone", p.name, p.node)
		return
	}
	a.asked("victims-needed")
	if why := a.overCapacity(p, node, a.leavingToo(victims)); why != "" {
		a.find("victims-needed", "the resize of pod %s does not fit without its victims: %s", p.name, why)
	}
	for uid := range victims {
		kept := without{}
		for other := range victims {
			kept[other] = other != uid
		}
		g := a.groups[a.pods[uid].gang]
		if (g == nil || !a.terms(g).whole) && a.overCapacity(p, node, kept) == "" {
			a.find("victims-needed", "pod %s need not go for the resize of %s", a.pods[uid].name, p.name)
		}
	}
}
