package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// heldLog is a log of which each append waits for let.
type heldLog struct {
	*eventlog.Memory
	held    bool
	entered chan int   // how many entries an append has that has come
	goOn    chan error // the outcome: nil, or errKept for keeping the entries and failing
}

// errKept has the entries kept, and an error returned all the same.
var errKept = fmt.Errorf("%w, too late", errDisk)

func newHeldLog() *heldLog {
	return &heldLog{Memory: eventlog.NewMemory(), entered: make(chan int), goOn: make(chan error)}
}

func (l *heldLog) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if !l.held {
		return l.Memory.Append(ctx, expectedLast, entries)
	}
	l.entered <- len(entries)
	err := <-l.goOn
	if err == nil || errors.Is(err, errKept) {
		err = errors.Join(err, l.Memory.Append(ctx, expectedLast, entries))
	}
	return err
}

// let ends the wait of the append under way, or of the next one, and returns how many entries it had.
func (l *heldLog) let(err error) int {
	n := <-l.entered
	l.goOn <- err
	return n
}

func openReleasing(t testing.TB, log engine.Log, release engine.Release, store snapshot.Store) *engine.Engine {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(context.Background(), log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: "test", NewID: func() string { return "epoch" },
		Release: release, Snapshots: store, SnapshotEvery: 1,
		Report: func(message string) { t.Log(message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// held returns an engine with room for three small pods, and its log, whose next append will wait.
func held(t testing.TB, release engine.Release) (*engine.Engine, *heldLog) {
	t.Helper()
	log := newHeldLog()
	e := openReleasing(t, log, release, nil)
	if _, err := e.Step(context.Background(), start, []eventlog.Payload{node("n1", "4")}); err != nil {
		t.Fatal(err)
	}
	<-e.Appended() // for the appends so far
	log.held = true
	return e, log
}

func mustAdvance(t testing.TB, e *engine.Engine, inputs ...eventlog.Payload) []scheduler.Effect {
	t.Helper()
	effects, err := effectsOf(e.Advance(context.Background(), start, inputs))
	if err != nil {
		t.Fatal(err)
	}
	return effects
}

// effectsOf returns the effects of a call of the engine.
func effectsOf(r engine.Ready, err error) (effects []scheduler.Effect, _ error) {
	for _, x := range r.Effects {
		effects = append(effects, x.Effect)
	}
	return effects, err
}

func names(effects []scheduler.Effect) (all []string) {
	for _, x := range effects {
		all = append(all, x.Name)
	}
	return all
}

func TestWhileABatchBecomesDurableTheNextIsDecidedAndEachIsReleasedWhenItIs(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	before, _ := log.Last()
	if effects := mustAdvance(t, e, pod("a", "1", "")); len(effects) > 0 {
		t.Fatalf("effects %v of what is not durable", names(effects))
	}
	if n := <-log.entered; n != 2 {
		t.Fatalf("with nothing in flight %d entries are appended, want the pod and its decision", n)
	}
	for _, name := range []string{"b", "c"} {
		if effects := mustAdvance(t, e, pod(name, "1", "")); len(effects) > 0 {
			t.Fatalf("effects %v of what is not durable", names(effects))
		}
		if p := e.Machine().Cluster().Pods().Named("ml", name); p == nil || p.Node != "n1" {
			t.Fatalf("%s is not decided while the append before it is stuck", name)
		}
	}
	if last, _ := log.Last(); last != before || e.Durable() != before {
		t.Fatalf("the log ends with %d, durable is said to be %d, want %d", last, e.Durable(), before)
	}
	log.goOn <- nil
	<-e.Appended()
	if effects := mustAdvance(t, e); !slices.Equal(names(effects), []string{"a"}) {
		t.Errorf("after the first append the effects are %v, want a's", names(effects))
	}
	if n := log.let(nil); n != 4 {
		t.Errorf("the second append has %d entries, want all that came meanwhile, 4", n)
	}
	if effects, err := effectsOf(e.Sync()); err != nil || !slices.Equal(names(effects), []string{"b", "c"}) {
		t.Errorf("after the second append the effects are %v, %v, want b's and c's", names(effects), err)
	}
	if effects := mustAdvance(t, e); len(effects) > 0 {
		t.Errorf("the effects %v are given out twice", names(effects))
	}
	verify(t, log.Memory, false)
}

func TestEffectsReleasedWhenDecidedDoNotWaitForTheDisk(t *testing.T) {
	e, log := held(t, engine.WhenDecided)
	for _, name := range []string{"a", "b"} {
		if effects := mustAdvance(t, e, pod(name, "1", "")); !slices.Equal(names(effects), []string{name}) {
			t.Errorf("the effects are %v, want %s's", names(effects), name)
		}
	}
	go func() {
		log.let(nil)
		log.let(nil)
	}()
	if effects, err := effectsOf(e.Sync()); err != nil || len(effects) > 0 {
		t.Errorf("Sync gives %v, %v", effects, err)
	}
	if last, _ := log.Last(); last != e.Machine().Seq() {
		t.Errorf("after Sync the log ends with %d, the state is that of %d", last, e.Machine().Seq())
	}
}

// TestAnAppendThatFailsBesideOtherWorkStopsTheEngine fails the second of three batches.
func TestAnAppendThatFailsBesideOtherWorkStopsTheEngine(t *testing.T) {
	for _, fault := range []error{errDisk, errKept} {
		e, log := held(t, engine.WhenDurable)
		mustAdvance(t, e, pod("a", "1", "")) // entries 3 and 4
		<-log.entered
		mustAdvance(t, e, pod("b", "1", "")) // 5 and 6
		log.goOn <- nil
		<-e.Appended()
		<-log.entered
		if effects := mustAdvance(t, e, pod("c", "1", "")); !slices.Equal(names(effects), []string{"a"}) { // 7 and 8
			t.Fatalf("the effects are %v, want a's", names(effects))
		}
		log.goOn <- fault
		<-e.Appended()
		effects, err := effectsOf(e.Advance(context.Background(), start, nil))
		var failed *engine.AppendError
		if !errors.As(err, &failed) || failed.First != 5 || failed.Last != 6 || !errors.Is(err, errDisk) ||
			effects != nil {
			t.Fatalf("after the failure there are the effects %v and the error %v, want an *AppendError of entries 5 "+
				"to 6", names(effects), err)
		}
		for what, call := range map[string]func() (engine.Ready, error){
			"Advance": func() (engine.Ready, error) { return e.Advance(context.Background(), start, nil) },
			"Step": func() (engine.Ready, error) {
				return e.Step(context.Background(), start, []eventlog.Payload{pod("d", "1", "")})
			},
			"Sync": e.Sync,
		} {
			if effects, err := effectsOf(call()); effects != nil || !errors.As(err, &failed) {
				t.Errorf("%s of a stopped engine gives %v, %v", what, names(effects), err)
			}
		}
		if err := e.Close(); err != nil {
			t.Errorf("Close returns %v, which was returned before", err)
		}
		want := uint64(4)
		if errors.Is(fault, errKept) {
			want = 6
		}
		if last, _ := log.Last(); last != want {
			t.Errorf("the log ends with %d, want %d: nothing is appended after a failure", last, want)
		}
		log.held = false
		again := openReleasing(t, log, engine.WhenDurable, nil)
		if effects := mustAdvance(t, again); !slices.Contains(names(effects), "a") ||
			slices.Contains(names(effects), "c") {
			t.Errorf("opened again the effects are %v", names(effects))
		}
		verify(t, log.Memory, false)
	}
}

func TestCloseWaitsForWhatIsInFlightAndReturnsItsError(t *testing.T) {
	for _, fault := range []error{nil, errDisk} {
		e, log := held(t, engine.WhenDecided)
		mustAdvance(t, e, pod("a", "1", ""))
		go log.let(fault)
		if err := e.Close(); !errors.Is(err, fault) {
			t.Errorf("Close returns %v, want %v", err, fault)
		}
		if last, _ := log.Last(); (last == 4) != (fault == nil) {
			t.Errorf("closed, the log ends with %d", last)
		}
		if _, err := e.Step(context.Background(), start, nil); err == nil {
			t.Error("a closed engine goes on")
		}
	}
}

// TestCloseReturnsTheErrorOfAnAppendThatFailedAfterTheEngineHadStopped stops an engine by an input that no log can hold
// while an append is under way, which then fails.
func TestCloseReturnsTheErrorOfAnAppendThatFailedAfterTheEngineHadStopped(t *testing.T) {
	for _, fault := range []error{nil, errDisk} {
		e, log := held(t, engine.WhenDecided)
		mustAdvance(t, e, pod("a", "1", ""))
		if _, err := e.Advance(context.Background(), start, []eventlog.Payload{&eventlog.Decision{}}); err == nil ||
			errors.Is(err, errDisk) {
			t.Fatalf("what is no input is taken in, or the disk has failed too early: %v", err)
		}
		go log.let(fault)
		err := e.Close()
		var failed *engine.AppendError
		if !errors.Is(err, fault) || errors.As(err, &failed) != (fault != nil) {
			t.Errorf("Close returns %v, want %v", err, fault)
		}
		if err := e.Close(); err != nil {
			t.Errorf("closed again it returns %v, which was returned before", err)
		}
		if _, err := e.Step(context.Background(), start, nil); err == nil {
			t.Error("a closed engine goes on")
		}
	}
}

// TestAdvanceWaitsWhileTooManyEntriesAreInFlight has the disk stand still.
func TestAdvanceWaitsWhileTooManyEntriesAreInFlight(t *testing.T) {
	e, log := held(t, engine.WhenDecided)
	var inputs []eventlog.Payload
	for i := range engine.MaxAppend {
		inputs = append(inputs, gone(fmt.Sprint("nobody-", i)))
	}
	for range engine.MaxInFlight / engine.MaxAppend {
		mustAdvance(t, e, inputs...)
	}
	back := wantWaiting(t, e, inputs[:1])
	if n, _ := e.InFlight(); n != engine.MaxInFlight {
		t.Errorf("%d entries are in flight, want %d", n, engine.MaxInFlight)
	}
	for range engine.MaxInFlight / engine.MaxAppend {
		if n := log.let(nil); n != engine.MaxAppend {
			t.Errorf("an append of %d entries, want %d", n, engine.MaxAppend)
		}
	}
	log.let(nil)
	if err := <-back; err != nil {
		t.Error(err)
	}
}

// TestAdvanceWaitsWhileTooManyBytesAreInFlight hands over a few large objects, with the disk standing still.
func TestAdvanceWaitsWhileTooManyBytesAreInFlight(t *testing.T) {
	e, log := held(t, engine.WhenDecided)
	const size = engine.MaxInFlightBytes/5 - 100 // with their headers five are just not too much
	message := func(size int) eventlog.Payload {
		return &eventlog.BindResult{UID: "u", Outcome: eventlog.BindFailed, Message: strings.Repeat("x", size)}
	}
	for range 5 {
		mustAdvance(t, e, message(size))
	}
	back := wantWaiting(t, e, []eventlog.Payload{message(1000)})
	if _, n := e.InFlight(); n < 5*size || n > engine.MaxInFlightBytes {
		t.Errorf("%d bytes are in flight, want those of 5 messages of %d", n, size)
	}
	go func() {
		for range log.entered {
			log.goOn <- nil
		}
	}()
	defer close(log.entered)
	if err := <-back; err != nil {
		t.Error(err)
	}
	if _, err := e.Sync(); err != nil {
		t.Error(err)
	}
	if n, bytes := e.InFlight(); n != 0 || bytes != 0 {
		t.Errorf("with everything durable %d entries of %d bytes are in flight", n, bytes)
	}
}

// wantWaiting gives the engine inputs that it cannot hand over, and returns the result of Advance.
func wantWaiting(t *testing.T, e *engine.Engine, inputs []eventlog.Payload) <-chan error {
	t.Helper()
	begun, back := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		_, err := e.Advance(context.Background(), start, inputs)
		back <- err
	}()
	<-begun
	for range 100_000 {
		if runtime.Gosched(); len(back) > 0 {
			t.Fatal("nobody waits")
		}
	}
	return back
}

// TestAStepIsNotPartOfTwoAppends has steps come, while the disk stands still, of which no two fit in one append.
func TestAStepIsNotPartOfTwoAppends(t *testing.T) {
	e, log := held(t, engine.WhenDecided)
	var inputs []eventlog.Payload
	for i := range engine.MaxAppend {
		inputs = append(inputs, gone(fmt.Sprint("nobody-", i)))
	}
	const some = engine.MaxAppend/2 + 1
	mustAdvance(t, e, inputs[:1]...)
	<-log.entered
	for _, n := range []int{some, some, 3, engine.MaxAppend, engine.MaxAppend - 1, 1} {
		mustAdvance(t, e, inputs[:n]...)
	}
	log.goOn <- nil
	for _, want := range []int{some, some + 3, engine.MaxAppend, engine.MaxAppend} {
		if n := log.let(nil); n != want {
			t.Fatalf("an append of %d entries, want %d", n, want)
		}
	}
	if _, err := e.Sync(); err != nil {
		t.Error(err)
	}
}

// TestAwaitBeyondTheLastEntryWaitsForTheLastEntry asks for an entry that was never taken in.
func TestAwaitBeyondTheLastEntryWaitsForTheLastEntry(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	mustAdvance(t, e, pod("a", "1", ""))
	go log.let(nil)
	effects, err := effectsOf(e.Await(e.Machine().Seq() + 1))
	if err != nil || !slices.Equal(names(effects), []string{"a"}) {
		t.Errorf("the effects are %v, %v, want a's", names(effects), err)
	}
}

// TestACancelledStepTellsOfAFailedAppendOnce cancels a step after the append before it has failed.
func TestACancelledStepTellsOfAFailedAppendOnce(t *testing.T) {
	e, log := held(t, engine.WhenDurable)
	mustAdvance(t, e, pod("a", "1", ""))
	log.let(errDisk)
	<-e.Appended()
	_, err := e.Advance(&cancelledAfter{Context: context.Background()}, start, []eventlog.Payload{pod("b", "1", "")})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errDisk) ||
		strings.Count(err.Error(), errDisk.Error()) != 1 {
		t.Errorf("the error is %v, want that it was cancelled, and once that of the append", err)
	}
}

// watchedStore says which snapshots came before their entry was durable.
type watchedStore struct {
	memoryStore
	log   *eventlog.Memory
	early []uint64
}

func (s *watchedStore) Put(seq uint64, data []byte) error {
	if last, err := s.log.Last(); err != nil || last < seq {
		s.early = append(s.early, seq)
	}
	return s.memoryStore.Put(seq, data)
}

// TestASnapshotWaitsUntilItsEntryIsDurable has a snapshot due behind each batch, and a disk that is always behind.
func TestASnapshotWaitsUntilItsEntryIsDurable(t *testing.T) {
	log := newHeldLog()
	store := &watchedStore{memoryStore: memoryStore{kept: map[uint64][]byte{}}, log: log.Memory}
	e := openReleasing(t, log, engine.WhenDecided, store)
	e.AwaitSnapshot()
	log.held = true
	go func() {
		for range log.entered {
			log.goOn <- nil
		}
	}()
	story := gangStory()
	for i, m := range story {
		before := e.Machine().Seq()
		if _, err := e.Advance(context.Background(), start.Add(time.Duration(i)*time.Minute), m.inputs); err != nil {
			t.Fatal(err)
		}
		e.AwaitSnapshot()
		if seq := e.Machine().Seq(); seq > before && store.kept[seq] == nil {
			t.Errorf("there is no snapshot of entry %d", seq)
		}
	}
	if len(store.early) > 0 {
		t.Errorf("snapshots of entries %d were stored before these were durable", store.early)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	close(log.entered)
}

// TestAdvanceAheadOfTheDiskLogsWhatStepLogs tells the story step by step, and ahead of a disk that is behind by as much
// as chance will have it: the logs are the same.
func TestAdvanceAheadOfTheDiskLogsWhatStepLogs(t *testing.T) {
	w := newWorld(t)
	for _, m := range gangStory() {
		w.mustStep(m)
	}
	want := recordsOf(t, w.entries())
	rapid.Check(t, func(r *rapid.T) {
		log := newHeldLog()
		e := openReleasing(t, log, engine.WhenDecided, nil)
		<-e.Appended()
		log.held = true
		now := start
		var answers []eventlog.Payload
		for _, m := range gangStory() {
			now = now.Add(m.after)
			effects, err := effectsOf(e.Advance(context.Background(), now, append(answers, m.inputs...)))
			if err != nil {
				r.Fatal(err)
			}
			answers = answersTo(effects)
			finishSomeAppends(r, e, log)
		}
		finishAllAppends(e, log)
		if got := recordsOf(t, entries(t, log.Memory)); !slices.Equal(got, want) {
			r.Fatalf("%d entries ahead of the disk, %d step by step, or other ones", len(got), len(want))
		}
	})
}

// TestHoweverLateEffectsAreReleasedTheLogReplaysAndNoneIsEarly lets the disk be behind as above, and effects wait for
// it.
func TestHoweverLateEffectsAreReleasedTheLogReplaysAndNoneIsEarly(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		log := newHeldLog()
		e := openReleasing(t, log, engine.WhenDurable, nil)
		<-e.Appended()
		log.held = true
		now := start
		var answers []eventlog.Payload
		once := map[uint64][]string{}
		advance := func(after time.Duration, inputs []eventlog.Payload) {
			now = now.Add(after)
			effects, err := effectsOf(e.Advance(context.Background(), now, append(answers, inputs...)))
			if err != nil {
				r.Fatal(err)
			}
			durable, _ := log.Last()
			for _, x := range effects {
				if x.Seq > durable || slices.Contains(once[x.Seq], x.Name) {
					r.Fatalf("the effect %+v is released early or twice: the last durable entry is %d", x, durable)
				}
				once[x.Seq] = append(once[x.Seq], x.Name)
			}
			answers = answersTo(effects)
		}
		for _, m := range gangStory() {
			advance(m.after, m.inputs)
			finishSomeAppends(r, e, log)
		}
		finishAllAppends(e, log)
		advance(0, nil)
		advance(0, nil)
		finishAllAppends(e, log)
		advance(0, nil)
		if left := e.Machine().Effects(); len(left) != len(answers) {
			r.Fatalf("the effects %v are outstanding, and %d were just released", names(left), len(answers))
		}
		verify(t, log.Memory, false)
	})
}

// finishSomeAppends lets a few of the appends in flight end.
func finishSomeAppends(r *rapid.T, e *engine.Engine, log *heldLog) {
	for range rapid.IntRange(0, 2).Draw(r, "appends") {
		if e.Durable() < e.Machine().Seq() {
			log.let(nil)
			<-e.Appended()
		}
	}
}

func finishAllAppends(e *engine.Engine, log *heldLog) {
	for e.Durable() < e.Machine().Seq() {
		log.let(nil)
		<-e.Appended()
	}
}

// recordsOf encodes entries, without the chain.
func recordsOf(t testing.TB, entries []eventlog.Entry) []string {
	t.Helper()
	var all []string
	for _, e := range entries {
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(rec))
	}
	return all
}
