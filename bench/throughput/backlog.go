package throughput

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// BacklogOptions select the backlog to measure.
type BacklogOptions struct {
	workload.Backlog
	// Policy is the gang plugin's queuePolicy.
	Policy coscheduling.QueuePolicy
	// Events is the number of measured events. One comes each second of the log's time, independent of the clock.
	Events int
	// Dir, Log, Version, Progress, Started and Stopped are as in Options.
	Dir, Log, Version string
	Progress          func(doing string, done, of int)
	Started, Stopped  func() error
}

// BacklogResult is the outcome of a measurement.
type BacklogResult struct {
	Text   string `json:"workload"`
	Policy string `json:"policy"`
	// Waiting and Hopeless count the gangs that waited, Placed the gangs that got their nodes meanwhile.
	Waiting  int `json:"waiting"`
	Hopeless int `json:"hopeless"`
	Placed   int `json:"placed"`
	// Events and Decisions count the measured time.
	Events    int `json:"events"`
	Decisions int `json:"decisions"`
	// FirstSeconds is the CPU time until all gangs that wait have been tried once.
	FirstSeconds float64 `json:"firstCPUSeconds"`
	WallSeconds  float64 `json:"wallSeconds"`
	CPUSeconds   float64 `json:"cpuSeconds"`
	// PerEvent is CPUSeconds divided by Events.
	PerEvent float64 `json:"cpuSecondsPerEvent"`
	PeakRSS  int64   `json:"peakRSSBytes"`
}

// Turns drives a backlog: it chooses the next input, and carries out the scheduler's effects.
type Turns struct {
	workload.Backlog
	now     time.Time
	next    int            // the next gang
	bound   map[int]int    // by gang: how many members are bound
	running []func() []end // what runs, the oldest first
	shrunk  map[int]bool   // by node
	inputs  []eventlog.Payload
	event   int
	visitor int
	// Placed is the number of gangs that have got their nodes, Bound the number of pods.
	Placed, Bound int
}

// end is the deletion of an object.
type end = eventlog.Payload

// NewTurns begins a backlog at a time.
func NewTurns(b workload.Backlog, now time.Time) *Turns {
	return &Turns{Backlog: b, now: now, bound: map[int]int{}, shrunk: map[int]bool{}}
}

// Step gives a scheduler inputs at a time, and returns its effects.
type Step func(now time.Time, inputs []eventlog.Payload) ([]engine.Effect, error)

// Load gives a scheduler the nodes and their running pods.
func (t *Turns) Load(step Step) error {
	for i := range t.Nodes {
		t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: t.Node(i, false)})
	}
	if err := t.give(step); err != nil {
		return err
	}
	for i := range t.Nodes {
		pod := t.Runner(i)
		t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
		t.running = append(t.running, func() []end { return []end{deleted(eventlog.Pods, pod)} })
	}
	return t.give(step)
}

// Queue gives a scheduler one more gang that waits.
func (t *Turns) Queue(step Step) error {
	t.arrive()
	return t.give(step)
}

// arrive adds the next gang to the inputs.
func (t *Turns) arrive() {
	g := t.next
	t.next++
	t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.PodGroups, Object: t.Group(g)})
	for m := range t.Members(g) {
		t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: t.Pod(g, m)})
	}
}

// visitors is the number of small pods at one time.
const visitors = 8

// Event lets one second pass and one thing happen. In turns, a node shrinks or grows, the pod that has run longest
// ends, and a small pod comes while another one goes.
func (t *Turns) Event(step Step) error {
	switch t.event % 4 {
	case 0, 2:
		i := t.event * 31 % t.Nodes
		t.shrunk[i] = !t.shrunk[i]
		t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.Nodes, Object: t.Node(i, t.shrunk[i])})
	case 1:
		if len(t.running) > 0 {
			t.inputs = append(t.inputs, t.running[0]()...)
			t.running = t.running[1:]
		}
	case 3:
		if t.visitor >= visitors {
			t.inputs = append(t.inputs, deleted(eventlog.Pods, t.Visitor(t.visitor-visitors)))
		}
		t.inputs = append(t.inputs, &eventlog.Upserted{Resource: eventlog.Pods, Object: t.Visitor(t.visitor)})
		t.visitor++
	}
	t.event++
	return t.give(step)
}

