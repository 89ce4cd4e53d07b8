package framework

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

func holding(waits ...cluster.Wait) *WaitingPods { return NewWaitingPods(cluster.NewWaits(waits...)) }

func held(name string, seq uint64, until eventlog.Time, plugins ...string) cluster.Wait {
	pod := &cluster.Pod{Object: podNamed(name), Node: "n"}
	return cluster.Wait{Pod: pod, Plugins: plugins, Until: until, Seq: seq}
}

func TestVerdictsAreWrittenDownAndChangeNothing(t *testing.T) {
	w := holding(held("a", 1, 10, "x", "y"), held("b", 2, 10, "x"), held("c", 3, 10, "x"), held("d", 4, 10, "x", "y"))
	before := w.AppendState(nil)
	p := profileOf(t, World{Waiting: w}, filterer{bare{&script{name: "f"}}})
	h := p.Handle()

	w.StartCycle()
	a := h.GetWaitingPod("a")
	a.Allow("not waiting")
	a.Allow("y")
	a.Allow("y")
	if got := a.GetPendingPlugins(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("a is held by %v", got)
	}
	h.GetWaitingPod("c").Allow("x")
	if h.GetWaitingPod("c").Reject("x", "too late") {
		t.Error("a pod is rejected that was allowed")
	}
	if !h.RejectWaitingPod("d") || h.RejectWaitingPod("d") || h.RejectWaitingPod("nobody") {
		t.Error("RejectWaitingPod misjudges")
	}
	h.GetWaitingPod("d").Allow("x") // its fate is settled
	a.Allow("x")
	h.GetWaitingPod("b").Preempt("x", "")
	v := w.EndCycle()

	if !bytes.Equal(before, w.AppendState(nil)) {
		t.Error("the state changed")
	}
	if want := []eventlog.Approval{{UID: "a", Plugin: "y"}, {UID: "c", Plugin: "x"},
		{UID: "a", Plugin: "x"}}; !slices.Equal(v.Approvals, want) {
		t.Errorf("approvals %v, want %v", v.Approvals, want)
	}
	if !slices.Equal(v.Allowed, []types.UID{"a", "c"}) || !slices.Equal(v.Rejected, []types.UID{"b", "d"}) {
		t.Errorf("allowed %v, rejected %v", v.Allowed, v.Rejected)
	}

	w.StartCycle()
	if got := h.GetWaitingPod("a").GetPendingPlugins(); len(got) != 2 {
		t.Errorf("the next cycle remembers: a is held by %v", got)
	}
	if v := w.EndCycle(); v.Approvals != nil || v.Allowed != nil || v.Rejected != nil {
		t.Errorf("the next cycle's verdicts: %v", v)
	}
}

func TestPluginsSeeWaitingPodsInTheOrderOfTheirDecisions(t *testing.T) {
	w := holding(held("b", 2, 10, "x"), held("a", 9, 10, "x"), held("c", 1, 10, "x"))
	p := profileOf(t, World{Waiting: w}, filterer{bare{&script{name: "f"}}})
	var names []string
	p.Handle().IterateOverWaitingPods(func(pod fwk.WaitingPod) { names = append(names, pod.GetPod().Name) })
	if !slices.Equal(names, []string{"c", "b", "a"}) {
		t.Errorf("%v", names)
	}
	if p.Handle().GetWaitingPod("nobody") != nil {
		t.Error("a pod that is not held is found")
	}
}

func TestVerdictOutsideACyclePanics(t *testing.T) {
	w := holding(held("a", 1, 10, "x"))
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got,
			"plugin x allows waiting pod ns/a outside a scheduling cycle") {
			t.Errorf("panic %q", got)
		}
	}()
	w.each(func(p fwk.WaitingPod) { p.Allow("x") })
}
