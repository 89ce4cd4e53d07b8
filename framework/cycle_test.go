package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestReserveStopsAtTheFirstRefusalAndUnreserveGoesBackwards(t *testing.T) {
	for _, tt := range []struct {
		name    string
		b       *fwk.Status
		code    fwk.Code
		plugin  string
		reserve string
	}{
		{"all succeed", nil, fwk.Success, "", "a.Reserve b.Reserve c.Reserve"},
		{"one refuses", unschedulable("no"), fwk.Unschedulable, "b", "a.Reserve b.Reserve"},
		{"one is pending", fwk.NewStatus(fwk.Pending), fwk.Pending, "b", "a.Reserve b.Reserve"},
		{"one fails", fwk.AsStatus(errors.New("boom")), fwk.Error, "b", "a.Reserve b.Reserve"},
		{"one answers what Reserve cannot", fwk.NewStatus(fwk.Wait), fwk.Error, "b", "a.Reserve b.Reserve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			p := profileOf(t, World{},
				reserver{bare{&script{name: "a", log: &log}}},
				reserver{bare{&script{name: "b", log: &log, reserve: tt.b}}},
				reserver{bare{&script{name: "c", log: &log}}})
			trace := &Trace{}
			status := p.Reserve(context.Background(), NewCycleState(), podNamed("p"), "n", trace)
			if status.Code() != tt.code || status != nil && status.Plugin() != tt.plugin {
				t.Errorf("status %v", status)
			}
			if s := strings.Join(log, " "); s != tt.reserve || len(trace.Reserve) != len(log) {
				t.Errorf("calls %q, traced %v", s, trace.Reserve)
			}
			log = nil
			p.Unreserve(context.Background(), NewCycleState(), podNamed("p"), "n")
			if s := strings.Join(log, " "); s != "c.Unreserve b.Unreserve a.Unreserve" {
				t.Errorf("calls %q", s)
			}
		})
	}
}

// lastPermitter implements PermitsLast, and records whether another plugin holds the pod.
type lastPermitter struct {
	permitter
	waiting *WaitingPods
	held    *bool
}

func (p lastPermitter) PermitsLast() {}

func (p lastPermitter) Permit(
	ctx context.Context,
	s fwk.CycleState,
	pod *v1.Pod,
	node string,
) (*fwk.Status, time.Duration) {
	*p.held = p.waiting.HeldInCycle()
	return p.permitter.Permit(ctx, s, pod, node)
}

func TestAPluginThatPermitsLastKnowsWhetherOthersHoldThePod(t *testing.T) {
	for _, other := range []struct {
		status *fwk.Status
		held   bool
	}{{nil, false}, {fwk.NewStatus(fwk.Wait), true}} {
		w, held := &WaitingPods{}, false
		last := lastPermitter{permitter{bare{&script{name: "a"}}}, w, &held}
		p := profileOf(t, World{Waiting: w}, last, permitter{bare{&script{name: "z", permit: other.status}}})
		if got := p.Plugins(Permit); !slices.Equal(got, []string{"z", "a"}) {
			t.Errorf("asked in the order %v", got)
		}
		w.StartCycle()
		p.Permit(context.Background(), NewCycleState(), podNamed("p"), "n", nil)
		w.EndCycle()
		if held != other.held {
			t.Errorf("held by another plugin: %v, want %v", held, other.held)
		}
	}
}

