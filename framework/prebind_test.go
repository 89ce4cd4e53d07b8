package framework

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// TestAPodInPreBindCanBeCanceled cancels a pod's PreBind while it works, in a cycle, and when it is done.
func TestAPodInPreBindCanBeCanceled(t *testing.T) {
	var h fwk.Handle
	pod := podNamed("p")
	pod.UID = "u"
	var begun bool
	for _, c := range []struct {
		name string
		work func(ctx context.Context) *fwk.Status
		want string // what the status says; "" for none
	}{
		{"nobody cancels", func(ctx context.Context) *fwk.Status {
			if h.GetPodInPreBind("other") != nil {
				t.Error("a pod in PreBind that nobody binds")
			}
			return nil
		}, ""},
		{"it heeds its context", func(ctx context.Context) *fwk.Status {
			if !h.GetPodInPreBind("u").CancelPod("preempted by q") || !h.GetPodInPreBind("u").CancelPod("again") {
				t.Error("it cannot be canceled")
			}
			<-ctx.Done()
			return fwk.AsStatus(ctx.Err())
		}, "preempted by q"},
		{"it does not heed its context", func(ctx context.Context) *fwk.Status {
			h.GetPodInPreBind("u").CancelPod("preempted by q")
			return nil
		}, "preempted by q"},
		{"in a cycle", func(ctx context.Context) *fwk.Status {
			known := h.GetPodInPreBind("u")
			(&search{}).call(func() {
				if h.GetPodInPreBind("u") != nil || known.CancelPod("preempted by q") {
					t.Error("a cycle sees how far a bind is")
				}
			})
			if ctx.Err() != nil {
				t.Error("the context has ended")
			}
			return nil
		}, ""},
	} {
		begun = false
		p := profileOf(t, World{}, together{preBinder{bare{&script{name: "b"}}}, func(ctx context.Context) *fwk.Status {
			begun = true
			return c.work(ctx)
		}})
		h = p.Handle()
		b := &Binding{Profile: p, Pod: pod, Node: "n", State: NewCycleState()}
		status := b.Before(t.Context(), InOrder)
		if !begun || (c.want == "") != (status == nil) || !strings.Contains(status.Message(), c.want) ||
			status != nil && status.Plugin() != "" {
			t.Errorf("%s: began %v, the status is %v", c.name, begun, status)
		}
		if h.GetPodInPreBind("u") != nil {
			t.Errorf("%s: it is in PreBind after the binding cycle", c.name)
		}
	}
}

// TestAPodThatIsPreboundCannotBeCanceled keeps the result of GetPodInPreBind beyond PreBind.
func TestAPodThatIsPreboundCannotBeCanceled(t *testing.T) {
	var kept fwk.PodInPreBind
	var h fwk.Handle
	p := profileOf(t, World{}, together{preBinder{bare{&script{name: "b"}}}, func(context.Context) *fwk.Status {
		kept = h.GetPodInPreBind("u")
		return nil
	}})
	h = p.Handle()
	pod := &v1.Pod{}
	pod.UID = "u"
	b := &Binding{Profile: p, Pod: pod, Node: "n", State: NewCycleState()}
	if status := b.Before(t.Context(), InOrder); status != nil || kept.CancelPod("late") {
		t.Errorf("%v, or it was canceled late", status)
	}
}

// call imitates a function of a cycle that calls plugins.
func (*search) call(do func()) { do() }
