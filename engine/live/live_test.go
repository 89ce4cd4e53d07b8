package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// mailbox returns its contents, with a message for any number of puts.
type mailbox struct {
	mu     sync.Mutex
	inputs []eventlog.Payload
	wake   chan struct{}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (b *mailbox) put(inputs ...eventlog.Payload) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inputs = append(b.inputs, inputs...)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *mailbox) Take() []eventlog.Payload {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.inputs
	b.inputs = nil
	return taken
}

// fakeWorld is a world whose inputs a test gives.
type fakeWorld struct {
	*mailbox
	synced chan struct{}
}

func (w *fakeWorld) Synced() <-chan struct{}  { return w.synced }
func (w *fakeWorld) Changed() <-chan struct{} { return w.wake }

// fakeEffects binds each pod after a while, and notes what was durable when it was asked to.
type fakeEffects struct {
	*mailbox
	t       *testing.T
	log     *eventlog.Memory
	latency time.Duration // how long a bind takes
	stuck   bool          // binds never come back

	under     sync.WaitGroup
	carried   []string
	earlier   []string // the effects that an earlier epoch has decided
	withdrawn []string
	first     uint64 // the log's last entry when the first effects came
}

func (f *fakeEffects) Finished() <-chan struct{} { return f.wake }

func (f *fakeEffects) Carry(ready engine.Ready) {
	last, err := f.log.Last()
	if f.first == 0 {
		f.first = last
	}
	for _, r := range ready.Effects {
		if err != nil || r.Seq > last {
			f.t.Errorf("%s is bound by the decision at entry %d, but the durable log ends with %d", r.Name, r.Seq, last)
		}
		f.carried = append(f.carried, r.Name)
		if r.Earlier {
			f.earlier = append(f.earlier, r.Name)
		}
		if r.Kind == scheduler.Evict {
			continue // the API server never answers
		}
		f.under.Go(func() {
			time.Sleep(f.latency)
			if !f.stuck {
				f.put(&eventlog.BindResult{UID: r.UID, Node: r.Node, Outcome: eventlog.BindBound})
			}
		})
	}
	for _, w := range ready.Withdrawals {
		if name := strings.TrimPrefix(string(w.UID), "uid-"); !slices.Contains(f.withdrawn, name) {
			f.withdrawn = append(f.withdrawn, name)
			f.put(&eventlog.EvictResult{UID: w.UID, Outcome: eventlog.EvictWithdrawn, Decision: w.Seq})
		}
	}
}

func (f *fakeEffects) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		f.under.Wait()
		close(done)
	}()
	if f.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scene is a run over a world and effects that tests play.
type scene struct {
	log     *eventlog.Memory
	world   *fakeWorld
	effects *fakeEffects
	stages  []Stage
	end     context.CancelFunc
	ended   chan error
}

// begin starts a run, in a bubble of synctest.
func begin(t *testing.T, log *eventlog.Memory, opts Options) *scene {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{
		log: log, world: &fakeWorld{newMailbox(), make(chan struct{})}, ended: make(chan error, 1),
		effects: &fakeEffects{mailbox: newMailbox(), t: t, log: log, latency: time.Second},
	}
	if opts.Log == nil {
		opts.Log = log
	}
	opts.Engine = engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"}
	opts.World = func(engine.Recovery) (World, error) { return s.world, nil }
	opts.Effects, opts.Grace = s.effects, time.Minute
	opts.Stage = func(stage Stage) { s.stages = append(s.stages, stage) }
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go func() { s.ended <- Run(ctx, opts) }()
	synctest.Wait()
	return s
}

func node(name, cpu string) eventlog.Payload {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourcePods: resource.MustParse("10000")}
	return &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}
}

func pod(name, cpu string) eventlog.Payload {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return &eventlog.Upserted{Resource: eventlog.Pods, Object: p}
}

// kinds are the kinds of the log's entries.
func kinds(t *testing.T, log *eventlog.Memory) (all []eventlog.Kind) {
	t.Helper()
	for e, err := range log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Kind())
	}
	return all
}

