package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestTheStoryOfTheseTestsHasEveryKindOfOutcome guards the other tests: what they are about must happen in it.
func TestTheStoryOfTheseTestsHasEveryKindOfOutcome(t *testing.T) {
	w := newWorld(t)
	for _, m := range gangStory() {
		w.mustStep(m)
	}
	want := map[string]bool{"Scheduled": true, "Waiting": true, "Unschedulable": true, "Tick": true, "released": true,
		"Bound": true}
	for _, e := range w.entries() {
		switch p := e.Payload.(type) {
		case *eventlog.Decision:
			delete(want, p.Outcome.String())
			if len(p.Rejected) > 0 {
				delete(want, "released")
			}
		case *eventlog.Tick:
			delete(want, "Tick")
		case *eventlog.BindResult:
			delete(want, p.Outcome.String())
		}
	}
	if len(want) > 0 {
		t.Errorf("the story has none of: %v", slices.Sorted(maps.Keys(want)))
	}
	verify(t, w.log.kept, false)
}

// verify decides the log again.
func verify(t testing.TB, log engine.Log, undecided bool) {
	t.Helper()
	report, err := replay.Verify(
		context.Background(),
		log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Identical() {
		t.Fatalf("the replay diverges: %v", report.Divergences)
	}
	if report.Undecided != undecided {
		t.Fatalf("undecided is %v, want %v", report.Undecided, undecided)
	}
}

// TestNothingIsReleasedUnlessItsAppendSucceeds fails every append of the story in turn. The disk keeps the entries, or
// it does not. Either way the engine gives nothing out and stops. An engine that is opened on the log then has the
// state of one that was restarted in good order.
func TestNothingIsReleasedUnlessItsAppendSucceeds(t *testing.T) {
	story := gangStory()
	for _, persist := range []bool{false, true} {
		for k := range story {
			t.Run(fmt.Sprintf("step %d, entries kept %v", k, persist), func(t *testing.T) {
				w := newWorld(t)
				for _, m := range story[:k] {
					w.mustStep(m)
				}
				before := w.entries()
				w.log.failAt, w.log.persist = len(w.log.appends)+1, persist
				effects, err := w.step(story[k])
				if err == nil {
					if after := w.entries(); len(after) != len(before) {
						t.Fatalf("no error, though the append failed")
					}
					return // nothing is appended in this step
				}
				if !errors.Is(err, errDisk) || len(effects) > 0 {
					t.Fatalf("error is %v with effects %v, want the log's and none", err, effects)
				}
				wantStopped(t, w)
				got := w.continueAfterFault(story, k, persist)
				if want := restarted(t, story, k, persist); got != want {
					t.Errorf("the state in the end is %x, after an orderly restart %x", got, want)
				}
				verify(t, w.log.kept, false)
			})
		}
	}
}

// wantStopped requires that the engine refuses every call.
func wantStopped(t *testing.T, w *world) {
	t.Helper()
	appends := len(w.log.appends)
	for _, inputs := range [][]eventlog.Payload{nil, {pod("more", "1", "")}} {
		effects, err := effectsOf(w.engine.Step(context.Background(), w.now.Add(time.Hour), inputs))
		if err == nil || !strings.Contains(err.Error(), "the engine has stopped") || !errors.Is(err, errDisk) ||
			effects != nil {
			t.Errorf("a step after the failure gives %v, %v", effects, err)
		}
	}
	if len(w.log.appends) != appends {
		t.Errorf("the engine appends after a failure")
	}
}

// continueAfterFault opens the log again and tells the rest of the story: step k too, if the log does not have it.
func (w *world) continueAfterFault(story []moment, k int, persisted bool) [32]byte {
	w.t.Helper()
	w.reopen()
	rest := story[k:]
	if persisted {
		w.now, w.answers = w.now.Add(story[k].after), nil
		rest = story[k+1:]
	}
	for _, m := range rest {
		w.mustStep(m)
	}
	return w.engine.Machine().Hash()
}

// restarted tells the story with an orderly restart before step k, or after it, whose effects are then lost.
func restarted(t *testing.T, story []moment, k int, after bool) [32]byte {
	t.Helper()
	w := newWorld(t)
	for i, m := range story {
		if i == k && !after {
			w.reopen()
		}
		now := w.now
		w.mustStep(m)
		if i == k && after {
			w.now, w.answers = now, nil // the time at which the failed one was opened again
			w.reopen()
			w.now = now.Add(m.after)
		}
	}
	return w.engine.Machine().Hash()
}

// TestAFailureInTheMiddleOfABigStepReleasesNothing fails the second append of a step that needs two: the
// first one is durable already, with decisions in it.
func TestAFailureInTheMiddleOfABigStepReleasesNothing(t *testing.T) {
	for _, persist := range []bool{false, true} {
		w := newWorld(t)
		w.log.failAt, w.log.persist = len(w.log.appends)+2, persist
		big := bigStep()
		effects, err := w.step(big)
		if !errors.Is(err, errDisk) || len(effects) > 0 {
			t.Fatalf("error is %v with effects %v, want the log's and none", err, effects)
		}
		if last, _ := w.log.Last(); last < engine.MaxAppend {
			t.Fatalf("the log has %d entries, want the first append's %d at least", last, engine.MaxAppend)
		}
		w.reopen()
		w.answers = nil
		w.mustStep(moment{})
		if placed := placements(w.engine.Machine()); placed["red-0"] == "" {
			t.Fatalf("the first append's pods are lost: %v", placed)
		}
		w.mustStep(big) // the world tells everything again
		for name, where := range placements(w.engine.Machine()) {
			if !strings.HasPrefix(where, "Binding") && !strings.HasPrefix(where, "Bound") {
				t.Errorf("%s is %s in the end", name, where)
			}
		}
		verify(t, w.log.kept, false)
	}
}

// bigStep brings more than one append holds: pods of another scheduler, and a gang around them.
func bigStep() moment {
	m := moment{inputs: []eventlog.Payload{node("n1", "4"), node("n2", "4"), group("red", 2), pod("red-0", "2", "red")}}
	for i := range engine.MaxAppend + 10 {
		p := pod(fmt.Sprintf("foreign-%d", i), "1", "")
		p.(*eventlog.Upserted).Object.(*v1.Pod).Spec.SchedulerName = "another"
		m.inputs = append(m.inputs, p)
	}
	m.inputs = append(m.inputs, pod("red-1", "2", "red"))
	return m
}

func TestABigStepIsAppendedInParts(t *testing.T) {
	w := newWorld(t)
	already := len(w.log.appends)
	effects := w.mustStep(bigStep())
	parts := w.log.appends[already:]
	if len(parts) != 2 || parts[0] != engine.MaxAppend || parts[1] == 0 {
		t.Errorf("the step was appended in parts of %v, want two, the first of %d", parts, engine.MaxAppend)
	}
	if len(effects) != 2 || effects[0].Name != "red-0" || effects[1].Name != "red-1" {
		t.Errorf("effects are %+v, want the binds of the gang", effects)
	}
	verify(t, w.log.kept, false)
}

// TestRecoveryAfterEveryStep stops the story after every step. The engine that is opened then has the state that the
// old one would have in the new epoch. It asks again for effects that have no result yet, and ends the story with the
// same pods on the same nodes.
func TestRecoveryAfterEveryStep(t *testing.T) {
	story := gangStory()
	whole := newWorld(t)
	for _, m := range story {
		whole.mustStep(m)
	}
	want := placements(whole.engine.Machine())
	for k := range story {
		w := newWorld(t)
		for _, m := range story[:k+1] {
			w.mustStep(m)
		}
		old := w.engine.Machine()
		outstanding := old.Effects()
		w.reopen()
		m := w.engine.Machine()
		all := w.entries()
		if err := old.Apply(all[len(all)-1]); err != nil {
			t.Fatal(err)
		}
		if m.Epoch() != 2 || m.Hash() != old.Hash() {
			t.Errorf("step %d: the recovered state (epoch %d) is not the one that was left", k, m.Epoch())
		}
		w.answers = nil
		if again := w.mustStep(moment{}); !reflect.DeepEqual(again, outstanding) {
			t.Errorf("step %d: the first step gives the effects %+v, outstanding were %+v", k, again, outstanding)
		}
		if again := w.mustStep(moment{}); len(w.answers) > 0 {
			t.Errorf("step %d: the second step gives effects again: %+v", k, again)
		}
		w.answers = answersTo(outstanding)
		for _, m := range story[k+1:] {
			w.mustStep(m)
		}
		if got := placements(w.engine.Machine()); !maps.Equal(got, want) {
			t.Errorf("step %d: with a restart the pods stand at %v, without at %v", k, got, want)
		}
		verify(t, w.log.kept, false)
	}
}

func answersTo(effects []scheduler.Effect) []eventlog.Payload {
	var answers []eventlog.Payload
	for _, x := range effects {
		answers = append(answers, &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound})
	}
	return answers
}

