package framework

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// podsInPreBind has the pods of a profile whose PreBind plugins are running. They differ from run to run and are in no
// log, so a cycle cannot see them.
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

// podInPreBind is one of these pods, as in kube-scheduler, except that a cycle cannot cancel it.
type podInPreBind struct {
	mu                 sync.Mutex
	prebound, canceled bool
	cancel             context.CancelCauseFunc
}

var _ fwk.PodInPreBind = (*podInPreBind)(nil)

// CancelPod cancels the context of the pod's PreBind plugins unless they are done, and reports whether it is canceled.
// The bind then fails with the reason, and the pod is tried again after its backoff. Within a cycle it does nothing and
// returns false: there a pod leaves its node only as a victim of the Decision.
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

// MarkPrebound marks PreBind as done. It returns false if CancelPod came first.
func (p *podInPreBind) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.prebound = true
	return true
}

// AddPodInPreBind makes GetPodInPreBind return the pod. The binding cycle calls it before PreBind.
func (h *handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.inPreBind.add(uid, cancel)
}

// GetPodInPreBind returns the pod with that UID if its PreBind plugins are running, nil otherwise. Within a cycle it
// always returns nil.
func (h *handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	if InsideCycle() {
		return nil
	}
	if pod := h.inPreBind.get(uid); pod != nil {
		return pod
	}
	return nil
}

// RemovePodInPreBind undoes AddPodInPreBind.
func (h *handle) RemovePodInPreBind(uid types.UID) { h.inPreBind.remove(uid) }
