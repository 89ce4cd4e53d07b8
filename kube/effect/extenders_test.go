package effect_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// extenders answer as a test sets them up.
type extenders struct {
	binds bool
	ask   func(ctx context.Context) []eventlog.ExtenderAnswer
	// preempt answers questions about preemption.
	preempt func(ctx context.Context) []eventlog.ExtenderAnswer
	bind    func(ctx context.Context) (by string, err error)
}

func (x *extenders) Ask(ctx context.Context, _ *v1.Pod, _ []string) []eventlog.ExtenderAnswer {
	return x.ask(ctx)
}
func (x *extenders) Preempt(ctx context.Context, _ *v1.Pod, _ []eventlog.Candidate, _ map[string][]*v1.Pod,
) []eventlog.ExtenderAnswer {
	return x.preempt(ctx)
}
func (x *extenders) Binds(*v1.Pod) bool { return x.binds }
func (x *extenders) Bind(ctx context.Context, _ *v1.Pod, _ string) (string, error) {
	return x.bind(ctx)
}

// TestAnExtenderBindsInPlaceOfOthers has one bind a pod, fail, say so only, fail after it has bound it, and fail where
// it may be ignored. The state at the API server has the last word.
func TestAnExtenderBindsInPlaceOfOthers(t *testing.T) {
	failed := errors.New("no answer")
	for _, c := range []struct {
		name  string
		by    string
		err   error
		binds bool // the extender does
		want  eventlog.BindResult
		sent  int
	}{
		{name: "binds", by: "http://x", binds: true, want: eventlog.BindResult{Outcome: eventlog.BindBound}, sent: 1},
		{name: "binds and fails", by: "http://x", err: failed, binds: true,
			want: eventlog.BindResult{Outcome: eventlog.BindBound}, sent: 1},
		{name: "fails", by: "http://x", err: failed, want: eventlog.BindResult{Outcome: eventlog.BindFailed,
			Plugin: "Extender", Code: "Error", Message: "extender http://x: no answer"}},
		{name: "lies", by: "http://x", want: eventlog.BindResult{Outcome: eventlog.BindFailed, Plugin: "Extender",
			Code: "Error", Message: "extender http://x says that it has bound the pod, and it is not bound"}},
		{name: "is ignored", want: eventlog.BindResult{Outcome: eventlog.BindBound}, sent: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serverWith(t, "a", "u")
			r := run(t, s, effect.Options{Extenders: &extenders{binds: true,
				bind: func(ctx context.Context) (string, error) {
					if c.binds {
						bindBy(ctx, t, s)
					}
					return c.by, c.err
				}}})
			defer r.stop()
			request := bind("a", "u", "n1")
			request.Pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}}
			r.Carry(ready(request))
			<-r.Finished()
			got := *r.Take()[0].(*eventlog.BindResult)
			c.want.UID, c.want.Node, c.want.Decision = got.UID, got.Node, request.Seq
			if got != c.want || len(s.binds["u"]) != c.sent {
				t.Errorf("got  %+v\nwant %+v; bound to %q", got, c.want, s.binds["u"])
			}
		})
	}
}

// TestASlowExtenderHoldsUpNoBind has more questions open than there are workers, and a drain that waits for none.
func TestASlowExtenderHoldsUpNoBind(t *testing.T) {
	s := serverWith(t, "a", "u")
	answer, asked := make(chan struct{}), make(chan struct{}, 3)
	r := run(t, s, effect.Options{Workers: 1, Extenders: &extenders{
		ask: func(ctx context.Context) []eventlog.ExtenderAnswer {
			asked <- struct{}{}
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return []eventlog.ExtenderAnswer{{Name: "x"}}
		}}})
	defer r.stop()
	for _, name := range []string{"b", "c", "d"} {
		r.Carry(ready(engine.Effect{Effect: scheduler.Effect{Kind: scheduler.Ask, Seq: 5, Name: name, UID: "u"}}))
		r.Carry(ready(engine.Effect{Effect: scheduler.Effect{Kind: scheduler.Ask, Seq: 5, Name: name, UID: "v"}}))
	}
	<-asked
	<-asked
	request := bind("a", "w", "n1")
	r.Carry(ready(request))
	<-r.Finished()
	if result, ok := r.Take()[0].(*eventlog.BindResult); !ok || result.UID != "w" {
		t.Fatalf("the bind has no result while extenders are asked: %+v", result)
	}
	answer <- struct{}{}
	<-r.Finished()
	if result, ok := r.Take()[0].(*eventlog.ExtenderResult); !ok || result.Decision != 5 || len(result.Answers) != 1 {
		t.Errorf("the answer is %+v", result)
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAQuestionAboutPreemptionGoesToThePreemptVerb has the question with candidates, and the pods that may be named.
func TestAQuestionAboutPreemptionGoesToThePreemptVerb(t *testing.T) {
	s := serverWith(t, "a", "u")
	r := run(t, s, effect.Options{Extenders: &extenders{
		preempt: func(context.Context) []eventlog.ExtenderAnswer {
			return []eventlog.ExtenderAnswer{{Name: "x", Candidates: []eventlog.Candidate{{Node: "n"}}}}
		}}})
	defer r.stop()
	r.Carry(ready(engine.Effect{Effect: scheduler.Effect{Kind: scheduler.Ask, Seq: 5, Name: "a", UID: "u",
		Candidates: []eventlog.Candidate{{Node: "n", Victims: []types.UID{"v"}}}}}))
	<-r.Finished()
	result, ok := r.Take()[0].(*eventlog.ExtenderResult)
	if !ok || result.Decision != 5 || len(result.Answers) != 1 || result.Answers[0].Candidates[0].Node != "n" {
		t.Errorf("got %+v", result)
	}
}
