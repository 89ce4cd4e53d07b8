package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/queue"
)

// Policies: the arguments queuePolicy and victimPolicy of the gang plugin name them, and here they are made.

// lanePolicies makes the lane policies of a configuration, each once.
type lanePolicies struct {
	made    map[string]framework.NewLanePolicy // of others, by name
	view    framework.PolicyView
	planner *backfill.Planner
	byName  map[string]lanePolicy
}

// lanePolicy is a policy with the arguments that it was made with.
type lanePolicy struct {
	queue.LanePolicy
	args json.RawMessage
}

// plannedLane returns the lane of a profile that the Planner has; ok is false under other policies.
func plannedLane(p *framework.Profile) (_ backfill.Lane, ok bool) {
	plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling)
	if !ok {
		return backfill.Lane{}, false
	}
	switch plugin.QueuePolicy() {
	case coscheduling.StrictFIFO, coscheduling.Backfill:
		backfills := plugin.QueuePolicy() == coscheduling.Backfill
		return backfill.Lane{Name: p.Name(), Backfill: backfills, Hold: plugin.BackfillHold()}, true
	}
	return backfill.Lane{}, false
}

// of returns the policy of a profile.
func (l *lanePolicies) of(p *framework.Profile) (queue.LanePolicy, error) {
	plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling)
	if !ok {
		return queue.BestEffort{}, nil
	}
	name, args := string(plugin.QueuePolicy()), plugin.QueuePolicyArgs()
	known, ok := l.byName[name]
	if !ok {
		policy, err := l.make(name, args)
		if err != nil {
			return nil, fmt.Errorf("profile %q: CoschedulingArgs: %w", p.Name(), err)
		}
		known = lanePolicy{policy, args}
		l.byName[name] = known
	}
	if !bytes.Equal(known.args, args) {
		return nil, fmt.Errorf("profile %q: CoschedulingArgs: queuePolicyArgs differ from those of another profile "+
			"with queuePolicy %s: profiles that share a policy must give it the same", p.Name(), name)
	}
	return known.LanePolicy, nil
}

// make makes the policy of a name.
func (l *lanePolicies) make(name string, args json.RawMessage) (queue.LanePolicy, error) {
	own := func(policy queue.LanePolicy) (queue.LanePolicy, error) {
		if args != nil {
			return nil, fmt.Errorf("queuePolicy %s takes no queuePolicyArgs: leave them out", name)
		}
		return policy, nil
	}
	switch coscheduling.QueuePolicy(name) {
	case coscheduling.BestEffort:
		return own(queue.BestEffort{})
	case coscheduling.StrictFIFO:
		return own(l.planner.StrictFIFO())
	case coscheduling.Backfill:
		return own(l.planner.EASY())
	}
	factory := l.made[name]
	if factory == nil {
		known := slices.Clone(coscheduling.QueuePolicies)
		for _, other := range slices.Sorted(maps.Keys(l.made)) {
			known = append(known, coscheduling.QueuePolicy(other))
		}
		return nil, fmt.Errorf("queuePolicy is %q: want one of %v", name, known)
	}
	policy, err := factory(args, l.view)
	if err != nil {
		return nil, fmt.Errorf("start queuePolicy %s: %w", name, err)
	}
	if policy == nil {
		return nil, fmt.Errorf("start queuePolicy %s: its factory returned no policy, and no error", name)
	}
	return named(name, policy), nil
}

// named returns a policy with the same lanes, whose names begin with the policy's: lanes of two policies never have the
// same name.
func named(name string, policy queue.LanePolicy) queue.LanePolicy {
	own := &namedLanes{policy, name + "/"}
	blocker, blocks := policy.(queue.LaneBlocker)
	overtaker, overtakes := policy.(queue.LaneOvertaker)
	switch {
	case blocks && overtakes:
		return &struct {
			*namedLanes
			*namedBlocker
			queue.LaneOvertaker
		}{own, &namedBlocker{blocker, own.prefix}, overtaker}
	case blocks:
		return &struct {
			*namedLanes
			*namedBlocker
		}{own, &namedBlocker{blocker, own.prefix}}
	case overtakes:
		return &struct {
			*namedLanes
			queue.LaneOvertaker
		}{own, overtaker}
	}
	return own
}

type namedLanes struct {
	policy queue.LanePolicy
	prefix string
}

// Lane implements queue.LanePolicy.
func (n *namedLanes) Lane(e *queue.Entity) string {
	if lane := n.policy.Lane(e); lane != "" {
		return n.prefix + lane
	}
	return ""
}

