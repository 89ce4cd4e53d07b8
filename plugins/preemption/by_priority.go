package preemption

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
)

// PriorityPolicy is the name of ByPriority in configurations.
const PriorityPolicy = "Priority"

// ByPriority is the victim policy of kube-scheduler: a pod preempts pods of lower priority.
type ByPriority struct{}

var _ framework.VictimPolicy = ByPriority{}

// MayPreempt implements framework.VictimPolicy.
func (ByPriority) MayPreempt(p framework.Preemptor, v *framework.Victim) bool {
	return v.Priority < p.Priority
}

// Compare implements framework.VictimPolicy: it is kube-scheduler's MoreImportantVictim.
func (ByPriority) Compare(a, b *framework.Victim) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(b.Kind, a.Kind),
		cmp.Compare(len(b.Pods), len(a.Pods)),
		a.Started.Compare(b.Started),
	)
}

// Below implements framework.VictimPolicy.
func (ByPriority) Below(p framework.Preemptor) (priority int32, ok bool) { return p.Priority, true }

// policy returns the victim policy of the profile, ByPriority if it has none.
func (p *Preemption) policy() framework.VictimPolicy {
	if policy := p.handle.Victims(); policy != nil {
		return policy
	}
	return ByPriority{}
}

// preemptor returns a pod as the one for which others are preempted.
func (p *Preemption) preemptor(pod *v1.Pod) framework.Preemptor {
	return framework.Preemptor{Pod: pod, Priority: p.view.State().Gangs().PriorityOf(pod)}
}

// VictimOf returns a pod by itself as a victim. now is the start of a pod that has not started.
func VictimOf(pod *v1.Pod, gangs *cluster.Gangs, now time.Time) *framework.Victim {
	v := &framework.Victim{
		Pods: []*v1.Pod{pod}, Priority: gangs.PriorityOf(pod), Kind: framework.PodVictim, Started: startOf(pod, now),
	}
	if gangs.OfPod(pod) != nil {
		v.Kind = framework.GangVictim
	}
	return v
}

// mayPreemptPod reports whether a pod may be preempted by itself.
func (p *Preemption) mayPreemptPod(by framework.Preemptor, pod *v1.Pod) bool {
	return p.policy().MayPreempt(by, VictimOf(pod, p.view.State().Gangs(), p.handle.Now()))
}

// hasVictims reports whether there may be a victim for the preemptor.
func (p *Preemption) hasVictims(by framework.Preemptor) bool {
	below, known := p.policy().Below(by)
	return !known || below > p.view.State().LowestPriority()
}

// accepts reports whether the policy lets all victims be evicted together.
func (p *Preemption) accepts(by framework.Preemptor, victims []*target) bool {
	sets, ok := p.policy().(framework.VictimSets)
	if !ok {
		return true
	}
	all := make([]*framework.Victim, len(victims))
	for i, v := range victims {
		all[i] = &v.Victim
	}
	return sets.Accepts(by, all)
}

// withPods returns the target with some of its pods only.
func (u *target) withPods(pods []*cluster.Pod) *target {
	if len(pods) == 0 {
		return nil
	}
	c := *u
	c.pods, c.Pods = pods, objects(pods)
	return &c
}
