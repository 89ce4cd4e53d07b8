package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Binding is a pod's binding cycle in the plugins of its profile: PreBindPreFlight, PreBind, Bind and PostBind. It
// leaves out the work that effects do: the claims of VolumeBinding and DynamicResources, and DefaultBinder's bind.
//
// It may run beside the scheduling cycles of other pods. Only one goroutine at a time may use it.
type Binding struct {
	Profile *Profile
	// Pod is the pod as plugins see it, with its node set.
	Pod *v1.Pod
	// Node is the name of the pod's node.
	Node string
	// State is the state of the pod's scheduling cycle; see SharedState.
	State fwk.CycleState
}

// carriedOut lists, for the extension points after a scheduling cycle, the plugins that are not called. The Decision
// has the claims and devices of a placement, and the bind is an effect.
var carriedOut = map[ExtensionPoint][]string{
	PreBind: {names.VolumeBinding, names.DynamicResources},
	Bind:    {names.DefaultBinder},
}

// isCarriedOut reports whether an effect does the plugin's work, so that the plugin is not called after a scheduling
// cycle.
func (p *Profile) isCarriedOut(name string) bool {
	return slices.Contains(carriedOut[PreBind], name) || slices.Contains(carriedOut[Bind], name)
}

// callsBehind reports whether the profile enables a plugin of PreBind, Bind or PostBind that is called.
func (p *Profile) callsBehind() bool {
	for _, point := range []ExtensionPoint{PreBind, Bind, PostBind} {
		isCalled := func(name string) bool { return !slices.Contains(carriedOut[point], name) }
		if slices.ContainsFunc(p.at[point], isCalled) {
			return true
		}
	}
	return false
}

// A Together makes all calls and returns when each has returned. Calls that wait for each other need an implementation
// that makes them at the same time.
type Together func(calls []func())

// InOrder makes the calls one after the other.
func InOrder(calls []func()) {
	for _, call := range calls {
		call()
	}
}

// Run runs Before and then Bind. The status is nil if the plugins let the pod pass. by names the plugin that has bound
// the pod, "" if none has.
func (b *Binding) Run(ctx context.Context, together Together) (by string, status *fwk.Status) {
	if status := b.Before(ctx, together); status != nil {
		return "", status
	}
	return b.Bind(ctx)
}

