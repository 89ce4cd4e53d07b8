package framework

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func holding(pods ...WaitingPod) *WaitingPods {
	w := &WaitingPods{}
	for _, p := range pods {
		w.Hold(p)
	}
	return w
}

func held(name string, seq uint64, until eventlog.Time, plugins ...string) WaitingPod {
	return WaitingPod{Pod: podNamed(name), Node: "n", Plugins: plugins, Until: until, Seq: seq}
}

func order(w *WaitingPods) string {
	var names []string
	w.Each(func(p *WaitingPod) bool {
		names = append(names, p.Pod.Name)
		return true
	})
	return strings.Join(names, " ")
}

func TestWaitingPodsKeepTheOrderOfTheirDecisions(t *testing.T) {
	w := holding(held("c", 7, 30, "x"), held("a", 3, 50, "z", "y"), held("b", 5, 20, "x"))
	if got := order(w); got != "a b c" || w.Len() != 3 {
		t.Errorf("order %q", got)
	}
	if at, ok := w.Deadline(); !ok || at != 20 {
		t.Errorf("deadline %d, %t", at, ok)
	}
	w.Release("b")
	w.Release("b")
	w.Release("never held")
	if got := order(w); got != "a c" {
		t.Errorf("order %q", got)
	}
	if at, _ := w.Deadline(); at != 30 {
		t.Errorf("deadline %d", at)
	}
	pod, ok := w.Get("a")
	if !ok || !slices.Equal(pod.Plugins, []string{"y", "z"}) {
		t.Errorf("plugins %v", pod.Plugins)
	}
	w.Approve("a", "z")
	w.Approve("a", "z")
	w.Approve("b", "x")
	if pod, _ = w.Get("a"); !slices.Equal(pod.Plugins, []string{"y"}) {
		t.Errorf("plugins %v", pod.Plugins)
	}
	w.Release("a")
	w.Release("c")
	if _, ok := w.Deadline(); ok || w.Len() != 0 {
		t.Error("a deadline without pods")
	}
}

func TestHoldingAPodTwicePanics(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "pod ns/a (a) is held twice: by decision 1 and by decision 2") {
			t.Errorf("panic %q", got)
		}
	}()
	holding(held("a", 1, 10), held("a", 2, 10))
}

func TestVerdictsAreWrittenDownAndChangeNothing(t *testing.T) {
	w := holding(held("a", 1, 10, "x", "y"), held("b", 2, 10, "x"), held("c", 3, 10, "x"), held("d", 4, 10, "x", "y"))
	before := w.AppendState(nil)
	p := profileOf(t, World{Waiting: w}, filterer{bare{&script{name: "f"}}})
	h := p.Handle()

	w.BeginCycle()
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
	if want := []eventlog.Approval{{UID: "a", Plugin: "y"}, {UID: "c", Plugin: "x"}, {UID: "a", Plugin: "x"}}; !slices.Equal(v.Approvals, want) {
		t.Errorf("approvals %v, want %v", v.Approvals, want)
	}
	if !slices.Equal(v.Allowed, []types.UID{"a", "c"}) || !slices.Equal(v.Rejected, []types.UID{"b", "d"}) {
		t.Errorf("allowed %v, rejected %v", v.Allowed, v.Rejected)
	}

	w.BeginCycle()
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
		if got, _ := recover().(string); !strings.Contains(got, "plugin x allows waiting pod ns/a outside a scheduling cycle") {
			t.Errorf("panic %q", got)
		}
	}()
	w.each(func(p fwk.WaitingPod) { p.Allow("x") })
}

func TestStateOfWaitingPodsTellsThemApart(t *testing.T) {
	same := holding(held("a", 1, 10, "x", "y"), held("b", 2, 10))
	seen := map[string]int{string(same.AppendState(nil)): -1}
	if _, ok := seen[string(holding(held("b", 2, 10), held("a", 1, 10, "y", "x")).AppendState(nil))]; !ok {
		t.Error("the order of Hold shows in the state")
	}
	other := held("a", 1, 10, "x", "y")
	other.Node = "m"
	for i, w := range []*WaitingPods{
		{},
		holding(held("a", 1, 10, "x", "y")),
		holding(held("a", 1, 10, "x", "y"), held("b", 3, 10)),
		holding(held("a", 1, 11, "x", "y"), held("b", 2, 10)),
		holding(held("a", 1, 10, "xy"), held("b", 2, 10)),
		holding(held("c", 1, 10, "x", "y"), held("b", 2, 10)),
		holding(other, held("b", 2, 10)),
	} {
		state := string(w.AppendState(nil))
		if j, ok := seen[state]; ok {
			t.Errorf("state %d equals %d", i, j)
		}
		seen[state] = i
	}
}
