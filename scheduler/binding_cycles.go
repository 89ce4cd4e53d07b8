package scheduler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// bindingCycles are the open binding cycles. They are of pods that wait or are being bound, if their profile has
// plugins that take part. A binding cycle begins with the Decision that gives a pod its node, and ends with the bind's
// result.
//
// A plugin keeps its reservation until then. So Apply calls Reserve for the Decision, also in a recovery, and the
// plugin's memory is a function of the log.
//
// The plugins of the deciding cycle give up everything before it ends. When its Decision is applied, the plugins that
// ran before Reserve run again for that pod and node, and then Reserve. So a scheduler that has decided and one that
// recovers make the same calls in the same order.
type bindingCycles struct {
	m    *Machine
	open map[types.UID]*bindingCycle
	// decided is the number of the last cycle that was decided here: its binding cycle is carried out here too.
	decided uint64
}

// bindingCycle is one of them.
type bindingCycle struct {
	profile *framework.Profile
	node    string
	state   fwk.CycleState // nil: it is made when it is asked for
}

// of returns the profile of a pod if it has plugins that take part in binding cycles, nil otherwise.
func (b *bindingCycles) of(pod *v1.Pod) *framework.Profile {
	prof := b.m.profiles.of(pod)
	if prof == nil || !prof.HasBindingCycle() {
		return nil
	}
	return prof
}

// begin opens the cycle of a pod to which a decision gives a node. The pod is not on it yet.
func (b *bindingCycles) begin(p *cluster.Pod, node string) {
	prof := b.of(p.Object)
	if prof == nil {
		return
	}
	c := &bindingCycle{profile: prof, node: node}
	b.open[p.Object.UID] = c
	if len(prof.Lasting()) > 0 || b.decided == b.m.at.cycle {
		b.prepare(c, p.Object)
	}
	b.reserve(c, p.Object)
}

// prepare makes the cycle's state again.
func (b *bindingCycles) prepare(c *bindingCycle, pod *v1.Pod) {
	b.m.recorded.muting(func() {
		b.quietly(func() { c.state = c.profile.Prepare(b.m.ctx, b.m.asNominated(pod), c.node) })
	})
}

func (b *bindingCycles) reserve(c *bindingCycle, pod *v1.Pod) {
	b.m.recorded.muting(func() {
		b.quietly(func() { c.profile.ReserveLasting(b.m.ctx, c.state, onNode(pod, c.node), c.node) })
	})
}

// quietly calls plugins outside of cycles. Their verdicts on waiting pods are dropped then, because no entry would
// record them.
func (b *bindingCycles) quietly(call func()) {
	b.m.waits.pods.StartCycle()
	call()
	b.m.waits.pods.EndCycle()
}

// end closes the cycle of a pod, if it has one. kept says that the pod is bound to its node; otherwise the plugins give
// the place up. They receive the pod's current object with the cycle's node, not the object of the deciding cycle.
func (b *bindingCycles) end(p *cluster.Pod, kept bool) {
	uid := p.Object.UID
	c := b.open[uid]
	if c == nil {
		return
	}
	delete(b.open, uid)
	if kept || len(c.profile.Lasting()) == 0 {
		return
	}
	state := b.stateOf(c, p.Object)
	b.quietly(func() { c.profile.UnreserveLasting(b.m.ctx, state, onNode(p.Object, c.node), c.node) })
}

func (b *bindingCycles) stateOf(c *bindingCycle, pod *v1.Pod) fwk.CycleState {
	if c.state == nil {
		b.prepare(c, pod)
	}
	return c.state
}

// reopen opens the cycles of all pods that wait or are being bound, for plugins that were made again. If reserve is
// set, the plugins reserve the places, in the order of the decisions and then of the UIDs.
func (b *bindingCycles) reopen(reserve bool) {
	b.open = map[types.UID]*bindingCycle{}
	type placed struct {
		p   *cluster.Pod
		seq uint64
	}
	var pods []placed
	isOpen := func(p *cluster.Pod) bool {
		return (p.Stage == cluster.Waiting || p.Stage == cluster.Binding) && b.of(p.Object) != nil
	}
	for _, p := range b.m.cluster.Pods().That(isOpen) {
		seq := b.m.effects.decisionOf(p.Object.UID, Bind)
		if w, waits := b.m.waits.pods.Get(p.Object.UID); waits {
			seq = w.Seq
		}
		pods = append(pods, placed{p, seq})
	}
	slices.SortFunc(pods, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.p.Object.UID, b.p.Object.UID))
	})
	for _, at := range pods {
		c := &bindingCycle{profile: b.of(at.p.Object), node: at.p.Node}
		b.open[at.p.Object.UID] = c
		if reserve && len(c.profile.Lasting()) > 0 {
			b.prepare(c, at.p.Object)
			b.reserve(c, at.p.Object)
		}
	}
}