// identical fails unless the log's decisions are made again.
func identical(t *testing.T, log *eventlog.Memory) {
	t.Helper()
	report, err := replay.Verify(t.Context(), log.Read(t.Context(), 1), replay.Options{Registry: plugins.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if !report.Identical() {
		t.Errorf("the log diverges: %+v", report)
	}
}

func TestNothingIsDecidedBeforeTheWorldIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		s.world.put(node("n1", "4"), pod("a", "1"))
		synctest.Wait()
		if got := kinds(t, s.log); len(got) != 1 {
			t.Errorf("the log has %v before the world is known", got)
		}
		close(s.world.synced)
		time.Sleep(time.Minute)
		s.end()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		want := []eventlog.Kind{eventlog.KindEpochStarted, eventlog.KindUpserted, eventlog.KindUpserted,
			eventlog.KindDecision, eventlog.KindBindResult}
		if got := kinds(t, s.log); !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
		if want := []Stage{Recovering, Syncing, Scheduling, Draining, Ended}; !slices.Equal(s.stages, want) {
			t.Errorf("the stages are %v, want %v", s.stages, want)
		}
		identical(t, s.log)
	})
}

// TestTheEndWaitsForWhatIsUnderWayAndDecidesNothing ends a run while two binds are under way and a third pod comes: the
// binds' results are in the log, and the pod is left to the next epoch.
func TestTheEndWaitsForWhatIsUnderWayAndDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		close(s.world.synced)
		s.world.put(node("n1", "4"), pod("a", "1"), pod("b", "1"))
		synctest.Wait()
		s.end()
		s.world.put(pod("c", "1"))
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		results, decisions := 0, 0
		for _, kind := range kinds(t, s.log) {
			switch kind {
			case eventlog.KindBindResult:
				results++
			case eventlog.KindDecision:
				decisions++
			}
		}
		if results != 2 || decisions != 2 {
			t.Errorf("the log has %d results and %d decisions, want 2 and 2", results, decisions)
		}
		identical(t, s.log)
	})
}

func TestAnEndThatWaitsTooLongSaysSoAndTheNextEpochAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		s.effects.stuck = true
		close(s.world.synced)
		s.world.put(node("n1", "4"), pod("a", "1"))
		synctest.Wait()
		s.end()
		if err := <-s.ended; err == nil {
			t.Error("a run ended without a word while a bind was under way")
		}
		next := begin(t, s.log.TakeOver(), Options{})
		next.world.put(pod("later", "1"))
		close(next.world.synced)
		time.Sleep(time.Minute)
		next.end()
		if err := <-next.ended; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(next.effects.carried, []string{"a", "later"}) {
			t.Errorf("the next epoch carries out %v, want the binds of a and later", next.effects.carried)
		}
		if !slices.Equal(next.effects.earlier, []string{"a"}) {
			t.Errorf("of an earlier epoch are %v, want a", next.effects.earlier)
		}
		identical(t, next.log)
	})
}

// TestAnEvictionThatNobodyWaitsForIsWithdrawn deletes a preemptor while its victim is being evicted, and while no
// scheduler runs: the eviction is not sent any more, and the victim stays.
func TestAnEvictionThatNobodyWaitsForIsWithdrawn(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			low, high := pod("low", "4").(*eventlog.Upserted), pod("high", "4").(*eventlog.Upserted)
			low.Object.(*corev1.Pod).Spec.NodeName = "n1"
			high.Object.(*corev1.Pod).Spec.Priority = new(int32(9))
			gone := &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "high", UID: "uid-high"}
			s := begin(t, eventlog.NewMemory(), Options{})
			close(s.world.synced)
			s.world.put(node("n1", "4"), low, high)
			synctest.Wait()
			if !slices.Equal(s.effects.carried, []string{"low"}) || len(s.effects.withdrawn) > 0 {
				t.Errorf("carried out %v, withdrawn %v", s.effects.carried, s.effects.withdrawn)
			}
			if restarted {
				s.end()
				if err := <-s.ended; err != nil {
					t.Fatal(err)
				}
				s = begin(t, s.log.TakeOver(), Options{})
				s.world.put(gone)
				close(s.world.synced)
			} else {
				s.world.put(gone)
			}
			synctest.Wait()
			s.end()
			if err := <-s.ended; err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.effects.withdrawn, []string{"low"}) {
				t.Errorf("restarted: %t: withdrawn %v", restarted, s.effects.withdrawn)
			}
			if all := kinds(t, s.log); all[len(all)-1] != eventlog.KindEvictResult {
				t.Errorf("restarted: %t: the log has %v", restarted, all)
			}
			identical(t, s.log)
		})
	}
}

