package preemption

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
)

// Preemption for a pod by itself: kube-scheduler's DefaultPreemption, step by step.

// candidate is a node on which the pod would fit, and who would have to go.
type candidate struct {
	node       string
	victims    []*cluster.Pod // the most important first; never empty
	violations int
}

func (p *Preemption) preemptForPod(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	if why := p.ineligible(ctx, state, pod, statuses); why != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	if _, exhausted := p.view.InVain(pod.UID); exhausted {
		return p.keptNomination(pod), fwk.NewStatus(fwk.Unschedulable, madeInVain)
	}
	candidates, err := p.candidates(ctx, state, pod, statuses)
	if err != nil && len(candidates) == 0 {
		return nil, fwk.AsStatus(err)
	}
	if len(candidates) == 0 {
		return p.nothingLeft(pod)
	}
	candidates, end := p.consult(state, pod, candidates)
	if end != nil {
		return end()
	}
	best := slices.MinFunc(candidates, p.compare)
	proposal := &Proposal{
		Victims:     p.turnAway(best.victims),
		Nominations: p.yields(p.preemptor(pod), best.node),
	}
	return propose(state, best.node, proposal)
}

// ineligible returns the reason why the pod must not preempt, "" for none. It may not want to. Pods may be ending on
// the node that it is nominated to, or enough devices may be about to come free there, unless that node has been ruled
// out.
func (p *Preemption) ineligible(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	statuses fwk.NodeToStatusReader) string {
	if !p.view.State().Gangs().MayPreempt(pod) {
		return "its preemptionPolicy is Never"
	}
	if g := p.beyondGang(pod); g != nil && g.MatchPolicy() == gang.OnlyWaiting {
		return "its pod group has its minimum only until the others are bound"
	}
	nominated := pod.Status.NominatedNodeName
	if isResized(pod) {
		nominated = pod.Spec.NodeName
	}
	if nominated == "" || statuses.Get(nominated).Code() == fwk.UnschedulableAndUnresolvable {
		return ""
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nominated)
	if err != nil {
		return ""
	}
	by := p.preemptor(pod)
	for _, other := range node.GetPods() {
		if p.going(other.GetPod()) && p.mayPreemptPod(by, other.GetPod()) {
			return fmt.Sprintf("it waits for pods to end on node %s", nominated)
		}
	}
	if p.awaitsDevices(ctx, state, pod, node) {
		return fmt.Sprintf("it waits for devices of pods that have ended on node %s", nominated)
	}
	return ""
}

// awaitsDevices reports whether the pod will fit the node once the claims of pods that have ended give their devices
// back.
func (p *Preemption) awaitsDevices(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	view := p.view.State()
	if len(pod.Spec.ResourceClaims) == 0 || !view.Devices().Freeable() || !view.Devices().Awaits(node.Node().Name) {
		return false
	}
	return p.newTrial(ctx, state, pod, node).fits()
}

// beyondGang returns the gang of a pod that is beyond what the gang needs. It returns nil for other pods.
func (p *Preemption) beyondGang(pod *v1.Pod) *cluster.Group {
	g := p.view.State().Gangs().OfPod(pod)
	if g == nil || isResized(pod) || g.Independent() || p.view.GangPlugin() == "" {
		return nil
	}
	return g
}

// sparing returns targets that can go together without taking a running gang below its minimum, the least important
// first. Example: of a gang with minimum 2 three members run, two of them on this node. One of the two may go.
func (p *Preemption) sparing(targets []*target) (kept []*target) {
	slices.SortFunc(targets, p.lessImportant)
	left := spares{}
	for _, u := range targets {
		if left.take(u) {
			kept = append(kept, u)
		}
	}
	return kept
}

// spares has the number of members of each gang that may still go.
type spares map[*cluster.Group]int

