package effect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Extenders are the HTTP extenders of a configuration.
type Extenders interface {
	// Ask asks the extenders that are interested in a pod about nodes, sorted, and returns their answers.
	Ask(ctx context.Context, pod *v1.Pod, nodes []string) []eventlog.ExtenderAnswer
	// Preempt asks the extenders that are interested in a pod and support preemption about candidates, sorted by node.
	// It returns their answers. pods are, by node, the pods that may be named as victims.
	Preempt(ctx context.Context, pod *v1.Pod, candidates []eventlog.Candidate, pods map[string][]*v1.Pod,
	) []eventlog.ExtenderAnswer
	// Binds reports whether one of them is to bind the pod.
	Binds(pod *v1.Pod) bool
	// Bind has it do so, and names it. "" says that none has.
	Bind(ctx context.Context, pod *v1.Pod, node string) (by string, err error)
}

// Options configure Effects. The zero value of every field except Client means its default.
type Options struct {
	// Client makes the calls. How many a second it makes is its own affair.
	Client kubernetes.Interface
	// Workers is the number of effects that are carried out at the same time; 32 by default.
	Workers int
	// Whole returns a PersistentVolume, a claim or a ResourceClaim as the process knows it, with everything but its
	// managed fields; nil if it does not know it. An unknown object is then read from the API server, as everything is
	// with a nil Whole. The caller does not change the returned object.
	Whole func(res eventlog.Resource, namespace, name string) eventlog.Object
	// BindTimeout limits the time that a pod waits for its claims to be bound (VolumeBindingArgs.bindTimeoutSeconds);
	// 600 s by default.
	BindTimeout time.Duration
	// DeviceTimeout limits the time after their allocation that a pod waits for the binding conditions of its devices
	// (DynamicResourcesArgs.bindingTimeout); 600 s by default.
	DeviceTimeout time.Duration
	// CallTimeout limits the time of one call; 30 s by default.
	CallTimeout time.Duration
	// Still is asked just before an effect is sent, and says why it no longer needs to be sent: its pod is gone, or the
	// node of a bind. A bind to a node that does not exist is answered 201. It is called from several goroutines.
	Still func(engine.Effect) error
	// Extenders are the HTTP extenders of the configuration; nil for none.
	Extenders Extenders
	// Report receives, in a line each, the facts that a person should know: outcomes that cannot be read, evictions
	// that are refused. It is called from several goroutines.
	Report func(string)
	// Clock is the wall clock by default.
	Clock Clock
}

// Effects carries out effects. All methods may be called from any goroutine.
type Effects struct {
	opts     Options
	finished chan struct{}

	mu       sync.Mutex
	changed  *sync.Cond // ready has grown, or stopped was set
	stopped  bool
	draining bool
	lanes    map[types.UID]*lane
	ready    []*lane // lanes whose next task may start, in order
	drains   []chan struct{}
	results  []eventlog.Payload
	plugins  sync.WaitGroup // those at work
	// givesBack are the PodGroups of whose claims some may just be being given back.
	givesBack   groupSet
	outstanding int // how many effects have not ended
	caller
}

// groupSet are PodGroups by their UIDs.
type groupSet map[types.UID]struct{}

// lane holds the tasks for one pod, or for the claims of a PodGroup. At most one of its tasks is being carried out.
type lane struct {
	tasks []*task
	// queued says that the lane is in ready, running that a worker carries out one of its tasks.
	queued, running bool
}

// task is an effect on its way.
type task struct {
	engine.Effect
	step step
	// due says that the step may be made: it waits for no time.
	due bool
	// idle says that the task waits for others.
	idle bool
	// withdrawn says that an eviction is no longer to be sent.
	withdrawn *atomic.Bool
}

// A step makes the calls of one stage and says how the task continues.
type step func(ctx context.Context) turn

// turn says how a task continues.
type turn struct {
	// next is the next step; nil if the effect has ended.
	next step
	// after is the time to wait before the next step.
	after time.Duration
	// until, if it is not nil, says by its end when: a plugin is at work.
	until <-chan struct{}
	// idle says that until then the task waits for others: a drain does not wait for it.
	idle bool
	// result is the result of the effect, which has ended or waits; nil if there is nothing to report.
	result eventlog.Payload
}

// maxMessage is the largest length of the message of a result, in bytes: a webhook may send any number.
const maxMessage = 4 << 10

// cut shortens a message that is too long for a result.
func cut(message string) string {
	const more = " ..."
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}

// ended is the end of an effect.
func ended(result eventlog.Payload) turn { return turn{result: result} }

// New returns Effects that carry nothing out until Run is called.
func New(opts Options) *Effects {
	if opts.Workers <= 0 {
		opts.Workers = 32
	}
	if opts.BindTimeout <= 0 {
		opts.BindTimeout = 600 * time.Second
	}
	if opts.DeviceTimeout <= 0 {
		opts.DeviceTimeout = 600 * time.Second
	}
	if opts.CallTimeout <= 0 {
		opts.CallTimeout = 30 * time.Second
	}
	if opts.Still == nil {
		opts.Still = func(engine.Effect) error { return nil }
	}
	if opts.Whole == nil {
		opts.Whole = func(eventlog.Resource, string, string) eventlog.Object { return nil }
	}
	if opts.Report == nil {
		opts.Report = func(string) {}
	}
	if opts.Clock == nil {
		opts.Clock = wallClock{}
	}
	e := &Effects{
		opts:      opts,
		finished:  make(chan struct{}, 1),
		lanes:     map[types.UID]*lane{},
		givesBack: groupSet{},
		caller: caller{client: opts.Client, timeout: opts.CallTimeout, clock: opts.Clock, report: opts.Report,
			done: Counts{Calls: map[Call]uint64{}}},
	}
	e.changed = sync.NewCond(&e.mu)
	return e
}