// TestAnEvictionThatAnotherPodCountsOnIsNotWithdrawn deletes a preemptor after a more important pod has taken its
// nomination over, or one as important has come to count on the same victim. Neither has a victim of its own.
func TestAnEvictionThatAnotherPodCountsOnIsNotWithdrawn(t *testing.T) {
	for _, priority := range []int32{9, 20} {
		synctest.Test(t, func(t *testing.T) {
			low, high, other := pod("low", "4").(*eventlog.Upserted), pod("high", "2").(*eventlog.Upserted),
				pod("other", "2").(*eventlog.Upserted)
			low.Object.(*corev1.Pod).Spec.NodeName = "n1"
			high.Object.(*corev1.Pod).Spec.Priority = new(int32(9))
			other.Object.(*corev1.Pod).Spec.Priority = &priority
			s := begin(t, eventlog.NewMemory(), Options{})
			close(s.world.synced)
			s.world.put(node("n1", "4"), low, high)
			synctest.Wait()
			s.world.put(other)
			synctest.Wait()
			for _, name := range []string{"high", "other"} {
				if len(s.effects.withdrawn) > 0 {
					t.Errorf("priority %d: withdrawn %v before pod %s is deleted", priority, s.effects.withdrawn, name)
				}
				s.world.put(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: name,
					UID: types.UID("uid-" + name)})
				synctest.Wait()
			}
			s.end()
			if err := <-s.ended; err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.effects.withdrawn, []string{"low"}) {
				t.Errorf("priority %d: withdrawn %v once nobody waits", priority, s.effects.withdrawn)
			}
			identical(t, s.log)
		})
	}
}

// TestNothingIsCarriedOutOnceTheLeaseIsLost loses the lease while a bind is under way and another pod comes, in a run
// that schedules and in one that is ending. The run ends at once, and the next one asks for the bind again.
func TestNothingIsCarriedOutOnceTheLeaseIsLost(t *testing.T) {
	for _, ending := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lost := make(chan struct{})
			s := begin(t, eventlog.NewMemory(), Options{Lost: lost})
			s.effects.stuck = true
			close(s.world.synced)
			s.world.put(node("n1", "4"), pod("a", "1"))
			synctest.Wait()
			if ending {
				s.end()
				synctest.Wait()
			}
			began := time.Now()
			close(lost)
			s.world.put(pod("b", "1"))
			if err := <-s.ended; err == nil {
				t.Error("a run ended without a word while a bind was under way")
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("ending: %t: the run went on for %s without the lease", ending, took)
			}
			if want := []string{"a"}; !slices.Equal(s.effects.carried, want) {
				t.Errorf("ending: %t: carried out: %v, want %v", ending, s.effects.carried, want)
			}
			time.Sleep(time.Minute) // the fake's own goroutines end
			identical(t, s.log)
		})
	}
}

// failingLog fails every append after the first one.
type failingLog struct {
	*eventlog.Memory
	appends int
}

var errDisk = errors.New("no space left on device")

func (l *failingLog) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if l.appends++; l.appends > 1 {
		return errDisk
	}
	return l.Memory.Append(ctx, expectedLast, entries)
}

func TestALogThatCannotBeWrittenEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := eventlog.NewMemory()
		s := begin(t, log, Options{Log: &failingLog{Memory: log}})
		close(s.world.synced)
		s.world.put(node("n1", "4"), pod("a", "1"))
		err := <-s.ended
		var appending *engine.AppendError
		if !errors.As(err, &appending) || !errors.Is(err, errDisk) {
			t.Errorf("the run ended with %v, want an append that failed", err)
		}
		if len(s.effects.carried) > 0 {
			t.Errorf("%v was bound by decisions that are not in the log", s.effects.carried)
		}
		if last := s.stages[len(s.stages)-1]; last != Ended {
			t.Errorf("the last stage is %s", last)
		}
	})
}

// TestTimeAloneWakesTheRun has a pod that does not fit, and room that comes while the pod is in backoff: it is placed
// when the backoff is over, though nothing happens then.
func TestTimeAloneWakesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		close(s.world.synced)
		s.world.put(node("n1", "4"), pod("wide", "16"))
		synctest.Wait()
		s.world.put(node("n2", "32"))
		synctest.Wait()
		if len(s.effects.carried) > 0 {
			t.Fatalf("%v was bound within its backoff", s.effects.carried)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(s.effects.carried, []string{"wide"}) {
			t.Errorf("carried out: %v, want the bind of wide", s.effects.carried)
		}
		s.end()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		identical(t, s.log)
	})
}

