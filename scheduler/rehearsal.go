package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
)

// VictimPolicyOf returns the victim policy of a profile and its name; nil if there is no such profile.
func VictimPolicyOf(m *Machine, profile string) (name string, policy framework.VictimPolicy) {
	p := m.profiles.byName[profile]
	if p == nil {
		return "", nil
	}
	if plugin, ok := p.Plugin(coscheduling.Name).(*coscheduling.Coscheduling); ok {
		name, _ = plugin.VictimPolicy()
	}
	if name == "" {
		name = preemption.PriorityPolicy
	}
	if policy = m.profiles.victims[profile]; policy == nil {
		policy = preemption.ByPriority{}
	}
	return name, policy
}

// Rehearse begins a rehearsal with the plugins of a profile on the Machine's state, in which the nominations of the
// given pods do not count. It returns nil if there is no such profile. Callers must end the rehearsal before they call
// any method of the Machine that changes its state or decides. ctx is for the calls of the rehearsal.
func Rehearse(m *Machine, profile string, unnominated map[types.UID]bool) (context.Context, *framework.Rehearsal) {
	p := m.profiles.byName[profile]
	if p == nil {
		return nil, nil
	}
	m.keepGates()
	return preemption.WithBudget(m.ctx), p.Handle().Rehearse(coscheduling.Name, unnominated)
}