// Run carries out effects until ctx ends, and returns when no call is under way any longer. The next process must ask
// again for the effects that have no result by then: they are outstanding in the log.
func (e *Effects) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.stopped = true
		e.changed.Broadcast()
	})()
	var workers sync.WaitGroup
	for range e.opts.Workers {
		workers.Go(func() { e.work(ctx) })
	}
	workers.Wait()
	e.awaitPlugins()
}

// Finished returns a channel from which one receives after results have come: one message for any number of them. It is
// for one receiver.
func (e *Effects) Finished() <-chan struct{} { return e.finished }

// Take returns the results that have come since the last call, in the order in which they came.
func (e *Effects) Take() []eventlog.Payload {
	e.mu.Lock()
	defer e.mu.Unlock()
	results := e.results
	e.results = nil
	return results
}

// Counts returns the counts so far.
func (e *Effects) Counts() Counts {
	counts := e.counts()
	e.mu.Lock()
	defer e.mu.Unlock()
	counts.Outstanding = e.outstanding
	return counts
}

// Drain waits until every effect that was taken on has its result, while Run runs. It gives up effects that wait for
// others (the binding of a volume) without a result. No call of theirs has an unknown outcome, and the next process
// carries them out. If ctx ends before, Drain returns the context's error, and the number of outstanding effects.
func (e *Effects) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	for uid, l := range e.lanes { // any order: each is handled by itself
		for _, t := range append([]*task(nil), l.tasks...) {
			if t.idle && !t.due {
				e.remove(uid, l, t)
			}
		}
	}
	idle := make(chan struct{})
	e.drains = append(e.drains, idle)
	e.tellIdle()
	e.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		if n := e.Counts().Outstanding; n > 0 {
			return fmt.Errorf("%d effects have no result yet: %w", n, ctx.Err())
		}
		return nil
	}
}

// tellIdle ends the wait of Drain when nothing is outstanding.
func (e *Effects) tellIdle() {
	if e.outstanding > 0 {
		return
	}
	for _, idle := range e.drains {
		close(idle)
	}
	e.drains = nil
}

// work carries out effects until ctx ends.
func (e *Effects) work(ctx context.Context) {
	for {
		uid, l, t := e.pick()
		if t == nil {
			return
		}
		turn := t.step(ctx)
		for ctx.Err() == nil && turn.next != nil && turn.after == 0 && turn.until == nil {
			turn = turn.next(ctx)
		}
		if ctx.Err() != nil {
			return // a call may have been broken off: the next process reads its outcome
		}
		e.conclude(uid, l, t, turn)
	}
}

// pick waits for a task that may start; nil after the end of Run's context.
func (e *Effects) pick() (types.UID, *lane, *task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.stopped {
		if len(e.ready) == 0 {
			e.changed.Wait()
			continue
		}
		l := e.ready[0]
		e.ready[0] = nil
		e.ready = e.ready[1:]
		l.queued = false
		if t := l.next(); t != nil {
			l.running, t.due = true, false
			return t.UID, l, t
		}
	}
	return "", nil, nil
}

// Crowded reports whether effects wait for a worker: more are there to be sent than are under way at once.
func (e *Effects) Crowded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.ready) > 0
}

// next returns the task that may start: an eviction first, because it makes the bind of its pod needless, otherwise the
// one that was asked for first.
func (l *lane) next() *task {
	if l.running {
		return nil
	}
	for _, t := range l.tasks {
		if t.Kind == scheduler.Evict && t.due {
			return t
		}
	}
	if len(l.tasks) > 0 && l.tasks[0].due {
		return l.tasks[0]
	}
	return nil
}

// offer makes the lane ready, if it has a task that may start.
func (e *Effects) offer(l *lane) {
	if l.queued || l.next() == nil {
		return
	}
	l.queued = true
	e.ready = append(e.ready, l)
	e.changed.Signal()
}

// conclude notes how a task continues.
func (e *Effects) conclude(uid types.UID, l *lane, t *task, turn turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.running = false
	if turn.result != nil {
		e.results = append(e.results, turn.result)
		select {
		case e.finished <- struct{}{}:
		default:
		}
	}
	switch {
	case turn.next == nil:
		e.remove(uid, l, t)
	case turn.idle && e.draining:
		e.remove(uid, l, t)
	default:
		t.step, t.idle = turn.next, turn.idle
		if turn.idle && t.withdrawn.Load() { // meanwhile
			t.due = true
			break
		}
		goOn := func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			t.due = true
			e.offer(l)
		}
		if turn.until == nil {
			e.opts.Clock.AfterFunc(turn.after, goOn)
			break
		}
		go func() {
			<-turn.until
			goOn()
		}()
	}
	e.offer(l)
}

// remove takes a task out.
func (e *Effects) remove(uid types.UID, l *lane, t *task) {
	for i := range l.tasks {
		if l.tasks[i] == t {
			l.tasks = append(l.tasks[:i:i], l.tasks[i+1:]...)
			e.outstanding--
			break
		}
	}
	if len(l.tasks) == 0 && e.lanes[uid] == l {
		delete(e.lanes, uid)
	}
	e.tellIdle()
}