// TestRecoveryFromEveryPrefix opens every beginning of a log, as a crash between two appends may leave it. The first
// step decides everything that was left undecided, and no gang is bound in part.
func TestRecoveryFromEveryPrefix(t *testing.T) {
	w := newWorld(t)
	for _, m := range gangStory() {
		w.mustStep(m)
	}
	all := w.entries()
	for n := range all {
		log := eventlog.NewMemory()
		if err := log.Append(context.Background(), 0, all[:n]); err != nil {
			t.Fatal(err)
		}
		e := open(t, log, start)
		effects, err := effectsOf(e.Step(context.Background(), start, nil))
		if err != nil {
			t.Fatal(err)
		}
		if m := e.Machine(); !reflect.DeepEqual(effects, m.Effects()) {
			t.Errorf("opened after entry %d the engine gives %+v, outstanding are %+v", n, effects, m.Effects())
		}
		red := 0
		for _, p := range placements(e.Machine()) {
			if strings.HasPrefix(p, "Waiting") {
				t.Errorf("opened after entry %d a pod is still held: %v", n, placements(e.Machine()))
			}
		}
		for _, x := range effects {
			if strings.HasPrefix(x.Name, "red-") {
				red++
			}
		}
		bound := 0
		for i := range 3 {
			if p := e.Machine().Cluster().Pods().Named("ml", fmt.Sprintf("red-%d", i)); p != nil &&
				p.Object.Spec.NodeName != "" {
				bound++
			}
		}
		if red+bound != 0 && red+bound != 3 && !hasDeletionOf(all[:n], "red-") {
			t.Errorf("opened after entry %d: %d of the gang's 3 pods are asked to be bound, %d are", n, red, bound)
		}
		verify(t, log, false)
	}
}

