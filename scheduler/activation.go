package scheduler

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// wanted has the pods that plugins want to be tried at once: the arguments of Handle.Activate within a cycle. Calls at
// another time are dropped, because no entry would record them.
type wanted struct {
	mu    sync.Mutex
	cycle bool // one is under way
	pods  map[types.UID]bool
}

// begin starts a cycle.
func (w *wanted) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cycle = true
	clear(w.pods)
}

// add implements framework.World.Activate.
func (w *wanted) add(pods map[string]*v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cycle {
		return
	}
	if w.pods == nil {
		w.pods = map[types.UID]bool{}
	}
	for _, pod := range pods { // any order: a set
		if pod != nil {
			w.pods[pod.UID] = true
		}
	}
}

// end ends the cycle and returns the pods, sorted. It allocates nothing where there are none, as nearly always.
func (w *wanted) end() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cycle = false
	if len(w.pods) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(w.pods))
}

// noteActivated writes into the decision which pods plugins want tried at once. Those of PodsToActivate count if the
// pod has a node, as in kube-scheduler. Pods of the cycle's own entity do not: a plugin that wants its pod tried again
// each time it fails would have it tried without end.
func (c *cycle) noteActivated() {
	if c.d.Node != "" {
		c.m.wanted.add(c.state.ToActivate())
	}
	pods := c.m.wanted.end()
	if len(pods) == 0 {
		return
	}
	own := c.m.entities.keyOf(c.m.cluster.Pods().Get(c.pod.UID))
	for _, uid := range pods {
		p := c.m.cluster.Pods().Get(uid)
		if p != nil && c.m.entities.keyOf(p) != own {
			c.d.Activated = append(c.d.Activated, uid)
		}
	}
}

// activate has the pods that plugins wanted tried at once be so.
func (m *Machine) activate(d *eventlog.Decision) {
	for _, uid := range d.Activated {
		if p := m.cluster.Pods().Get(uid); p != nil {
			m.queue.Activate(m.entities.keyOf(p))
		}
	}
}