// CompareLanes implements queue.LanePolicy.
func (n *namedLanes) CompareLanes(a, b string) int {
	return n.policy.CompareLanes(a[len(n.prefix):], b[len(n.prefix):])
}

// Passes implements queue.LanePolicy.
func (n *namedLanes) Passes(e *queue.Entity) bool { return n.policy.Passes(e) }

type namedBlocker struct {
	blocker queue.LaneBlocker
	prefix  string
}

// Blocking implements queue.LaneBlocker.
func (n *namedBlocker) Blocking(lane string) (*queue.Entity, bool) {
	return n.blocker.Blocking(lane[len(n.prefix):])
}

// victimPolicyOf returns the victim policy of a profile.
func (m *Machine) victimPolicyOf(p *framework.Profile) (framework.VictimPolicy, error) {
	var name string
	var args json.RawMessage
	if plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok {
		name, args = plugin.VictimPolicy()
	}
	if name == "" || name == preemption.PriorityPolicy {
		if args != nil {
			return nil, fmt.Errorf("victimPolicy %s takes no victimPolicyArgs: leave them out",
				preemption.PriorityPolicy)
		}
		return preemption.ByPriority{}, nil
	}
	factory := m.registry.VictimPolicies[name]
	if factory == nil {
		known := slices.Sorted(maps.Keys(m.registry.VictimPolicies))
		return nil, fmt.Errorf("victimPolicy is %q: want one of %v", name,
			slices.Insert(known, 0, preemption.PriorityPolicy))
	}
	policy, err := factory(args, policyView{m})
	if err != nil {
		return nil, fmt.Errorf("start victimPolicy %s: %w", name, err)
	}
	if policy == nil {
		return nil, fmt.Errorf("start victimPolicy %s: its factory returned no policy, and no error", name)
	}
	return policy, nil
}

// victimsBelow returns the bound that a profile's victim policy gives for an entity.
func (all *profiles) victimsBelow(e *queue.Entity) (priority int32, known bool) {
	switch policy := all.victims[e.Profile()].(type) {
	case nil, preemption.ByPriority:
		return e.Priority(), true
	default:
		pods := e.Pending()
		if len(pods) == 0 {
			return 0, false
		}
		return policy.Below(framework.Preemptor{Pod: pods[0], Priority: e.Priority()})
	}
}

// mayPreempt reports whether the victim policy lets one pod preempt another.
func (m *Machine) mayPreempt(by, victim *cluster.Pod) bool {
	p := framework.Preemptor{Pod: by.Object, Priority: m.cluster.Gangs().PriorityOf(by.Object)}
	policy := m.profiles.victims[by.Object.Spec.SchedulerName]
	if policy == nil {
		policy = preemption.ByPriority{}
	}
	return policy.MayPreempt(p, preemption.VictimOf(victim.Object, m.cluster.Gangs(), m.at.now.Std()))
}

// policyView is the Machine's state as policies see it.
type policyView struct{ m *Machine }

var _ framework.PolicyView = policyView{}

// Now implements framework.PolicyView.
func (v policyView) Now() time.Time { return v.m.at.now.Std() }

// SnapshotSharedLister implements framework.PolicyView.
func (v policyView) SnapshotSharedLister() fwk.SharedLister { return v.m.cluster }

// SharedInformerFactory implements framework.PolicyView.
func (v policyView) SharedInformerFactory() informers.SharedInformerFactory {
	return v.m.cluster.Informers().Factory()
}

// PriorityOf implements framework.PolicyView.
func (v policyView) PriorityOf(pod *v1.Pod) int32 { return v.m.cluster.Gangs().PriorityOf(pod) }

// GangOf implements framework.PolicyView.
func (v policyView) GangOf(pod *v1.Pod) (_ framework.Gang, ok bool) {
	g := v.m.cluster.Gangs().OfPod(pod)
	if g == nil {
		return framework.Gang{}, false
	}
	gang := framework.Gang{
		Namespace: g.Namespace, Name: g.Name, Members: len(g.Members()), Placed: g.Placed(),
	}
	if counts := g.Gang(); counts.Known() {
		gang.Minimum = g.Min()
	}
	return gang, true
}

// QueuePolicyOf returns the name of the queue policy of a profile; "" if there is no such profile, or if it does not
// plan gangs.
func QueuePolicyOf(m *Machine, profile string) string {
	p := m.profiles.byName[profile]
	if p == nil {
		return ""
	}
	if plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok {
		return string(plugin.QueuePolicy())
	}
	return ""
}
