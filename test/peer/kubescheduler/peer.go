// Package kubescheduler measures kube-scheduler as package throughput measures Rollcall: with the same workload, no
// API server, and a bind that does nothing. The version is the one in this module's go.mod.
//
// It owns the harness and no part of the scheduler, which scheduler.New makes from the default configuration. Pods
// come through the informer's own watch, not through the fake client's object tracker, which would take longer than
// some cycles do.
//
// Start reading at Run.
package kubescheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/bench/yardstick"
)

// Options say what is measured.
type Options struct {
	workload.Spec
	// Percentage is percentageOfNodesToScore, 1 to 100; 0 is kube-scheduler's default, which goes by the number of
	// nodes.
	Percentage int32
	// Stay and Batch say how pods with devices come and go, see workload.Turns; a Batch of 0 means 1000. Other pods
	// come at once, and stay.
	Stay, Batch int
	// Limit ends the measuring after that much time, with the pods that are bound by then; 0 for no limit.
	Limit time.Duration
	// Started is called when the measured time begins, Stopped when it is over; nil is not called.
	Started, Stopped func() error
}

// Run measures. For a workload with gangs it opens the feature gate GenericWorkload, for the rest of the process. With
// that gate kube-scheduler 1.37 also preempts for PodGroups, and respects the disruptionMode of running ones. The
// PodGroups exist before the measured time, and so do the pods that run from the beginning. The logs of Kubernetes'
// packages are dropped, for the rest of the process too. The result leaves out the figures that only Rollcall has.
func Run(ctx context.Context, o Options) (*throughput.Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Pods > o.Room() && !o.DRA {
		return nil, fmt.Errorf("%d pods: all %d nodes together take %d, and no pod ends here", o.Pods, o.Nodes,
			o.Room())
	}
	turns, err := o.Turns(o.Stay, cmp.Or(o.Batch, 1000), 0)
	if err != nil {
		return nil, err
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	klog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer cancel()
	if o.Gang > 0 {
		if err := utilfeature.DefaultMutableFeatureGate.Set(string(features.GenericWorkload) + "=true"); err != nil {
			return nil, err
		}
	}
	r := &throughput.Result{Nodes: o.Nodes, Pods: o.Pods, Gang: o.Gang, GangMost: o.GangMost, Shapes: o.Shapes,
		Spread: o.Spread, Preempt: o.Preempt,
		DRA: o.DRA, Text: o.Spec.String()}
	h := newHarness(o, turns)
	began := time.Now()
	stop, err := h.start(ctx)
	if err != nil {
		return nil, err
	}
	r.LoadSeconds = time.Since(began).Seconds()
	err = h.measure(ctx, r)
	h.end()
	cancel()
	stop()
	if err != nil {
		return nil, err
	}
	r.MaxScore = yardstick.Best
	score, err := yardstick.Rate(context.WithoutCancel(ctx), o.Spec, h.events())
	r.MeanScore, r.RunningScores = score.Mean, score.Running
	return r, err
}

// harness is a kube-scheduler and what it is fed from.
type harness struct {
	Options
	turns  workload.Turns
	client *fake.Clientset
	pods   *watch.FakeWatcher
	claims *claims
	store  *podStore // with Preempt
	binder *binder
	// touches is the number of times that a ResourceSlice was touched, because no pod was bound.
	touches atomic.Int64
	manager fwk.SharedDRAManager // what the scheduler knows about claims

	telling sync.RWMutex // held while the watch of pods gets an event
	over    bool         // the watch gets no more events
}

func newHarness(o Options, turns workload.Turns) *harness {
	var objects []runtime.Object
	for i := range o.Nodes {
		objects = append(objects, o.Node(i))
		if o.DRA {
			objects = append(objects, o.Slice(i))
		}
	}
	if o.DRA {
		objects = append(objects, o.Class())
	}
	for _, n := range o.Namespaces() {
		objects = append(objects, n)
	}
	for g := range o.Groups() {
		objects = append(objects, o.Group(g))
	}
	for g := range o.RunnerGroups() {
		objects = append(objects, o.RunnerGroup(g))
	}
	h := &harness{Options: o, turns: turns, client: fake.NewClientset(objects...), binder: newBinder(o.Pods)}
	h.binder.evicted = make([]atomic.Int64, o.Runners())
	h.pods = watch.NewFakeWithChanSize(1024, true)
	h.client.PrependWatchReactor("pods",
		func(clienttesting.Action) (bool, watch.Interface, error) { return true, h.pods, nil })
	if o.DRA {
		h.claims = newClaims(o.Spec)
		h.client.PrependWatchReactor("resourceclaims",
			func(clienttesting.Action) (bool, watch.Interface, error) { return true, h.claims.watch, nil })
		h.client.PrependReactor("update", "resourceclaims", h.claims.update)
		h.client.PrependReactor("get", "resourceclaims", h.claims.get)
		h.binder.onBound = h.tellBound
	}
	if o.Preempt {
		h.store = newPodStore(o.Spec, h.pods, h.binder.evict)
		h.store.react(&h.client.Fake)
		h.binder.onBound = func(i int, node string) error {
			h.store.bind(h.Pod(i), node)
			return nil
		}
	}
	return h
}

// tell has the watch of pods tell something, unless the measurement is over.
func (h *harness) tell(what func(pods *watch.FakeWatcher)) {
	h.telling.RLock()
	defer h.telling.RUnlock()
	if !h.over {
		what(h.pods)
	}
}

// end has the watches tell nothing more, before the scheduler stops, which closes them.
func (h *harness) end() {
	if h.claims != nil {
		h.claims.end()
	}
	if h.store != nil {
		h.store.end()
	}
	h.telling.Lock()
	defer h.telling.Unlock()
	h.over = true
}

// tellBound lets the scheduler know about a pod that was bound, as an API server does: only what is known to be bound
// can end. It is an error if the pod has no device of the node, or one that another pod has.
func (h *harness) tellBound(i int, node string) error {
	claim := h.claims.of(i)
	if claim == nil {
		return fmt.Errorf("pod %d is bound without its claim", i)
	}
	pod := h.bound(i)
	if err := h.binder.devices.take(pod.UID, node, claim.Status.Allocation); err != nil {
		return err
	}
	h.tell(func(pods *watch.FakeWatcher) { pods.Modify(pod) })
	return nil
}

// bound makes the i-th pod as it is on its node.
func (h *harness) bound(i int) *corev1.Pod {
	pod := h.Pod(i)
	pod.ResourceVersion = "2"
	pod.Spec.NodeName = workload.NodeName(int(h.binder.node[i].Load()))
	return pod
}

// start brings a scheduler up that knows the nodes. stop waits until it is down, once ctx is done.
func (h *harness) start(ctx context.Context) (stop func(), err error) {
	profiles, err := profiles()
	if err != nil {
		return nil, err
	}
	factory := scheduler.NewInformerFactory(h.client, 0, nil)
	opts := []scheduler.Option{
		scheduler.WithProfiles(profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			binderName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return h.binder, nil },
		}),
	}
	if h.Percentage > 0 {
		opts = append(opts, scheduler.WithPercentageOfNodesToScore(&h.Percentage))
	}
	s, err := scheduler.New(ctx, h.client, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, opts...)
	if err != nil {
		return nil, err
	}
	if p := s.Profiles[corev1.DefaultSchedulerName]; p != nil {
		h.manager = p.SharedDRAManager()
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	down := make(chan struct{})
	go func() {
		defer close(down)
		s.Run(ctx)
	}()
	return func() {
		<-down
		factory.Shutdown()
	}, nil
}