// onNode returns the pod as plugins see it from Reserve on: on its node.
func onNode(pod *v1.Pod, node string) *v1.Pod {
	placed := *pod
	placed.Spec.NodeName = node
	return &placed
}

// BindingCycle returns the open binding cycle of a pod, nil if its profile has no plugin that takes part. It may be
// used beside the Machine. Its state has the data of PreFilter, Filter of the node, PreScore and Reserve. After a
// restart from a snapshot, the data of Reserve is missing.
func (m *Machine) BindingCycle(uid types.UID) *framework.Binding {
	c, p := m.bindings.open[uid], m.cluster.Pods().Get(uid)
	if c == nil || p == nil {
		return nil
	}
	m.keepGates()
	c.state = framework.SharedState(m.bindings.stateOf(c, p.Object))
	return &framework.Binding{Profile: c.profile, Pod: onNode(p.Object, c.node), Node: c.node, State: c.state}
}

// NotStatefulError means that a plugin has reservations in its own memory and cannot encode them. No snapshot of the
// state can be made or used, and a log is read from its first entry.
type NotStatefulError struct{ Profile, Plugin string }

// Error implements error.
func (e *NotStatefulError) Error() string {
	return fmt.Sprintf("profile %q: plugin %q keeps what it reserves in its own memory and has no AppendState and "+
		"RestoreState (framework.Stateful): its log has no snapshots and is read from its first entry", e.Profile,
		e.Plugin)
}

// Restorable returns a *NotStatefulError if a plugin of the running configuration cannot be restored from a snapshot,
// nil otherwise.
func (m *Machine) Restorable() error {
	for _, name := range slices.Sorted(maps.Keys(m.profiles.byName)) {
		if _, without := m.profiles.byName[name].Stateful(); without != "" {
			return &NotStatefulError{Profile: name, Plugin: without}
		}
	}
	return nil
}

// statefulPlugins returns the plugins with a state of their own, by profile and in the order in which they run.
func (m *Machine) statefulPlugins() (plugins []framework.StatefulPlugin, names [][2]string) {
	for _, profile := range slices.Sorted(maps.Keys(m.profiles.byName)) {
		of, _ := m.profiles.byName[profile].Stateful()
		for _, plugin := range of {
			plugins, names = append(plugins, plugin), append(names, [2]string{profile, plugin.Name})
		}
	}
	return plugins, names
}

// appendPlugins appends the states of plugins.
func (m *Machine) appendPlugins(dst []byte) []byte {
	plugins, names := m.statefulPlugins()
	dst = binary.AppendUvarint(dst, uint64(len(plugins)))
	for i, plugin := range plugins {
		dst = canonical.AppendString(canonical.AppendString(dst, names[i][0]), names[i][1])
		dst = canonical.AppendBytes(dst, plugin.AppendState(nil))
	}
	return dst
}

// restorePlugins reads what appendPlugins has written.
func (m *Machine) restorePlugins(r *canonical.Reader) error {
	plugins, names := m.statefulPlugins()
	n := r.Count("states of plugins", 3)
	if r.Err() == nil && n != len(plugins) {
		return fmt.Errorf("states of %d plugins: the configuration has %d with a state", n, len(plugins))
	}
	for i, plugin := range plugins {
		profile, name, state := r.String("profile"), r.String("plugin"), r.Bytes("state")
		if r.Err() != nil {
			return r.Err()
		}
		if names[i] != [2]string{profile, name} {
			return fmt.Errorf("state of plugin %q of profile %q: expected that of %q of %q", name, profile, names[i][1],
				names[i][0])
		}
		if err := plugin.RestoreState(slices.Clone(state)); err != nil {
			return fmt.Errorf("state of plugin %q of profile %q: %w", name, profile, err)
		}
	}
	return r.Err()
}