// give passes the inputs to the scheduler and carries out its effects, until no work is left.
func (t *Turns) give(step Step) error {
	t.now = t.now.Add(time.Second)
	for first := true; first || len(t.inputs) > 0; first = false {
		inputs := t.inputs
		t.inputs = nil
		effects, err := step(t.now, inputs)
		if err != nil {
			return err
		}
		for i := range effects {
			effect := &effects[i].Effect
			if effect.Kind != scheduler.Bind {
				return errors.New("the scheduler evicts a pod, for which the backlog gives no reason")
			}
			t.inputs = append(t.inputs,
				&eventlog.BindResult{UID: effect.UID, Node: effect.Node, Outcome: eventlog.BindBound})
			t.note(effect)
		}
	}
	return nil
}

// note books a bind.
func (t *Turns) note(effect *scheduler.Effect) {
	t.Bound++
	g, _, ok := t.GangOf(effect.UID)
	if !ok {
		return
	}
	if t.bound[g]++; t.bound[g] < t.Members(g) {
		return
	}
	delete(t.bound, g)
	t.Placed++
	t.running = append(t.running, func() (ends []end) {
		for m := range t.Members(g) {
			ends = append(ends, deleted(eventlog.Pods, t.Pod(g, m)))
		}
		return append(ends, deleted(eventlog.PodGroups, t.Group(g)))
	})
	t.arrive()
}

// RunBacklog measures a backlog. Its errors come from the engine and the file system.
func RunBacklog(ctx context.Context, o BacklogOptions) (r *BacklogResult, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	path := o.Log
	if path == "" {
		dir, failed := os.MkdirTemp(o.Dir, "rollcall-bench-")
		if failed != nil {
			return nil, fmt.Errorf("a directory for the log: %w", failed)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		path = filepath.Join(dir, "log")
	}
	log, err := create(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	config, err := policyConfig(o.Policy)
	if err != nil {
		return nil, err
	}
	decisions := 0
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	e, err := engine.Open(ctx, log, start, engine.Options{
		Registry: plugins.NewRegistry(), Config: config, Version: o.Version,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	step := func(now time.Time, inputs []eventlog.Payload) ([]engine.Effect, error) {
		ready, err := e.Step(ctx, now, inputs)
		for _, c := range ready.Commits {
			for i := range c.Entries {
				if _, ok := c.Entries[i].Payload.(*eventlog.Decision); ok {
					decisions++
				}
			}
		}
		return ready.Effects, err
	}
	r = &BacklogResult{Text: o.Backlog.String(), Policy: string(o.Policy), Waiting: o.Waiting, Hopeless: o.Hopeless,
		Events: o.Events}
	return r, o.measure(NewTurns(o.Backlog, start), step, r, &decisions)
}

// measure drives the turns.
func (o *BacklogOptions) measure(t *Turns, step Step, r *BacklogResult, decisions *int) error {
	progress := o.Progress
	if progress == nil {
		progress = func(string, int, int) {}
	}
	if err := t.Load(step); err != nil {
		return err
	}
	if err := call(o.Started); err != nil {
		return err
	}
	cpu := CPUTime()
	for i := range o.Waiting + o.Hopeless {
		if err := t.Queue(step); err != nil {
			return err
		}
		progress("queueing gangs", i+1, o.Waiting+o.Hopeless)
	}
	r.FirstSeconds = (CPUTime() - cpu).Seconds()
	before, placed := *decisions, t.Placed
	cpu, began := CPUTime(), time.Now()
	for i := range o.Events {
		if err := t.Event(step); err != nil {
			return err
		}
		progress("events", i+1, o.Events)
	}
	r.WallSeconds, r.CPUSeconds = time.Since(began).Seconds(), (CPUTime() - cpu).Seconds()
	r.Decisions, r.Placed, r.PeakRSS = *decisions-before, t.Placed-placed, PeakRSS()
	r.PerEvent = r.CPUSeconds / float64(max(1, o.Events))
	return call(o.Stopped)
}

// policyConfig is the default configuration with a queue policy.
func policyConfig(policy coscheduling.QueuePolicy) ([]byte, error) {
	cfg, err := framework.LoadConfig([]byte(fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {queuePolicy: %s}
`, policy)), "the benchmark's queue policy")
	if err != nil {
		return nil, err
	}
	return framework.EncodeConfig(cfg)
}