func hasDeletionOf(entries []eventlog.Entry, prefix string) bool {
	return slices.ContainsFunc(entries, func(e eventlog.Entry) bool {
		d, ok := e.Payload.(*eventlog.Deleted)
		return ok && strings.HasPrefix(d.Name, prefix)
	})
}

// TestTimeNeverGoesBack drives an engine with a clock that jumps by years to and fro: the entries' times go up,
// and the log is decided again in the same way.
func TestTimeNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		jump := rapid.Int64Range(-int64(5*365*24*time.Hour), int64(5*365*24*time.Hour))
		for _, m := range gangStory() {
			clock := start.Add(time.Duration(jump.Draw(r, "clock")))
			effects, err := effectsOf(w.engine.Step(context.Background(), clock, append(w.answers, m.inputs...)))
			if err != nil {
				r.Fatal(err)
			}
			w.answers = answersTo(effects)
			if rapid.IntRange(0, 9).Draw(r, "restart") == 0 {
				w.now = start.Add(time.Duration(jump.Draw(r, "clock at the restart")))
				w.reopen()
			}
		}
		var last eventlog.Time
		for _, e := range w.entries() {
			if e.Time < last {
				r.Fatalf("entry %d is of %s, the one before it of %s", e.Seq, e.Time, last)
			}
			last = e.Time
		}
		report, err := replay.Verify(context.Background(), w.log.Read(context.Background(), 1),
			replay.Options{Registry: plugins.NewRegistry()})
		if err != nil || !report.Identical() {
			r.Fatalf("the replay diverges: %v %v", err, report.Divergences)
		}
	})
}

func TestAClockThatStandsBehindTheLogIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4")}})
	w.now = start.AddDate(-3, 0, 0)
	w.reopen()
	w.mustStep(moment{inputs: []eventlog.Payload{node("n2", "4")}})
	for _, e := range w.entries() {
		if e.Time != eventlog.TimeOf(start) {
			t.Errorf("entry %d is of %s, want %s", e.Seq, e.Time, start)
		}
	}
}

// TestSettledStandsOnTheFirstInputOfAStepAfterADecidedOne says what replay finds missing decisions by.
func TestSettledStandsOnTheFirstInputOfAStepAfterADecidedOne(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4"), node("n2", "4")}})   // 2, 3
	w.mustStep(moment{inputs: []eventlog.Payload{pod("a", "1", ""), node("n3", "4")}}) // 4, 5, 6 a decision
	w.reopen()                                                                         // 7
	w.mustStep(moment{inputs: []eventlog.Payload{pod("b", "1", "")}})                  // 8 the bind, 9, 10 a decision
	w.answers = nil
	w.mustStep(moment{inputs: []eventlog.Payload{pod("c", "16", "")}}) // 11, 12 a decision
	w.mustStep(moment{inputs: []eventlog.Payload{node("n4", "16")}})   // 13
	w.mustStep(moment{after: time.Hour})                               // 14 a tick, 15 a decision
	var settled []uint64
	for _, e := range w.entries() {
		if e.Settled {
			settled = append(settled, e.Seq)
		}
	}
	if want := []uint64{4, 11, 13, 14}; !slices.Equal(settled, want) {
		t.Errorf("settled are the entries %v, want %v", settled, want)
	}
}

// TestOnlyWhatSchedulingReadsIsLogged gives an engine a pod with secrets: neither the log nor the state has them.
func TestOnlyWhatSchedulingReadsIsLogged(t *testing.T) {
	const secret = "hunter2"
	w := newWorld(t)
	up := pod("a", "1", "").(*eventlog.Upserted)
	p := up.Object.(*v1.Pod)
	p.Annotations = map[string]string{"example.com/token": secret}
	p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: secret}}
	p.Spec.Containers[0].Args = []string{"--password=" + secret}
	p.Spec.Containers[0].Command = []string{secret}
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4"), up}})
	for _, e := range w.entries() {
		record, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(record, []byte(secret)) {
			t.Errorf("entry %d, %s, has the secret", e.Seq, e.Kind())
		}
	}
	kept := w.engine.Machine().Cluster().Pods().Get("uid-a").Object
	if strings.Contains(fmt.Sprintf("%+v", kept), secret) {
		t.Errorf("the state has the secret: decisions could depend on what the log does not hold")
	}
	if p.Spec.Containers[0].Env[0].Value != secret {
		t.Errorf("the caller's object was changed")
	}
}

func TestTheStateSharesNothingWithTheCallersObjects(t *testing.T) {
	w := newWorld(t)
	up := pod("a", "1", "").(*eventlog.Upserted)
	w.mustStep(moment{inputs: []eventlog.Payload{up, node("n1", "4")}})
	before := w.engine.Machine().Hash()
	up.Object.(*v1.Pod).Spec.SchedulerName = "changed"
	up.Object.(*v1.Pod).Spec.Containers[0].Name = "changed"
	if w.engine.Machine().Hash() != before {
		t.Errorf("changing the caller's object changed the state")
	}
}

// TestACancelledStepLeavesALogThatReplays stops in the middle of a step's decisions. The decisions until then are
// durable, and none of their effects is released. The next engine decides the rest.
func TestACancelledStepLeavesALogThatReplays(t *testing.T) {
	inputs := []eventlog.Payload{node("n1", "4"), node("n2", "4"), group("red", 3), pod("red-0", "2", "red"),
		pod("red-1", "2", "red"), pod("red-2", "2", "red")}
	for decided := range 3 {
		w := newWorld(t)
		ctx := &cancelledAfter{Context: context.Background(), left: decided}
		effects, err := effectsOf(w.engine.Step(ctx, start, inputs))
		if !errors.Is(err, context.Canceled) || effects != nil {
			t.Fatalf("a cancelled step gives %v, %v", effects, err)
		}
		if last, _ := w.log.Last(); last != uint64(1+len(inputs)+decided) {
			t.Errorf("the log has %d entries, want those of the inputs and %d decisions", last, decided)
		}
		verify(t, w.log.kept, true)
		w.reopen()
		if effects := w.mustStep(moment{}); len(effects) != 3 {
			t.Errorf("stopped after %d decisions and opened again, the effects are %+v, want the gang's binds", decided,
				effects)
		}
		verify(t, w.log.kept, false)
	}
}

