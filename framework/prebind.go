package framework

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// podsInPreBind are the pods of a profile whose PreBind plugins are at work. Their number and how far they are differs
// from run to run, and is in no log: within a cycle nobody sees them.
type podsInPreBind struct {
	mu   sync.Mutex
	pods map[types.UID]*podInPreBind
}

func (p *podsInPreBind) add(uid types.UID, cancel context.CancelCauseFunc) *podInPreBind {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods == nil {
		p.pods = map[types.UID]*podInPreBind{}
	}
	pod := &podInPreBind{cancel: cancel}
	p.pods[uid] = pod
	return pod
}

func (p *podsInPreBind) get(uid types.UID) *podInPreBind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid]
}

func (p *podsInPreBind) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pods, uid)
}

// podInPreBind is one of them: kube-scheduler's, but for cycles.
type podInPreBind struct {
	mu                 sync.Mutex
	prebound, canceled bool
	cancel             context.CancelCauseFunc
}

var _ fwk.PodInPreBind = (*podInPreBind)(nil)

// CancelPod ends the context of the pod's PreBind plugins, unless they are done, and reports whether it is ended. The
// bind fails with that reason then, and the pod is tried again after its backoff. Called from within a cycle it does
// nothing and returns false: a pod that has to leave its node is a victim of the Decision, and evicted.
func (p *podInPreBind) CancelPod(reason string) bool {
	if InsideCycle() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prebound {
		return false
	}
	if !p.canceled {
		p.canceled = true
		p.cancel(errors.New(reason))
	}
	return true
}

// MarkPrebound says that PreBind is done. It returns false if CancelPod came first.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.prebound = true
	return true
}

// AddPodInPreBind has GetPodInPreBind return a pod. The binding cycle calls it before PreBind.
func (h *handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.inPreBind.add(uid, cancel)
}

// GetPodInPreBind returns the pod of that UID if its PreBind plugins are at work, nil otherwise, and nil within a
// cycle.
func (h *handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	if InsideCycle() {
		return nil
	}
	if pod := h.inPreBind.get(uid); pod != nil {
		return pod
	}
	return nil
}

// RemovePodInPreBind ends what AddPodInPreBind began.
func (h *handle) RemovePodInPreBind(uid types.UID) { h.inPreBind.remove(uid) }
