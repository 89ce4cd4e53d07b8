package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
)

// Rate filters and scores every node for a pod without a node, in the present state, as framework.Rate does
// with the pod's profile. The gang of the pod has no say. The pod need not be in the state. Rate returns false if no
// profile has the name of the pod's scheduler. Like Decide it changes nothing.
func Rate(m *Machine, pod *v1.Pod, trace *framework.Trace) (placement framework.Placement, ok bool) {
	profile := m.profiles.of(pod)
	if profile == nil || m.queue == nil {
		return framework.Placement{}, false
	}
	m.keepGates()
	// Plugins may call waiting pods, ask for other pods to be tried, and record events. All of that is dropped.
	m.waits.pods.StartCycle()
	m.wanted.begin()
	m.recorded.muting(func() {
		placement = framework.Rate(m.ctx, profile, framework.NewCycleState(), pod, coscheduling.Name, trace)
	})
	m.waits.pods.EndCycle()
	m.wanted.end()
	return placement, true
}

// PlansGangs reports whether the pod's profile places the members of a gang together.
func PlansGangs(m *Machine, pod *v1.Pod) bool { return plansGangs(m.profiles.of(pod)) }

// Reconfigure changes the configuration as an epoch with it would, without an entry. After it the Machine is the state
// of no log: it answers what the same cluster would be under another configuration.
func Reconfigure(m *Machine, config []byte) error {
	m.unpick()
	return m.reconfigure(config)
}