// cancelledAfter is a context that is cancelled once it was asked left times.
type cancelledAfter struct {
	context.Context
	left int
}

func (c *cancelledAfter) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	return context.Canceled
}

func TestAnInputThatTheLogCannotHoldStopsTheEngineAndNotTheLog(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4")}})
	last, _ := w.log.Last()
	bad := pod("a", "1", "").(*eventlog.Upserted)
	bad.Object.(*v1.Pod).Labels = map[string]string{"text": "\xff"}
	if _, err := w.step(moment{inputs: []eventlog.Payload{pod("b", "1", ""), bad}}); err == nil ||
		!strings.Contains(err.Error(), "ml/a") {
		t.Fatalf("the error is %v, want one that names the pod", err)
	}
	if after, _ := w.log.Last(); after != last {
		t.Errorf("the log goes to entry %d, want %d: nothing of the step", after, last)
	}
	w.reopen()
	if effects := w.mustStep(moment{inputs: []eventlog.Payload{pod("b", "1", "")}}); len(effects) != 1 {
		t.Errorf("after the restart the effects are %+v", effects)
	}
}

// TestAnUpsertedWithoutAnObjectIsAnError has inputs that are none for want of something.
func TestAnUpsertedWithoutAnObjectIsAnError(t *testing.T) {
	for name, input := range map[string]eventlog.Payload{
		"no object":               &eventlog.Upserted{Resource: eventlog.Pods},
		"a pod that is nil":       &eventlog.Upserted{Resource: eventlog.Pods, Object: (*v1.Pod)(nil)},
		"an upserted that is nil": (*eventlog.Upserted)(nil),
		"a deleted that is nil":   (*eventlog.Deleted)(nil),
		"nothing":                 nil,
	} {
		w := newWorld(t)
		last, _ := w.log.Last()
		if effects, err := w.step(moment{inputs: []eventlog.Payload{input}}); err == nil || effects != nil {
			t.Errorf("%s: the effects are %v, the error %v", name, effects, err)
		}
		if after, _ := w.log.Last(); after != last {
			t.Errorf("%s: the log goes to entry %d, want %d", name, after, last)
		}
	}
}

func TestOpenRefusesALogThatItCannotRecoverFrom(t *testing.T) {
	w := newWorld(t)
	w.mustStep(moment{inputs: []eventlog.Payload{node("n1", "4"), pod("a", "1", "")}})
	all := w.entries()
	for _, c := range []struct {
		name, want string
		entries    func() []eventlog.Entry
	}{
		{"that begins in the middle", "EpochStarted", func() []eventlog.Entry {
			tick := eventlog.Entry{Seq: 1, Epoch: 1, Time: 1, Payload: &eventlog.Tick{}}
			return []eventlog.Entry{tick}
		}},
		{"whose time goes back", "apply entry 2", func() []eventlog.Entry {
			bad := slices.Clone(all)
			bad[1].Time--
			return bad
		}},
		{"with a decision on a pod that never was", "apply entry 4", func() []eventlog.Entry {
			bad := slices.Clone(all)
			d := *bad[3].Payload.(*eventlog.Decision)
			d.UID = "nobody"
			bad[3].Payload = &d
			return bad
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := eventlog.NewMemory()
			if err := log.Append(context.Background(), 0, c.entries()); err != nil {
				t.Fatal(err)
			}
			_, err := engine.Open(context.Background(), log, start,
				engine.Options{Registry: plugins.NewRegistry(), Config: []byte(`{}`)})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "recover") {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
