// Package throughput measures Rollcall's core: the engine over a log on disk, fed with a workload as fast as it takes
// it. Every event and every decision is durable before it has effects; a bind does nothing and answers Bound.
//
// It owns the drive and the clock. It never reads the engine's internals: it measures the engine's effects, and the
// durable entries that the engine lets it observe (engine.Commit).
//
// Start reading at Run.
package throughput

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/bench/yardstick"
	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/plugins"
)

// Options select the workload and the way to measure it.
type Options struct {
	workload.Spec
	// Dir is a directory on the file system that the log is to be on: the log is made in it and removed at the end.
	Dir string
	// Log is the place where the log is made and kept, instead of in Dir: a directory or a stream of NATS JetStream
	// that does not exist yet. "" for a log that is removed.
	Log string
	// Batch is the largest number of pods given to the engine at once, from 1. Gangs are not split.
	Batch int
	// Stay is the largest number of pods at one time: when more come, the oldest bound ones end, or their whole gangs.
	// 0: as many as fill four fifths of the nodes.
	Stay int
	// Idle is the number of further pods that come one at a time at the end, each when no work is left.
	Idle int
	// WithoutClasses evaluates every node again for each pod.
	WithoutClasses bool
	// Percentage is percentageOfNodesToScore, 1 to 100; 0 is the default, all.
	Percentage int32
	// Version is the program's version, for the log.
	Version string
	// Limit ends the measuring after that much time, with the pods that are placed by then; 0 for no limit.
	Limit time.Duration
	// Progress, if not nil, gets the current step, and how far it is, now and then.
	Progress func(doing string, done, of int)
	// registry has the plugins; an empty one means the plugins that are compiled in.
	registry framework.Registry
	// Started is called when the measured time begins, Stopped when it is over; nil is not called.
	Started, Stopped func() error
}

// Result is the outcome of a measurement. The pods' figures do not include the time for loading the nodes, nor the
// time of Idle.
type Result struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	Gang  int `json:"gang"`
	// GangMost is the size of the largest gangs if Gang is the smallest size.
	GangMost int    `json:"gangMost,omitempty"`
	Shapes   int    `json:"shapes"`
	Spread   bool   `json:"spread"`
	DRA      bool   `json:"dra,omitempty"`
	Preempt  bool   `json:"preempt,omitempty"`
	Text     string `json:"workload"`

	// Placed is the number of bound pods, Decisions the number of decisions in the log.
	Placed    int `json:"placed"`
	Decisions int `json:"decisions"`
	// Complete says that all pods were placed.
	Complete bool `json:"complete"`

	// Evicted is the number of evicted pods, and Evictors the number of gangs for which Rollcall's decisions evicted
	// them.
	Evicted  int `json:"evicted,omitempty"`
	Evictors int `json:"evictors,omitempty"`

	// DevicesTwice is the number of pods to which kube-scheduler gave a device that another pod had. Rollcall's run
	// would fail.
	DevicesTwice int `json:"devicesTwice,omitempty"`
	// Touches is the number of times that kube-scheduler got an event for an object with only a label changed, because
	// it bound no pod for a while.
	Touches int64 `json:"touches,omitempty"`

	LoadSeconds float64 `json:"loadSeconds"`
	WallSeconds float64 `json:"wallSeconds"`
	// CPUSeconds is the CPU time of the whole process, user and system; 0 where the system does not tell.
	CPUSeconds         float64 `json:"cpuSeconds"`
	PodsPerSecond      float64 `json:"podsPerSecond"`
	DecisionsPerSecond float64 `json:"decisionsPerSecond"`

	// Latencies are from the time when the engine got a pod to the time when the first decision that gives it a node
	// was durable.
	LatencyP50 float64 `json:"latencyP50Seconds"`
	LatencyP99 float64 `json:"latencyP99Seconds"`
	// IdlePods came one at a time.
	IdlePods int     `json:"idlePods,omitempty"`
	IdleP50  float64 `json:"idleP50Seconds,omitempty"`
	IdleP99  float64 `json:"idleP99Seconds,omitempty"`

	// BytesPerPod counts the records of the measured time. FileBytesPerPod counts the growth of the log's files, which
	// happens in steps.
	BytesPerPod     float64 `json:"bytesPerPod"`
	FileBytesPerPod float64 `json:"fileBytesPerPod"`
	// PeakRSS is the most memory that the process held, from its beginning to the end of the measured time; 0 where the
	// system does not tell.
	PeakRSS int64 `json:"peakRSSBytes"`
	// HeapPerPod is the growth of the live heap while the pods came, for each pod that exists at the end.
	HeapPerPod float64 `json:"heapBytesPerPod"`
	// HeapPerNode is the live heap after the nodes came, for each node.
	HeapPerNode float64 `json:"heapBytesPerNode"`

	// MeanScore is the chosen nodes' mean score by package yardstick, 0 to its Best.
	MeanScore float64 `json:"meanScore"`
	// RunningScores are the means of the first 500 placements, of the first 1,000, and so on.
	RunningScores []float64 `json:"runningScores,omitempty"`
	MaxScore      int64     `json:"maxScore"`
}