// profiles are kube-scheduler's default ones, with the binder in the place of DefaultBinder.
func profiles() ([]config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var cfg config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &cfg, nil); err != nil {
		return nil, fmt.Errorf("kube-scheduler's default configuration: %w", err)
	}
	for i := range cfg.Profiles {
		p := cfg.Profiles[i].Plugins
		p.Bind.Enabled, p.Bind.Disabled = []config.Plugin{{Name: binderName}}, []config.Plugin{{Name: "*"}}
		p.Reserve.Enabled = []config.Plugin{{Name: binderName}}
	}
	return cfg.Profiles, nil
}

// measure is the measured time: from the first pod's coming to the last one's bind.
func (h *harness) measure(ctx context.Context, r *throughput.Result) error {
	if h.Started != nil {
		if err := h.Started(); err != nil {
			return err
		}
	}
	var over <-chan time.Time
	if h.Limit > 0 {
		over = time.After(h.Limit)
	}
	cpu, began := throughput.CPUTime(), time.Now()
	failed := make(chan error, 1)
	go func() {
		if err := h.feed(ctx); err != nil {
			failed <- err
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-h.binder.done:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	wall := time.Since(began).Seconds()
	r.Placed = int(h.binder.bound.Load())
	r.CPUSeconds, r.WallSeconds, r.PeakRSS = (throughput.CPUTime() - cpu).Seconds(), wall, throughput.PeakRSS()
	r.Decisions, r.Complete = r.Placed, r.Placed == h.Pods
	r.Touches, r.Evicted = h.touches.Load(), int(h.binder.evictions.Load())
	r.DevicesTwice = h.binder.devices.twice()
	r.PodsPerSecond, r.DecisionsPerSecond = float64(r.Placed)/wall, float64(r.Placed)/wall
	r.LatencyP50, r.LatencyP99 = throughput.Percentiles(h.binder.latencies())
	if h.Stopped != nil {
		return h.Stopped()
	}
	return nil
}

// feed lets the pods come, as fast as the informer takes them, or, with devices, in turns.
func (h *harness) feed(ctx context.Context) error {
	if h.DRA {
		return h.feedTurns(ctx)
	}
	for i := range h.Pods {
		if ctx.Err() != nil {
			return nil
		}
		h.binder.given[i].Store(time.Now().UnixNano())
		if h.store != nil {
			h.store.add(h.Pod(i))
			continue
		}
		h.tell(func(pods *watch.FakeWatcher) { pods.Add(h.Pod(i)) })
	}
	return nil
}

// events are the placements of the bound pods, in the order of the cycles, their ends, and the ends of runners.
func (h *harness) events() []yardstick.Event {
	b := h.binder
	var at []yardstick.Event
	var used []bool
	put := func(order int64, e yardstick.Event) {
		// A scheduler that was stopped may still bind while this reads, so the last order is not known before.
		for int64(len(at)) <= order {
			at, used = append(at, yardstick.Event{}), append(used, false)
		}
		at[order], used[order] = e, true
	}
	for i := range b.reserved {
		if b.boundAt[i].Load() == 0 {
			continue
		}
		e := yardstick.Event{Pod: int32(i), Node: b.node[i].Load()}
		put(b.reserved[i].Load(), e)
		if left := b.left[i].Load(); left != 0 {
			e.Left = true
			put(left, e)
		}
	}
	for i := range b.evicted {
		if order := b.evicted[i].Load(); order != 0 {
			put(order, yardstick.Event{Pod: int32(i), Node: int32(h.RunnerNode(i)), Left: true, Runner: true})
		}
	}
	var out []yardstick.Event
	for i, e := range at {
		if used[i] {
			out = append(out, e)
		}
	}
	return out
}

const binderName = "BenchBinder"

// binder is the Bind plugin: it only takes notes. It learns about a placement in Reserve already, which cycles call
// one after the other.
type binder struct {
	given, boundAt []atomic.Int64 // in nanoseconds, by the pod's number; 0: not yet
	node           []atomic.Int32
	reserved       []atomic.Int64 // the last Reserve's number
	left           []atomic.Int64 // the same for the pod's end; 0: it has not ended
	evicted        []atomic.Int64 // the same by the runner's number
	evictions      atomic.Int64
	// onBound, if not nil, is called with a pod before it counts as bound.
	onBound      func(pod int, node string) error
	devices      deviceBook
	order, bound atomic.Int64
	done         chan struct{}
}

var (
	_ fwk.ReservePlugin = (*binder)(nil)
	_ fwk.BindPlugin    = (*binder)(nil)
)

func newBinder(pods int) *binder {
	return &binder{given: make([]atomic.Int64, pods), boundAt: make([]atomic.Int64, pods),
		node:     make([]atomic.Int32, pods),
		reserved: make([]atomic.Int64, pods), left: make([]atomic.Int64, pods),
		devices: deviceBook{use: workload.InUse{}, doubled: map[types.UID]bool{}}, done: make(chan struct{})}
}

// Name implements fwk.Plugin.
func (b *binder) Name() string { return binderName }

// Reserve implements fwk.ReservePlugin.
func (b *binder) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	i, err := workload.Index(pod.UID)
	n, nerr := workload.NodeIndex(node)
	if err := errors.Join(err, nerr); err != nil {
		return fwk.AsStatus(err)
	}
	b.reserved[i].Store(b.order.Add(1))
	b.node[i].Store(int32(n))
	return nil
}

// evict takes note that a runner is gone.
func (b *binder) evict(runner int) {
	b.evicted[runner].Store(b.order.Add(1))
	b.evictions.Add(1)
}

// Unreserve implements fwk.ReservePlugin.
func (b *binder) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// Bind implements fwk.BindPlugin.
func (b *binder) Bind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	i, err := workload.Index(pod.UID)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if workload.NodeName(int(b.node[i].Load())) != node {
		return fwk.NewStatus(fwk.Error, "bound to another node than was reserved")
	}
	if b.onBound != nil {
		if err := b.onBound(i, node); err != nil {
			return fwk.AsStatus(err)
		}
	}
	if !b.boundAt[i].CompareAndSwap(0, time.Now().UnixNano()) {
		return fwk.NewStatus(fwk.Error, "bound twice")
	}
	if b.bound.Add(1) == int64(len(b.boundAt)) {
		close(b.done)
	}
	return nil
}

// latencies are the times from a pod's coming to its bind.
func (b *binder) latencies() []time.Duration {
	var out []time.Duration
	for i := range b.boundAt {
		if at := b.boundAt[i].Load(); at != 0 {
			out = append(out, time.Duration(at-b.given[i].Load()))
		}
	}
	return out
}