func TestPermitGathersWaits(t *testing.T) {
	wait := func() *fwk.Status { return fwk.NewStatus(fwk.Wait, "patience") }
	for _, tt := range []struct {
		name  string
		z, a  script
		code  fwk.Code
		waits []Wait
		calls string
	}{
		{"all succeed", script{}, script{}, fwk.Success, nil, "z.Permit a.Permit"},
		{"waits come sorted, none longer than 15 minutes",
			script{permit: wait(), permitTimeout: time.Hour}, script{permit: wait(), permitTimeout: time.Minute},
			fwk.Wait, []Wait{{"a", time.Minute}, {"z", 15 * time.Minute}}, "z.Permit a.Permit"},
		{"a refusal ends it, waits or not", script{permit: wait()}, script{permit: unschedulable("no")},
			fwk.Unschedulable, nil, "z.Permit a.Permit"},
		{"the first refusal ends it", script{permit: unschedulable("no")}, script{}, fwk.Unschedulable, nil,
			"z.Permit"},
		{"a failure ends it", script{permit: fwk.AsStatus(errors.New("boom"))}, script{}, fwk.Error, nil, "z.Permit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			tt.z.name, tt.a.name, tt.z.log, tt.a.log = "z", "a", &log, &log
			p := profileOf(t, World{}, permitter{bare{&tt.z}}, permitter{bare{&tt.a}})
			trace := &Trace{}
			status, waits := p.Permit(context.Background(), NewCycleState(), podNamed("p"), "n", trace)
			if status.Code() != tt.code || !slices.Equal(waits, tt.waits) {
				t.Errorf("%v %v, want %v %v", status.Code(), waits, tt.code, tt.waits)
			}
			if s := strings.Join(log, " "); s != tt.calls || len(trace.Permit) != len(log) {
				t.Errorf("calls %q, traced %v", s, trace.Permit)
			}
		})
	}
}

func TestPostFilterEndsAtTheFirstThatHelps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		a, b   script
		code   fwk.Code
		plugin string
		node   string
		reason string
		calls  string
	}{
		{"success", script{postFilter: nil, postFilterNode: "n1"}, script{}, fwk.Success, "", "n1", "", "a.PostFilter"},
		{"no help: all reasons, the first plugin", script{postFilter: unschedulable("x")},
			script{postFilter: unschedulable("y")},
			fwk.Unschedulable, "a", "", "x, y", "a.PostFilter b.PostFilter"},
		{"UnschedulableAndUnresolvable ends it", script{postFilter: unresolvable("x")}, script{},
			fwk.UnschedulableAndUnresolvable, "a", "", "x", "a.PostFilter"},
		{"a failure ends it", script{postFilter: fwk.AsStatus(errors.New("boom"))}, script{}, fwk.Error, "a", "",
			"running PostFilter plugin \"a\": boom", "a.PostFilter"},
		{"the last result stands", script{postFilter: unschedulable(), postFilterNode: "n1"},
			script{postFilter: unschedulable(), postFilterNode: "n2"},
			fwk.Unschedulable, "a", "n2", "", "a.PostFilter b.PostFilter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log []string
			tt.a.name, tt.b.name, tt.a.log, tt.b.log = "a", "b", &log, &log
			p := profileOf(t, World{}, postFilterer{bare{&tt.a}}, postFilterer{bare{&tt.b}})
			trace := &Trace{}
			result, status := p.PostFilter(context.Background(), NewCycleState(), podNamed("p"), &NodeStatuses{}, trace)
			if status.Code() != tt.code || status.Message() != tt.reason ||
				status != nil && status.Plugin() != tt.plugin {
				t.Errorf("status %v %q by %v", status.Code(), status.Message(), status)
			}
			node := ""
			if result != nil {
				node = result.NominatedNodeName
			}
			if node != tt.node {
				t.Errorf("nominates %q, want %q", node, tt.node)
			}
			if s := strings.Join(log, " "); s != tt.calls || len(trace.PostFilter) != len(log) {
				t.Errorf("calls %q, traced %v", s, trace.PostFilter)
			}
		})
	}
}

func TestPreBindLeavesOutPluginsThatHaveNothingToDo(t *testing.T) {
	var log []string
	p := profileOf(t, World{},
		preBinder{bare{&script{name: "a", log: &log, preFlight: fwk.NewStatus(fwk.Skip)}}},
		preBinder{bare{&script{name: "b", log: &log}}})
	ctx, state, pod := context.Background(), NewCycleState(), podNamed("p")
	b := &Binding{Profile: p, Pod: pod, Node: "n", State: state}
	if s := b.PreFlight(ctx); s != nil {
		t.Errorf("%v", s)
	}
	if s := b.PreBind(ctx, InOrder); s != nil {
		t.Errorf("%v", s)
	}
	if s := strings.Join(log, " "); s != "a.PreBindPreFlight b.PreBindPreFlight b.PreBind" {
		t.Errorf("calls %q", s)
	}
}