// Run measures. Its errors come from the engine and the file system, or say that placements are wrong.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	defer headroom.Keep()() // as "rollcall run" and "rollcall simulate" have it
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
	d := newDrive(o, log)
	if d.engine, err = o.open(ctx, d); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.engine.Close()) }() // before the log
	r = &Result{Nodes: o.Nodes, Pods: o.Pods, Gang: o.Gang, GangMost: o.GangMost, Shapes: o.Shapes,
		Spread: o.Spread, DRA: o.DRA, Preempt: o.Preempt,
		Text: o.Spec.String()}
	began := time.Now()
	before := heap()
	if err := d.load(ctx); err != nil {
		return nil, err
	}
	r.LoadSeconds = time.Since(began).Seconds()
	empty := heap()
	r.HeapPerNode = float64(empty-before) / float64(o.Nodes)
	if err := o.measure(ctx, d, r); err != nil {
		return nil, err
	}
	r.HeapPerPod = float64(heap()-empty) / float64(max(1, d.here()))
	if err := d.idle(ctx, r); err != nil {
		return nil, err
	}
	r.MaxScore = yardstick.Best
	score, err := yardstick.Rate(ctx, o.Spec, d.events())
	r.MeanScore, r.RunningScores = score.Mean, score.Running
	return r, err
}

// A madeLog is a log that was made for a run.
type madeLog interface {
	eventlog.Log
	Path() string
}

func create(ctx context.Context, path string) (madeLog, error) {
	if !jetstream.Is(path) {
		return boltlog.Create(path)
	}
	at, err := jetstream.Parse(path)
	if err != nil {
		return nil, err
	}
	return at.Create(ctx, eventlog.Origin{})
}

func (o *Options) check() error {
	if err := o.Spec.Check(); err != nil {
		return err
	}
	if o.Batch < 1 || o.Idle < 0 || o.Percentage < 0 || o.Percentage > 100 || o.Stay < 0 {
		return fmt.Errorf(
			"batches of %d, %d idle pods, %d%% of the nodes, %d pods at a time: want at least 1, 0, 0 to 100, and 0",
			o.Batch, o.Idle, o.Percentage, o.Stay)
	}
	turns, err := o.Turns(o.Stay, o.Batch, o.Idle)
	if err != nil {
		return err
	}
	o.Stay, o.Batch = turns.Stay, turns.Batch
	return nil
}

// open makes the engine on d's log.
func (o *Options) open(ctx context.Context, d *drive) (*engine.Engine, error) {
	cfg := framework.DefaultConfig()
	if o.Percentage > 0 {
		for i := range cfg.Profiles {
			cfg.Profiles[i].PercentageOfNodesToScore = &o.Percentage
		}
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		return nil, err
	}
	registry := o.registry
	if registry.Factories == nil {
		registry = plugins.NewRegistry()
	}
	registry.NoClasses = registry.NoClasses || o.WithoutClasses
	return engine.Open(ctx, d.log, time.Now(), engine.Options{
		Registry: registry, Config: config, Version: o.Version, Clock: time.Now,
	})
}

// measure is the measured time.
func (o *Options) measure(ctx context.Context, d *drive, r *Result) error {
	first, files := d.engine.Durable()+1, d.fileBytes()
	if err := call(o.Started); err != nil {
		return err
	}
	cpu, began := CPUTime(), time.Now()
	if err := d.pods(ctx, began); err != nil {
		return err
	}
	wall, spent := time.Since(began).Seconds(), (CPUTime() - cpu).Seconds()
	if err := call(o.Stopped); err != nil {
		return err
	}
	r.WallSeconds, r.CPUSeconds, r.PeakRSS = wall, spent, PeakRSS()
	r.Placed, r.Decisions, r.Complete = d.settled, d.decisions, d.bound == o.Pods
	r.PodsPerSecond, r.DecisionsPerSecond = float64(d.settled)/wall, float64(d.decisions)/wall
	r.Evicted, r.Evictors = d.evictions(), len(d.evictors)
	r.LatencyP50, r.LatencyP99 = Percentiles(d.latencies)
	r.FileBytesPerPod = float64(d.fileBytes()-files) / float64(max(1, d.settled))
	bytes := 0
	for record, err := range d.log.Records(ctx, first) {
		if err != nil {
			return err
		}
		bytes += len(record.Bytes)
	}
	r.BytesPerPod = float64(bytes) / float64(max(1, d.settled))
	return nil
}

func call(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// fileBytes is the size of the log's files, or of its stream on one server.
func (d *drive) fileBytes() (total int64) {
	if stream, ok := d.log.(*jetstream.Log); ok {
		_, bytes, _ := stream.Size(context.Background()) // the figure is for people
		return int64(bytes)
	}
	// Files that cannot be read do not count: the figure is for people.
	_ = filepath.WalkDir(d.log.Path(), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// heap returns the live heap, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools hold on to is free only then
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Percentiles returns the 50th and the 99th percentile, in seconds; 0 without durations.
func Percentiles(durations []time.Duration) (p50, p99 float64) {
	if len(durations) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := func(share float64) float64 { return sorted[int(share*float64(len(sorted)-1)+0.5)].Seconds() }
	return at(0.5), at(0.99)
}
