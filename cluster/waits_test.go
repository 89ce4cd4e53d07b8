package cluster

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func waitOf(name string, seq uint64, until eventlog.Time, plugins ...string) Wait {
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	return Wait{Pod: &Pod{Object: object, Node: "n"}, Plugins: plugins, Until: until, Seq: seq}
}

func order(w *Waits) string {
	var names []string
	w.Each(func(p *Wait) bool {
		names = append(names, p.Pod.Object.Name)
		return true
	})
	return strings.Join(names, " ")
}

func TestWaitingPodsKeepTheOrderOfTheirDecisions(t *testing.T) {
	w := NewWaits(waitOf("c", 7, 30, "x"), waitOf("a", 3, 50, "z", "y"), waitOf("b", 5, 20, "x"))
	if got := order(w); got != "a b c" || w.Len() != 3 {
		t.Errorf("order %q", got)
	}
	if at, ok := w.Deadline(); !ok || at != 20 {
		t.Errorf("deadline %d, %t", at, ok)
	}
	w.release("b")
	w.release("b")
	w.release("never held")
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
	w.approve("a", "z")
	w.approve("a", "z")
	w.approve("b", "x")
	if pod, _ = w.Get("a"); !slices.Equal(pod.Plugins, []string{"y"}) {
		t.Errorf("plugins %v", pod.Plugins)
	}
	w.release("a")
	w.release("c")
	if _, ok := w.Deadline(); ok || w.Len() != 0 {
		t.Error("a deadline without pods")
	}
}

func TestHoldingAPodTwicePanics(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(
			got,
			"pod ns/a (a) is held twice: by decision 1 and by decision 2",
		) {
			t.Errorf("panic %q", got)
		}
	}()
	NewWaits(waitOf("a", 1, 10), waitOf("a", 2, 10))
}

func TestStateOfWaitingPodsTellsThemApart(t *testing.T) {
	same := NewWaits(waitOf("a", 1, 10, "x", "y"), waitOf("b", 2, 10))
	seen := map[string]int{string(same.AppendState(nil)): -1}
	if _, ok := seen[string(NewWaits(waitOf("b", 2, 10), waitOf("a", 1, 10, "y", "x")).AppendState(nil))]; !ok {
		t.Error("the order of Hold shows in the state")
	}
	other := waitOf("a", 1, 10, "x", "y")
	other.Pod.Node = "m"
	for i, w := range []*Waits{
		{},
		NewWaits(waitOf("a", 1, 10, "x", "y")),
		NewWaits(waitOf("a", 1, 10, "x", "y"), waitOf("b", 3, 10)),
		NewWaits(waitOf("a", 1, 11, "x", "y"), waitOf("b", 2, 10)),
		NewWaits(waitOf("a", 1, 10, "xy"), waitOf("b", 2, 10)),
		NewWaits(waitOf("c", 1, 10, "x", "y"), waitOf("b", 2, 10)),
		NewWaits(other, waitOf("b", 2, 10)),
	} {
		state := string(w.AppendState(nil))
		if j, ok := seen[state]; ok {
			t.Errorf("state %d equals %d", i, j)
		}
		seen[state] = i
	}
}
