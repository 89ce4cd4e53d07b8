package preemption

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// The pods that a plan may make go.

// findCandidates lists the targets that may be made to go.
func (pl *plan) findCandidates() bool {
	nodes, err := pl.p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return false
	}
	if pl.limit != nil {
		nodes = slices.DeleteFunc(
			slices.Clone(nodes),
			func(n fwk.NodeInfo) bool { return !slices.Contains(pl.limit, n.Node().Name) },
		)
	}
	budgets, err := pl.p.budgets()
	if err != nil {
		return false
	}
	targets, sorted := pl.p.targetsOf(pl.limit == nil, nodes)
	for _, u := range targets {
		if invariants {
			checkEnding(u, pl.p.going)
		}
		stay, going := u.split((*cluster.Pod).Ending)
		if going != nil {
			pl.gone = append(pl.gone, going)
			sorted = sorted && stay == nil // what is left of it is less important
		}
		if stay == nil || !pl.p.policy().MayPreempt(pl.by, &u.Victim) {
			continue
		}
		own := slices.ContainsFunc(u.pods, func(m *cluster.Pod) bool { return m.Group != nil && pl.ours[m.Object.UID] })
		if !own && !pl.p.spared(stay) {
			pl.candidates = append(pl.candidates, stay)
		}
	}
	if !sorted {
		slices.SortFunc(pl.candidates, pl.p.lessImportant)
	}
	pl.countViolations(budgets)
	if pl.wantsDevices() && pl.p.view.State().Devices().Freeable() {
		pl.awaited = pl.p.view.State().Devices().Awaiting()
		if pl.limit != nil {
			pl.awaited = slices.DeleteFunc(pl.awaited, func(n string) bool { return !slices.Contains(pl.limit, n) })
		}
	}
	return len(pl.candidates)+len(pl.gone)+len(pl.awaited) > 0
}

func (pl *plan) wantsDevices() bool {
	wants := func(m *cluster.Pod) bool { return len(m.Object.Spec.ResourceClaims) > 0 }
	return slices.ContainsFunc(pl.gangs, func(g *cluster.Group) bool { return slices.ContainsFunc(g.Members(), wants) })
}

// countViolations counts for each candidate the pods that a budget protects, and puts candidates with any behind the
// others.
func (pl *plan) countViolations(budgets []*policyv1.PodDisruptionBudget) {
	pl.counted = map[*target]int{}
	if len(budgets) == 0 {
		return
	}
	for i, n := range violations(pl.candidates, budgets) {
		if n > 0 {
			pl.counted[pl.candidates[i]] = n
		}
	}
	slices.SortStableFunc(pl.candidates, func(a, b *target) int {
		return min(pl.counted[a], 1) - min(pl.counted[b], 1)
	})
}

// knownTargets has all targets, the least important first, as long as version holds. It is a memo, because gangs that
// preempt come together, and a cluster has many pods. The victims of a decision are evicted, and still there, when the
// next gang searches for its own.
type knownTargets struct {
	targets []*target
	version cluster.VictimsVersion
	latest  time.Time // when the last pod started that has; pods that have not count as started later
	valid   bool
}

// targetsOf returns the targets on the nodes, all reports whether these are all there are; sorted says that they come
// the least important first. They must not be changed.
func (p *Preemption) targetsOf(all bool, nodes []fwk.NodeInfo) (targets []*target, sorted bool) {
	if _, plain := p.policy().(ByPriority); !all || !plain || !p.view.KeepsMemos() {
		p.planned.Listings++
		return p.targetsOn(nodes...), false
	}
	k, version := &p.known, p.view.State().VictimsVersion()
	if k.valid && k.version == version && k.latest.Before(p.handle.Now()) {
		if invariants {
			p.checkKnown(nodes)
		}
		return k.targets, true
	}
	p.planned.Listings++
	*k = knownTargets{targets: p.targetsOn(nodes...), version: version}
	slices.SortFunc(k.targets, p.lessImportant)
	for _, u := range k.targets {
		for _, m := range u.pods {
			if t := m.Object.Status.StartTime; t != nil && t.After(k.latest) {
				k.latest = t.Time
			}
		}
	}
	k.valid = k.latest.Before(p.handle.Now())
	return k.targets, true
}

// checkKnown panics if the memo differs from a new search.
func (p *Preemption) checkKnown(nodes []fwk.NodeInfo) {
	anew := p.targetsOn(nodes...)
	slices.SortFunc(anew, p.lessImportant)
	same := slices.EqualFunc(anew, p.known.targets, func(a, b *target) bool {
		return a.key == b.key && a.Kind == b.Kind && a.Priority == b.Priority && slices.Equal(a.pods, b.pods)
	})
	if !same {
		panic("preemption: the targets that are remembered are others than those that there are")
	}
}

// checkEnding panics if the cluster's state and the Machine's evictions differ about a pod of the target.
func checkEnding(u *target, going func(*v1.Pod) bool) {
	for _, m := range u.pods {
		if m.Ending() != (m.Object.DeletionTimestamp != nil || going(m.Object)) {
			panic("preemption: pod " + m.Object.Name + " is evicted in one place and not in another")
		}
	}
}

func (p *Preemption) lessImportant(a, b *target) int { return -p.moreImportant(a, b) }

// split returns the target's pods for which leaves is false, and the others; nil for none.
func (u *target) split(leaves func(*cluster.Pod) bool) (stay, going *target) {
	first := slices.IndexFunc(u.pods, leaves)
	if first < 0 {
		return u, nil
	}
	staying, leaving := slices.Clone(u.pods[:first]), []*cluster.Pod{u.pods[first]}
	for _, m := range u.pods[first+1:] {
		if leaves(m) {
			leaving = append(leaving, m)
		} else {
			staying = append(staying, m)
		}
	}
	return u.withPods(staying), u.withPods(leaving)
}