// Before runs PreFlight and PreBind. It returns nil if the plugins let the pod pass. During PreBind the handle's
// GetPodInPreBind returns the pod. If the pod is canceled meanwhile, the status is an error with the reason, whatever
// the plugins answered.
func (b *Binding) Before(ctx context.Context, together Together) *fwk.Status {
	switch status := b.PreFlight(ctx); {
	case status.IsError():
		return status
	case status.IsSkip():
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	under := b.Profile.handle.inPreBind.add(b.Pod.UID, cancel)
	defer b.Profile.handle.RemovePodInPreBind(b.Pod.UID)
	status := b.PreBind(ctx, together)
	if !under.MarkPrebound() {
		return fwk.AsStatus(context.Cause(ctx))
	}
	return status
}

// PreFlight asks the PreBind plugins whether they have work to do for the pod. The status is nil if one has, Skip if
// none has, and Error if one fails. PreBind then skips the plugins without work.
func (b *Binding) PreFlight(ctx context.Context) *fwk.Status {
	skip, parallel := sets.New[string](), sets.New[string]()
	status := fwk.NewStatus(fwk.Skip)
	for _, e := range b.Profile.preBind {
		if slices.Contains(carriedOut[PreBind], e.name) {
			continue
		}
		result, s := e.plugin.PreBindPreFlight(ctx, b.State, b.Pod, b.Node)
		if result != nil && result.AllowParallel {
			parallel.Insert(e.name)
		}
		switch {
		case s.IsError():
			return failed("PreBindPreFlight", e.name, s)
		case s.IsSuccess():
			status = nil
		case s.IsSkip():
			skip.Insert(e.name)
		default:
			return fwk.AsStatus(fmt.Errorf("PreBindPreFlight of plugin %q answers %s: "+
				"only Success, Skip and Error have a meaning there",
				e.name, s.Code())).WithPlugin(e.name)
		}
	}
	b.State.SetSkipPreBindPlugins(skip)
	b.State.SetParallelPreBindPlugins(parallel)
	return status
}

// PreBind runs the PreBind plugins that PreFlight has not skipped, in order. It runs neighbours together that allow
// parallel plugins. If a plugin does not succeed, PreBind ends, and so does the context of the plugins that run beside
// it.
func (b *Binding) PreBind(ctx context.Context, together Together) *fwk.Status {
	for _, group := range b.groups() {
		if status := b.preBindGroup(ctx, group, together); status != nil {
			return status
		}
	}
	return nil
}

// groups returns the PreBind plugins to run, in groups of plugins that run together.
func (b *Binding) groups() (groups [][]entry[fwk.PreBindPlugin]) {
	skip, parallel := b.State.GetSkipPreBindPlugins(), b.State.GetParallelPreBindPlugins()
	open := false // the last group may grow
	for _, e := range b.Profile.preBind {
		switch {
		case slices.Contains(carriedOut[PreBind], e.name):
		case !parallel.Has(e.name):
			open = false
			if !skip.Has(e.name) {
				groups = append(groups, []entry[fwk.PreBindPlugin]{e})
			}
		case skip.Has(e.name):
		case open:
			groups[len(groups)-1] = append(groups[len(groups)-1], e)
		default:
			groups, open = append(groups, []entry[fwk.PreBindPlugin]{e}), true
		}
	}
	return groups
}

func (b *Binding) preBindGroup(ctx context.Context, group []entry[fwk.PreBindPlugin], together Together) *fwk.Status {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first *fwk.Status
	calls := make([]func(), len(group))
	for i, e := range group {
		calls[i] = func() {
			status := e.plugin.PreBind(ctx, b.State, b.Pod, b.Node)
			if status.IsSuccess() {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = rejectedOrFailed("PreBind", e.name, status)
				cancel()
			}
		}
	}
	together(calls)
	return first
}

// Bind runs the Bind plugins in order until one takes the pod. by names it. by is "" if it is DefaultBinder's turn,
// because that bind is an effect; then no plugin has bound the pod. The status is an error if no plugin takes the pod.
func (b *Binding) Bind(ctx context.Context) (by string, status *fwk.Status) {
	for _, e := range b.Profile.bind {
		if slices.Contains(carriedOut[Bind], e.name) {
			return "", nil
		}
		status := e.plugin.Bind(ctx, b.State, b.Pod, b.Node)
		switch {
		case status.IsSkip():
		case status.IsSuccess():
			return e.name, nil
		default:
			return "", rejectedOrFailed("Bind", e.name, status)
		}
	}
	return "", fwk.AsStatus(fmt.Errorf("no Bind plugin takes the pod: all of %v skip it", b.Profile.at[Bind]))
}

// BindFailure sets a BindResult to the failure of a plugin before or during the bind. If the status names no plugin,
// neither does the result.
func BindFailure(result *eventlog.BindResult, status *fwk.Status) {
	result.Outcome, result.Message = eventlog.BindFailed, status.Message()
	if status.Plugin() == "" {
		return
	}
	result.Plugin, result.Code = status.Plugin(), status.Code().String()
	if status.IsRejected() {
		result.Message = fmt.Sprintf("plugin %q refuses the bind: %s", status.Plugin(), status.Message())
	}
}

// PostBind runs the PostBind plugins after the pod is bound.
func (b *Binding) PostBind(ctx context.Context) {
	for _, e := range b.Profile.postBind {
		e.plugin.PostBind(ctx, b.State, b.Pod, b.Node)
	}
}

// SharedState returns a CycleState with the same content that several goroutines may use. A pod's binding cycle may run
// beside Unreserve, which is called if the pod is deleted meanwhile.
func SharedState(state fwk.CycleState) fwk.CycleState {
	if shared, ok := state.(*sharedState); ok {
		return shared
	}
	return &sharedState{CycleState: state}
}

// sharedState guards the data that plugins write after Permit. The rest of a CycleState does not change then.
type sharedState struct {
	mu sync.RWMutex
	fwk.CycleState
}

// Read implements fwk.CycleState.
func (s *sharedState) Read(key fwk.StateKey) (fwk.StateData, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.CycleState.Read(key)
}

// Write implements fwk.CycleState.
func (s *sharedState) Write(key fwk.StateKey, data fwk.StateData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CycleState.Write(key, data)
}

// Delete implements fwk.CycleState.
func (s *sharedState) Delete(key fwk.StateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CycleState.Delete(key)
}

// Clone implements fwk.CycleState.
func (s *sharedState) Clone() fwk.CycleState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return SharedState(s.CycleState.Clone())
}