// take notes that a target goes. It returns false, and does nothing, if a gang would fall below its minimum by it.
func (s spares) take(u *target) bool {
	going := map[*cluster.Group]int{}
	for _, v := range u.pods {
		if v.Group == nil || v.Stage == cluster.Waiting || v.Leaving() {
			continue
		}
		surplus, guarded := v.Group.CanLose()
		if !guarded {
			continue
		}
		if _, seen := s[v.Group]; !seen {
			s[v.Group] = surplus
		}
		going[v.Group]++
	}
	// any order: all of them must do
	for g, n := range going {
		if n > s[g] {
			return false
		}
	}
	// any order: each by itself
	for g, n := range going {
		s[g] -= n
	}
	return true
}

// candidates tries the refused nodes where fewer pods could help, in order, until there are as many candidates as the
// arguments ask for, one of which violates no budget. err is the first error on the way.
func (p *Preemption) candidates(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	statuses fwk.NodeToStatusReader,
) (out []candidate, err error) {
	if !p.hasVictims(p.preemptor(pod)) {
		return nil, nil
	}
	nodes, err := statuses.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	if vain, _ := p.view.InVain(pod.UID); len(vain) > 0 {
		nodes = slices.DeleteFunc(nodes, func(n fwk.NodeInfo) bool { return slices.Contains(vain, n.Node().Name) })
	}
	budgets, err := p.budgets()
	if err != nil {
		return nil, err
	}
	wanted, harmless, tried := p.wanted(len(nodes)), 0, 0
	for _, node := range nodes {
		tried++
		c, nodeErr := p.tryNode(ctx, state, pod, node, budgets)
		err = cmp.Or(err, nodeErr)
		if c == nil {
			continue
		}
		if out = append(out, *c); c.violations == 0 {
			harmless++
		}
		if harmless > 0 && len(out) >= wanted {
			break
		}
	}
	tracePod(p, state, pod, nodes[:tried], out)
	return out, err
}

// wanted is the number of candidates that are enough, for so many nodes.
func (p *Preemption) wanted(nodes int) int {
	n := nodes * int(p.args.MinCandidateNodesPercentage) / 100
	return min(max(n, int(p.args.MinCandidateNodesAbsolute)), nodes)
}

// evictable returns the targets on the node that may be made to go for the pod.
func (p *Preemption) evictable(pod *v1.Pod, node fwk.NodeInfo) []*target {
	by, policy := p.preemptor(pod), p.policy()
	stays := func(u *target) bool { return !policy.MayPreempt(by, &u.Victim) || p.spared(u) }
	targets := slices.DeleteFunc(p.targetsOn(node), stays)
	if p.beyondGang(pod) != nil {
		targets = p.sparing(targets)
	}
	if own := p.view.State().Gangs().OfPod(pod); own != nil && isResized(pod) {
		targets = slices.DeleteFunc(targets, func(u *target) bool { return u.has(own) })
	}
	return targets
}

