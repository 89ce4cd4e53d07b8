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

// Binding is a pod's binding cycle as its profile's plugins have it: PreBindPreFlight and PreBind, Bind, PostBind. What
// effects carry out is left out: the claims of VolumeBinding and DynamicResources, and DefaultBinder's bind.
//
// It may be used beside the scheduling cycles of other pods, by one goroutine at a time.
type Binding struct {
	Profile *Profile
	// Pod is the pod as plugins see it, on its node.
	Pod *v1.Pod
	// Node is where it goes.
	Node string
	// State is that of the pod's scheduling cycle; see SharedState.
	State fwk.CycleState
}

// carriedOut are the plugins of the extension points behind a cycle whose work is done without calling them: the claims
// and devices of a placement are in the Decision, and the bind is an effect.
var carriedOut = map[ExtensionPoint][]string{
	PreBind: {names.VolumeBinding, names.DynamicResources},
	Bind:    {names.DefaultBinder},
}

// isCarriedOut reports whether a plugin is called at no extension point behind a cycle, because effects do its work.
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

// A Together makes all calls and returns when each has returned. Those that wait for each other need it to make them at
// the same time.
type Together func(calls []func())

// InOrder makes the calls one after the other.
func InOrder(calls []func()) {
	for _, call := range calls {
		call()
	}
}

// Run has the plugins do what they do before the bind, and bind the pod if one takes it: Before, Bind. The status is
// nil if they let the pod pass. by names the plugin that has bound it, "" if none has.
func (b *Binding) Run(ctx context.Context, together Together) (by string, status *fwk.Status) {
	if status := b.Before(ctx, together); status != nil {
		return "", status
	}
	return b.Bind(ctx)
}

// Before is PreFlight and PreBind; nil if the plugins let the pod pass. While PreBind is at work the handle's
// GetPodInPreBind returns the pod. If somebody cancels it, the status is an error with that reason, whatever the
// plugins answered.
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

// PreFlight asks the PreBind plugins whether they have anything to do for the pod. The status is nil if one has, Skip
// if none has, Error if one fails. PreBind then leaves out those that have nothing to do.
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

// PreBind runs the PreBind plugins that PreFlight has not left out, in order. Neighbours that allow others beside them
// are run together. The first that does not succeed ends it, and the context of those beside it.
func (b *Binding) PreBind(ctx context.Context, together Together) *fwk.Status {
	for _, group := range b.groups() {
		if status := b.preBindGroup(ctx, group, together); status != nil {
			return status
		}
	}
	return nil
}

// groups returns the PreBind plugins that are to run, in the groups in which they run together.
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

// Bind runs the Bind plugins in order until one takes the pod. by names it; "" says that it is DefaultBinder's turn,
// whose bind is an effect: no plugin has bound the pod. The status is an error if no plugin takes the pod.
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

// BindFailure fills in what a BindResult says of plugins that did not succeed before the bind or with it. A status that
// no plugin gave names none.
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

// PostBind tells the PostBind plugins that the pod is bound.
func (b *Binding) PostBind(ctx context.Context) {
	for _, e := range b.Profile.postBind {
		e.plugin.PostBind(ctx, b.State, b.Pod, b.Node)
	}
}

// SharedState returns a CycleState of the same content that several goroutines may use: a pod's binding cycle runs
// beside Unreserve, which comes when the pod is deleted meanwhile.
func SharedState(state fwk.CycleState) fwk.CycleState {
	if shared, ok := state.(*sharedState); ok {
		return shared
	}
	return &sharedState{CycleState: state}
}

// sharedState guards what plugins write after Permit. The rest is not written any more.
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