// shifted is a clock that is ahead of the machine's, or behind it. That it is set changes no duration that it measures.
type shifted struct {
	clock.Clock
	by   time.Duration
	real map[time.Time]time.Time // the times of the machine's clock, by those of this one
}

func newShifted(by time.Duration) *shifted {
	return &shifted{clock.RealClock{}, by, map[time.Time]time.Time{}}
}

func (c *shifted) Now() time.Time {
	now := c.Clock.Now()
	said := now.Add(c.by).Round(0)
	c.real[said] = now
	return said
}

func (c *shifted) Since(t time.Time) time.Duration { return c.Clock.Since(c.real[t]) }

// TestTimeGoesOnThoughTheClockIsBehindTheLog continues a log on a machine whose clock is an hour behind, and sets the
// clock back by another hour: a pod's backoff takes as long as on any other machine.
func TestTimeGoesOnThoughTheClockIsBehindTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		close(s.world.synced)
		s.world.put(node("n1", "4"))
		synctest.Wait()
		s.end()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		behind, began := newShifted(-time.Hour), time.Now()
		var notes []string
		next := begin(t, s.log.TakeOver(), Options{
			Clock: behind, Report: func(message string) { notes = append(notes, message) },
		})
		close(next.world.synced)
		next.world.put(pod("wide", "16"))
		synctest.Wait()
		next.world.put(node("n2", "32"))
		synctest.Wait()
		if len(next.effects.carried) > 0 {
			t.Fatalf("%v was bound within its backoff", next.effects.carried)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(next.effects.carried, []string{"wide"}) {
			t.Errorf("a minute later these are bound: %v, want wide", next.effects.carried)
		}
		behind.by -= time.Hour
		next.world.put(pod("wider", "64"))
		synctest.Wait()
		next.world.put(node("n3", "128"))
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(next.effects.carried, []string{"wide", "wider"}) {
			t.Errorf("a minute after the clock was set these are bound: %v, want wide and wider", next.effects.carried)
		}
		if len(notes) != 1 || !strings.Contains(notes[0], "1h0m0s ahead of this machine's clock") {
			t.Errorf("the notes are %q", notes)
		}
		next.end()
		if err := <-next.ended; err != nil {
			t.Fatal(err)
		}
		for e, err := range next.log.Read(t.Context(), 1) {
			if at := e.Time.Std(); err != nil || at.Before(began.Add(-time.Hour)) || at.After(time.Now()) {
				t.Errorf("entry %d has time %s (%v), want one between %s and %s", e.Seq, at, err, began, time.Now())
			}
		}
		identical(t, next.log)
	})
}

// TestAClockThatWasWrongForAWhileStopsNoTimer sets the clock ahead by an hour for a minute.
func TestAClockThatWasWrongForAWhileStopsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := newShifted(0)
		s := begin(t, eventlog.NewMemory(), Options{Clock: wrong})
		close(s.world.synced)
		s.world.put(node("n1", "4"))
		synctest.Wait()
		wrong.by = time.Hour
		s.world.put(pod("wide", "16"))
		time.Sleep(time.Minute)
		synctest.Wait()
		wrong.by = 0
		s.world.put(pod("wider", "64"))
		synctest.Wait()
		s.world.put(node("n2", "128"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(s.effects.carried); got != 2 {
			t.Errorf("a minute after the clock was right again %v is bound, want wide and wider", s.effects.carried)
		}
		s.end()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		identical(t, s.log)
	})
}

// TestTheFirstBindsOfABacklogDoNotWaitForItsEnd gives more pods than one call decides.
func TestTheFirstBindsOfABacklogDoNotWaitForItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, eventlog.NewMemory(), Options{})
		inputs := []eventlog.Payload{node("n1", "1000")}
		for i := range 2*maxDecisions + 1 {
			inputs = append(inputs, pod(fmt.Sprintf("p%04d", i), "100m"))
		}
		s.world.put(inputs...)
		close(s.world.synced)
		time.Sleep(time.Minute)
		s.end()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		if got := len(s.effects.carried); got != 2*maxDecisions+1 {
			t.Errorf("%d pods were bound, want %d", got, 2*maxDecisions+1)
		}
		if all := 1 + uint64(len(inputs)) + 2*maxDecisions + 1; s.effects.first >= all {
			t.Errorf("the first binds came when all %d entries were there", all)
		}
		identical(t, s.log)
	})
}