// tryNode thinks away all targets on the node that are less important than the pod, and takes back as many as it can.
// It returns nil if the pod does not fit even without them, or if there are none.
func (p *Preemption) tryNode(
	ctx context.Context,
	state fwk.CycleState,
	pod *v1.Pod,
	node fwk.NodeInfo,
	budgets []*policyv1.PodDisruptionBudget,
) (*candidate, error) {
	targets := p.evictable(pod, node)
	if len(targets) == 0 {
		return nil, nil
	}
	t := p.newTrial(ctx, state, pod, node)
	for _, u := range targets {
		t.remove(u)
	}
	if !t.fits() {
		return nil, t.err
	}
	slices.SortFunc(targets, p.moreImportant)
	c := &candidate{node: node.Node().Name}
	counts := violations(targets, budgets)
	var victims []*target
	for _, protected := range []bool{true, false} {
		for i, u := range targets {
			if counts[i] > 0 == protected && !t.takeBack(u) {
				victims = append(victims, u)
				c.violations += counts[i]
			}
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	slices.SortFunc(victims, p.moreImportant)
	if !p.accepts(p.preemptor(pod), victims) {
		return nil, nil
	}
	for _, u := range victims {
		c.victims = append(c.victims, u.pods...)
	}
	if len(c.victims) == 0 {
		return nil, nil // no pod is in the way there
	}
	return c, nil
}

// trial is a copy of a node, and of the plugins' state about it, from which pods are removed.
type trial struct {
	p     *Preemption
	ctx   context.Context
	state fwk.CycleState
	pod   *v1.Pod
	node  fwk.NodeInfo
	err   error
}

func (p *Preemption) newTrial(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *trial {
	t := &trial{p: p, ctx: ctx, state: state.Clone(), pod: pod, node: node.Snapshot()}
	framework.MarkDryRun(t.state)
	return t
}

// remove removes pods of the target on other nodes from the plugins' cycle state only: nothing is filtered there.
func (t *trial) remove(u *target) {
	t.each(u, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == t.node {
			if err := node.RemovePod(klog.Logger{}, info.GetPod()); err != nil {
				return err
			}
			cluster.KeepPorts(node, info.GetPod())
		}
		return t.p.handle.RunPreFilterExtensionRemovePod(t.ctx, t.state, t.pod, info, node).AsError()
	})
}

func (t *trial) add(u *target) {
	t.each(u, func(info fwk.PodInfo, node fwk.NodeInfo) error {
		if node == t.node {
			node.AddPodInfo(info)
		}
		return t.p.handle.RunPreFilterExtensionAddPod(t.ctx, t.state, t.pod, info, node).AsError()
	})
}

func (t *trial) each(u *target, do func(fwk.PodInfo, fwk.NodeInfo) error) {
	for _, pod := range u.pods {
		node := t.node
		if pod.Node != node.Node().Name {
			var err error
			if node, err = t.p.handle.SnapshotSharedLister().NodeInfos().Get(pod.Node); err != nil {
				continue // its node is gone
			}
		}
		if err := do(pod.Info(), node); err != nil {
			t.err = cmp.Or(t.err, err)
			return
		}
	}
}

// fits reports whether the pod fits the node in the trial.
func (t *trial) fits() bool {
	if t.err != nil {
		return false
	}
	status := t.p.handle.RunFilterPluginsWithNominatedPods(t.ctx, t.state, t.pod, t.node)
	if status.IsError() {
		t.err = status.AsError()
	}
	return status.IsSuccess()
}

// takeBack puts the target back if the pod still fits then.
func (t *trial) takeBack(u *target) bool {
	t.add(u)
	if t.fits() {
		return true
	}
	t.remove(u)
	return false
}

// compare orders candidates, the best first: kube-scheduler's pickOneNodeForPreemption, and then by name.
func (p *Preemption) compare(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.violations, b.violations),
		cmp.Compare(corev1helpers.PodPriority(a.victims[0].Object), corev1helpers.PodPriority(b.victims[0].Object)),
		cmp.Compare(sumOfPriorities(a.victims), sumOfPriorities(b.victims)),
		cmp.Compare(len(a.victims), len(b.victims)),
		p.earliestStart(b.victims).Compare(p.earliestStart(a.victims)),
		cmp.Compare(a.node, b.node),
	)
}

// sumOfPriorities counts every priority from the lowest there can be, so that more victims never weigh less.
func sumOfPriorities(victims []*cluster.Pod) (sum int64) {
	for _, v := range victims {
		sum += int64(corev1helpers.PodPriority(v.Object)) + math.MaxInt32 + 1
	}
	return sum
}

// earliestStart returns the earliest start of the victims of the highest priority.
func (p *Preemption) earliestStart(victims []*cluster.Pod) (earliest time.Time) {
	highest := int32(math.MinInt32)
	for i, v := range victims {
		priority, t := corev1helpers.PodPriority(v.Object), p.started(v.Object)
		if i == 0 || priority > highest || priority == highest && t.Before(earliest) {
			highest, earliest = priority, t
		}
	}
	return earliest
}

// turnAway has Permit turn the victims away that it still holds, and returns the others.
func (p *Preemption) turnAway(victims []*cluster.Pod) (others []types.UID) {
	for _, v := range victims {
		if w := p.handle.GetWaitingPod(v.Object.UID); v.Stage == cluster.Waiting && w != nil {
			w.Preempt(Name, "preempted")
			continue
		}
		others = append(others, v.Object.UID)
	}
	return others
}