func TestPreBindPreFlightSaysWhetherThereIsAnythingToDo(t *testing.T) {
	for _, tt := range []struct {
		answer *fwk.Status
		code   fwk.Code
	}{
		{nil, fwk.Success},
		{fwk.NewStatus(fwk.Skip), fwk.Skip},
		{fwk.AsStatus(errors.New("boom")), fwk.Error},
		{unschedulable("no"), fwk.Error},
	} {
		p := profileOf(t, World{}, preBinder{bare{&script{name: "a", preFlight: tt.answer}}})
		b := &Binding{Profile: p, Pod: podNamed("p"), Node: "n", State: NewCycleState()}
		if s := b.PreFlight(context.Background()); s.Code() != tt.code {
			t.Errorf("%v: %v, want %v", tt.answer.Code(), s.Code(), tt.code)
		}
	}
}

func TestBindGoesOnWhileItIsSkipped(t *testing.T) {
	for _, tt := range []struct {
		a, b  *fwk.Status
		code  fwk.Code
		calls string
	}{
		{nil, nil, fwk.Success, "a.Bind"},
		{fwk.NewStatus(fwk.Skip), nil, fwk.Success, "a.Bind b.Bind"},
		{fwk.NewStatus(fwk.Skip), fwk.NewStatus(fwk.Skip), fwk.Error, "a.Bind b.Bind"},
		{unschedulable("no"), nil, fwk.Unschedulable, "a.Bind"},
		{fwk.AsStatus(errors.New("boom")), nil, fwk.Error, "a.Bind"},
	} {
		var log []string
		p := profileOf(t, World{}, binder{bare{&script{name: "a", log: &log, bind: tt.a}}},
			binder{bare{&script{name: "b", log: &log, bind: tt.b}}})
		p.bind = p.bind[:2] // without the fixture's own
		cycle := &Binding{Profile: p, Pod: podNamed("p"), Node: "n", State: NewCycleState()}
		by, s := cycle.Bind(context.Background())
		taken := tt.code == fwk.Success
		if s.Code() != tt.code || (by != "") != taken || strings.Join(log, " ") != tt.calls {
			t.Errorf("%v after %v, want %v after %s", s.Code(), log, tt.code, tt.calls)
		}
	}
}

func TestRejectionsSayWhatIsRecordedOfAStatus(t *testing.T) {
	for _, tt := range []struct {
		status *fwk.Status
		want   string
	}{
		{nil, ""},
		{fwk.NewStatus(fwk.Wait, "patience"), ""},
		{unschedulable("b", "a", "b").WithPlugin("x"), "x Unschedulable \"a\" 0\nx Unschedulable \"b\" 0"},
		{fwk.NewStatus(fwk.Pending).WithPlugin("x"), `x Pending "" 0`},
		{fwk.AsStatus(fmt.Errorf("at %p", t)).WithPlugin("x"), `x Error "" 0`},
	} {
		if got := show(Rejections(tt.status)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.status, got, tt.want)
		}
	}
}

func TestRejectionsOfNodesAreCountedByReason(t *testing.T) {
	var c tally
	for i := range 10 {
		c.add(unschedulable("cpu").WithPlugin("fit"), 1)
		if i%2 == 0 {
			c.add(unschedulable("gpu", "cpu").WithPlugin("fit"), 1)
		}
	}
	want := []eventlog.Rejection{
		{Plugin: "fit", Code: "Unschedulable", Reason: "cpu", Nodes: 15},
		{Plugin: "fit", Code: "Unschedulable", Reason: "gpu", Nodes: 5},
	}
	if got := c.rejections(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c.reset()
	if got := c.rejections(); got != nil {
		t.Errorf("after reset %v", got)
	}
}
