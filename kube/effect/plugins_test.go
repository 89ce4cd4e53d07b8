package effect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/effect"
)

// script says what the plugins of a binding cycle do in a test.
type script struct {
	before func(ctx context.Context) *fwk.Status // nil: they let the pod pass
	bind   func(ctx context.Context) (by string, status *fwk.Status)

	mu    sync.Mutex
	calls []string
}

func (s *script) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *script) Before(ctx context.Context, together framework.Together) *fwk.Status {
	together([]func(){func() { s.note("before") }})
	if s.before == nil {
		return nil
	}
	return s.before(ctx)
}

func (s *script) Bind(ctx context.Context) (by string, status *fwk.Status) {
	s.note("bind")
	if s.bind == nil {
		return "", nil
	}
	return s.bind(ctx)
}

func (s *script) PostBind(context.Context) { s.note("post") }

// TestPluginsOfABindingCycle has plugins let a pod pass, refuse it, fail, bind it, and only say so.
func TestPluginsOfABindingCycle(t *testing.T) {
	refused := fwk.NewStatus(fwk.Unschedulable, "no port is free").WithPlugin("Switch")
	failed := fwk.AsStatus(errors.New("no answer")).WithPlugin("Switch")
	const saysSo = `plugin "Switch" says that it has bound the pod, and it is not bound`
	for _, c := range []struct {
		name   string
		before *fwk.Status
		by     string
		bind   *fwk.Status
		binds  bool // the plugin does
		want   eventlog.BindResult
		calls  []string
		sent   int
	}{
		{name: "pass", want: eventlog.BindResult{Outcome: eventlog.BindBound},
			calls: []string{"before", "bind", "post"}, sent: 1},
		{name: "refuse", before: refused, want: eventlog.BindResult{Outcome: eventlog.BindFailed, Plugin: "Switch",
			Code: "Unschedulable", Message: `plugin "Switch" refuses the bind: no port is free`},
			calls: []string{"before"}},
		{name: "fail", before: failed, want: eventlog.BindResult{Outcome: eventlog.BindFailed, Plugin: "Switch",
			Code: "Error", Message: "no answer"}, calls: []string{"before"}},
		{name: "bind", by: "Switch", binds: true, want: eventlog.BindResult{Outcome: eventlog.BindBound},
			calls: []string{"before", "bind", "post"}, sent: 1},
		{name: "bind and fail", bind: failed, binds: true, want: eventlog.BindResult{Outcome: eventlog.BindBound},
			calls: []string{"before", "bind", "post"}, sent: 1},
		{name: "say so", by: "Switch", want: eventlog.BindResult{Outcome: eventlog.BindFailed, Plugin: "Switch",
			Code: "Error", Message: saysSo}, calls: []string{"before", "bind"}},
		{name: "nobody", bind: fwk.AsStatus(errors.New("all skip it")), want: eventlog.BindResult{
			Outcome: eventlog.BindFailed, Message: "all skip it"}, calls: []string{"before", "bind"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serverWith(t, "a", "u")
			r := run(t, s, effect.Options{})
			defer r.stop()
			plugins := &script{
				before: func(context.Context) *fwk.Status { return c.before },
				bind: func(ctx context.Context) (string, *fwk.Status) {
					if c.binds {
						bindBy(ctx, t, s)
					}
					return c.by, c.bind
				}}
			request := bind("a", "u", "n1")
			request.Binding = plugins
			r.Carry(ready(request))
			<-r.Finished()
			got := *r.Take()[0].(*eventlog.BindResult)
			c.want.UID, c.want.Node, c.want.Decision = got.UID, got.Node, request.Seq
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if !slices.Equal(plugins.calls, c.calls) || len(s.binds["u"]) != c.sent {
				t.Errorf("calls %q, bound to %q; want %q, %d binds", plugins.calls, s.binds["u"], c.calls, c.sent)
			}
			entry := eventlog.Entry{Seq: 1, Payload: &got}
			if _, err := eventlog.AppendRecord(nil, entry, [32]byte{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestASlowPluginHoldsUpNoOtherBind has more plugins wait than there are workers.
func TestASlowPluginHoldsUpNoOtherBind(t *testing.T) {
	s := serverWith(t, "a", "u", "b", "v", "c", "w")
	r := run(t, s, effect.Options{Workers: 1})
	defer r.stop()
	release := make(chan struct{})
	for _, request := range []engine.Effect{bind("a", "u", "n1"), bind("b", "v", "n1")} {
		request.Binding = &script{before: func(context.Context) *fwk.Status {
			<-release
			return nil
		}}
		r.Carry(ready(request))
	}
	r.Carry(ready(bind("c", "w", "n1")))
	<-r.Finished()
	if got := r.Take(); len(got) != 1 || got[0].(*eventlog.BindResult).UID != "w" {
		t.Errorf("%+v", got)
	}
	close(release)
	for n := 0; n < 2; n += len(r.Take()) {
		<-r.Finished()
	}
}

// TestThePluginsOfAPodThatIsGoneAreTold has the pod be deleted while a plugin waits for something.
func TestThePluginsOfAPodThatIsGoneAreTold(t *testing.T) {
	s := newServer(t)
	gone := errors.New("the pod is gone")
	r := run(t, s, effect.Options{Still: func(engine.Effect) error { return gone }})
	defer r.stop()
	request := bind("a", "u", "n1")
	request.Binding = &script{before: waitForEnd}
	r.Carry(ready(request))
	<-r.Finished()
	if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindConflict ||
		!strings.Contains(got.Message, "is gone") {
		t.Errorf("%+v", got)
	}
}

// waitForEnd is a plugin that waits until its context ends.
func waitForEnd(ctx context.Context) *fwk.Status {
	<-ctx.Done()
	return fwk.AsStatus(ctx.Err()).WithPlugin("Switch")
}

// TestABindWhoseNodeIsGoneBlamesNoPlugin has the plugin be broken off.
func TestABindWhoseNodeIsGoneBlamesNoPlugin(t *testing.T) {
	gone := errors.New("node n1 is gone")
	r := run(t, serverWith(t, "a", "u"), effect.Options{Still: func(engine.Effect) error { return gone }})
	defer r.stop()
	request := bind("a", "u", "n1")
	request.Binding = &script{before: waitForEnd}
	r.Carry(ready(request))
	<-r.Finished()
	if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindFailed || got.Plugin != "" ||
		got.Message != gone.Error() {
		t.Errorf("%+v", got)
	}
}

func TestDrainSaysWhatIsLeft(t *testing.T) {
	e := effect.New(effect.Options{Client: newServer(t).client()})
	if err := e.Drain(t.Context()); err != nil {
		t.Errorf("nothing is outstanding: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // a select of two that are ready takes either
		if err := e.Drain(ctx); err != nil {
			t.Fatalf("nothing is outstanding, and the time is over: %v", err)
		}
	}
	e.Carry(ready(bind("a", "u", "n1"), bind("b", "v", "n1"))) // and nothing runs
	if err := e.Drain(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 effects") {
		t.Errorf("error %v", err)
	}
}

// TestADrainGivesUpWhatPluginsWaitFor: no outcome is unknown, and the next process begins again. The plugin hears it.
func TestADrainGivesUpWhatPluginsWaitFor(t *testing.T) {
	r := run(t, serverWith(t, "a", "u"), effect.Options{})
	defer r.stop()
	begun, told := make(chan struct{}), make(chan struct{})
	request := bind("a", "u", "n1")
	request.Binding = &script{before: func(ctx context.Context) *fwk.Status {
		close(begun)
		defer close(told)
		return waitForEnd(ctx)
	}}
	r.Carry(ready(request))
	<-begun
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-told
	if got := r.Take(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestAPostBindPluginIsNotBrokenOff: once it is known that the pod is bound, its bind no longer needs to be sent.
func TestAPostBindPluginIsNotBrokenOff(t *testing.T) {
	s := serverWith(t, "a", "u")
	var bound atomic.Bool
	r := run(t, s, effect.Options{Still: func(engine.Effect) error {
		if bound.Load() {
			return errors.New("the pod is bound")
		}
		return nil
	}})
	defer r.stop()
	request := bind("a", "u", "n1")
	var told error
	request.Binding = &postBinder{script{},
		func(ctx context.Context) {
			bound.Store(true)
			time.Sleep(20 * time.Millisecond) // by now a plugin would have heard it
			told = ctx.Err()
		}}
	r.Carry(ready(request))
	<-r.Finished()
	if got := r.Take()[0].(*eventlog.BindResult); got.Outcome != eventlog.BindBound || told != nil {
		t.Errorf("%+v, the context of PostBind: %v", got, told)
	}
}

// postBinder is a script whose PostBind does something.
type postBinder struct {
	script
	post func(context.Context)
}

func (p *postBinder) PostBind(ctx context.Context) { p.post(ctx) }

// serverWith returns a server that has pods: their names and UIDs in turn.
func serverWith(t *testing.T, pods ...string) *server {
	s := newServer(t)
	for i := 0; i < len(pods); i += 2 {
		name, uid := pods[i], types.UID(pods[i+1])
		s.pods[name] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	}
	return s
}

// bindBy binds pod a as a plugin does.
func bindBy(ctx context.Context, t *testing.T, s *server) {
	err := s.client().CoreV1().Pods("ns").Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
}
