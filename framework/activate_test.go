package framework

import (
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestThereIsOneStashOfPodsToActivate reads the stash in plugins that run at the same time: they get the same one. A
// state that is reset for another cycle has a new one.
func TestThereIsOneStashOfPodsToActivate(t *testing.T) {
	state := NewCycleState()
	if pods := state.ToActivate(); pods != nil {
		t.Errorf("before anything was stashed: %v", pods)
	}
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			data, err := state.Read(upstream.PodsToActivateKey)
			if err != nil {
				t.Error(err)
				return
			}
			stash := data.(*upstream.PodsToActivate)
			stash.Lock()
			defer stash.Unlock()
			stash.Map[name] = &v1.Pod{}
		})
	}
	all.Wait()
	if pods := state.ToActivate(); len(pods) != 4 {
		t.Errorf("%d pods, want 4", len(pods))
	}
	if pods := state.Clone().(*CycleState).ToActivate(); len(pods) != 4 {
		t.Errorf("a clone has %d pods, want 4", len(pods))
	}
	state.Reset()
	if pods := state.ToActivate(); pods != nil {
		t.Errorf("after Reset: %v", pods)
	}
}
