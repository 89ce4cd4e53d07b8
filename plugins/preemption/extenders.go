package preemption

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
)

// HTTP extenders in preemption: kube-scheduler's callExtenders (pkg/scheduler/framework/preemption/preemption.go), cut
// in two. Extenders cannot be asked within a cycle. So the first cycle that finds candidates leaves the question in its
// state (Consultation), and the scheduler sends it. The cycle after the answer searches for candidates again, and
// applies the answer to the candidates that are unchanged.

// maxCandidates is the number of candidates that extenders are asked about, the cheapest ones. maxVictims is the number
// of victims that these have together, beyond the first candidate.
const maxCandidates, maxVictims = 500, 10_000

// The reasons for which the plugin, or extenders, leave no node.
const (
	madeInVain     = "HTTP extenders refused it nodes where pods had been evicted for it"
	noneLeft       = "the extenders leave no node where pods could be evicted"
	othersByNow    = "other pods than the extenders were asked about would have to be evicted by now"
	waitsForAnswer = "HTTP extenders are asked about the pods that would be evicted"
)

// Consultation is the part of extenders in a cycle's state: the question, or the answer.
type Consultation struct {
	// Ask are the candidates that they are to be asked about, by node; nil for no question.
	Ask []eventlog.Candidate
	// Refusal says why nobody is evicted, as the extenders' own; nil for no reason.
	Refusal *fwk.Status
}

// IsOthersByNow reports whether a rejection means that the victims have changed since extenders were asked. The pod is
// tried again after its backoff, and extenders are asked about the new victims.
func IsOthersByNow(r eventlog.Rejection) bool {
	return r.Plugin == framework.ExtenderName && r.Reason == othersByNow
}

// Clone implements fwk.StateData.
func (c *Consultation) Clone() fwk.StateData { return c }

const consultationKey fwk.StateKey = Name + "/extenders"

// Consulted returns the Consultation of the cycle, nil for none.
func Consulted(state fwk.CycleState) *Consultation {
	data, err := state.Read(consultationKey)
	if err != nil {
		return nil
	}
	return data.(*Consultation)
}

// consult returns the candidates that extenders leave, with the victims that they want. If they are still to be asked,
// or leave none, end ends PostFilter.
func (p *Preemption) consult(state fwk.CycleState, pod *v1.Pod, found []candidate) (
	left []candidate, end func() (*fwk.PostFilterResult, *fwk.Status),
) {
	verdict := p.view.Extended(pod)
	switch {
	case verdict == nil:
		return found, nil
	case len(verdict.Asked) == 0:
		state.Write(consultationKey, &Consultation{Ask: p.question(found)})
		return nil, func() (*fwk.PostFilterResult, *fwk.Status) {
			return nil, fwk.NewStatus(fwk.Unschedulable, waitsForAnswer)
		}
	}
	refuse := func(code fwk.Code, why string) func() (*fwk.PostFilterResult, *fwk.Status) {
		refusal := fwk.NewStatus(code, why).WithPlugin(framework.ExtenderName)
		state.Write(consultationKey, &Consultation{Refusal: refusal})
		return func() (*fwk.PostFilterResult, *fwk.Status) {
			return p.keptNomination(pod), fwk.NewStatus(fwk.Unschedulable)
		}
	}
	kept, err := keptBy(verdict.Answers, verdict.Asked)
	switch {
	case err != nil:
		return nil, refuse(fwk.Error, err.Error())
	case len(kept) == 0:
		refuse(fwk.Unschedulable, noneLeft)
		return nil, notHelpful
	}
	for _, c := range kept {
		i := slices.IndexFunc(found, func(f candidate) bool { return f.node == c.Node })
		if i < 0 || !wasAsked(verdict.Asked, found[i]) {
			continue
		}
		with, err := p.withVictims(pod, found[i], c)
		if err != nil {
			return nil, refuse(fwk.Error, err.Error())
		}
		left = append(left, with)
	}
	if len(left) == 0 {
		return nil, refuse(fwk.Unschedulable, othersByNow)
	}
	return left, nil
}

// keptNomination returns nil, so that the pod's nomination stays as it is, as where kube-scheduler fails. It takes the
// nomination away if extenders refuse its node.
func (p *Preemption) keptNomination(pod *v1.Pod) *fwk.PostFilterResult {
	if vain, _ := p.view.InVain(pod.UID); slices.Contains(vain, pod.Status.NominatedNodeName) {
		return upstream.NewPostFilterResultWithNominatedNode("")
	}
	return nil
}

// wasAsked reports whether extenders were asked about the candidate as it is.
func wasAsked(asked []eventlog.Candidate, c candidate) bool {
	return slices.ContainsFunc(asked, func(a eventlog.Candidate) bool {
		return a.Node == c.node && sameUIDs(a.Victims, uidsOf(c.victims))
	})
}

// question returns the candidates to ask extenders about: the ones that would cost least, by node.
func (p *Preemption) question(found []candidate) (ask []eventlog.Candidate) {
	found = slices.Clone(found)
	slices.SortFunc(found, p.compare)
	victims := 0
	for _, c := range found {
		victims += len(c.victims)
		if len(ask) == maxCandidates || len(ask) > 0 && victims > maxVictims {
			break
		}
		ask = append(ask, eventlog.Candidate{Node: c.node, Victims: uidsOf(c.victims), Violations: int64(c.violations)})
	}
	slices.SortFunc(ask, func(a, b eventlog.Candidate) int { return cmp.Compare(a.Node, b.Node) })
	return ask
}

// keptBy returns the candidates that the extenders leave. If an extender may be ignored, an answer of it that is an
// error is ignored, and so is a node that it names without victims.
func keptBy(answers []framework.PreemptAnswer, asked []eventlog.Candidate) ([]eventlog.Candidate, error) {
	for _, a := range answers {
		if len(asked) == 0 {
			break // the others were not asked
		}
		if a.Failed && a.Ignorable {
			continue
		}
		if a.Failed {
			return nil, fmt.Errorf("extender %s gave no answer", a.Extender)
		}
		var kept []eventlog.Candidate
		for _, c := range a.Candidates {
			if len(c.Victims) > 0 {
				kept = append(kept, c)
			} else if !a.Ignorable {
				return nil, fmt.Errorf("extender %s names no pod to evict on node %s", a.Extender, c.Node)
			}
		}
		asked = kept
	}
	return asked, nil
}

// withVictims returns a candidate with the victims that extenders want. They must be pods that may be evicted for the
// pod from that node. If a victim belongs to a group that goes as a whole, all its pods are victims.
func (p *Preemption) withVictims(pod *v1.Pod, c candidate, want eventlog.Candidate) (candidate, error) {
	c.violations = int(want.Violations)
	if sameUIDs(uidsOf(c.victims), want.Victims) {
		return c, nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(c.node)
	if err != nil {
		return c, err
	}
	var victims []*target
	targets := p.evictable(pod, node)
	for _, uid := range want.Victims {
		i := slices.IndexFunc(targets, func(u *target) bool {
			return slices.ContainsFunc(u.pods, func(pod *cluster.Pod) bool { return pod.Object.UID == uid })
		})
		if i < 0 {
			return c, fmt.Errorf("the extenders want pod %s evicted from node %s, which may not be", uid, c.node)
		}
		if !slices.Contains(victims, targets[i]) {
			victims = append(victims, targets[i])
		}
	}
	slices.SortFunc(victims, p.moreImportant)
	c.victims = nil
	for _, u := range victims {
		c.victims = append(c.victims, u.pods...)
	}
	return c, nil
}

// nothingLeft ends PostFilter where no node is a candidate.
func (p *Preemption) nothingLeft(pod *v1.Pod) (*fwk.PostFilterResult, *fwk.Status) {
	if vain, _ := p.view.InVain(pod.UID); len(vain) > 0 {
		return upstream.NewPostFilterResultWithNominatedNode(""), fwk.NewStatus(fwk.Unschedulable, madeInVain)
	}
	return notHelpful()
}

// vainFor returns the nodes where room was made for members without success.
func (p *Preemption) vainFor(pl *plan) (nodes []string, exhausted bool) {
	for _, g := range pl.gangs {
		for _, m := range g.Members() {
			vain, all := p.view.InVain(m.Object.UID)
			nodes, exhausted = append(nodes, vain...), exhausted || all
		}
	}
	return nodes, exhausted
}

// leavingOut returns the nodes (nil: all) without some others; nil if these are none and all may be used.
func (p *Preemption) leavingOut(nodes, others []string) []string {
	if len(others) == 0 {
		return nodes
	}
	if nodes == nil {
		all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return []string{}
		}
		for _, n := range all {
			nodes = append(nodes, n.Node().Name)
		}
	}
	left := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return slices.Contains(others, name) })
	return append([]string{}, left...) // never nil, which would be all nodes
}

func uidsOf(pods []*cluster.Pod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.Object.UID
	}
	return uids
}

// sameUIDs reports whether the lists have the same pods, in any order.
func sameUIDs(a, b []types.UID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
