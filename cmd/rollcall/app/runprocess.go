package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/client"
	"github.com/rollcall-sched/rollcall/kube/lease"
	"github.com/rollcall-sched/rollcall/kube/metrics"
	"github.com/rollcall-sched/rollcall/kube/serving"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/simulate/keep"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// bindWorkers is the number of concurrent calls to the API server. More make it slower: 32 to 256 workers bind 850 to
// 1,500 pods a second, one worker 480.
const bindWorkers = 64

// clusterProcess is a scheduler of a cluster while it runs.
type clusterProcess struct {
	running  *running
	config   *framework.Config
	logged   []byte       // the configuration as it is logged
	rest     *rest.Config // sends no changes without the lease
	client   kubernetes.Interface
	election *lease.Election // nil without one
	leads    atomic.Bool     // it has the lease, or needs none
	stage    atomic.Int32    // a live.Stage
	counts   *metrics.Metrics
	shadow   *shadow                    // nil unless it is one
	current  atomic.Pointer[connection] // the last one; nil before there is one
	followed atomic.Uint64              // the last entry that is followed on standby; 0 if none is
	astray   atomic.Pointer[error]      // why the log cannot be followed on standby; nil if it can, or needs not be
}

// newProcess makes everything that can fail before it begins anything.
func (r *running) newProcess(cfg *framework.Config) (*clusterProcess, error) {
	logged, err := framework.EncodeConfig(cfg)
	if err != nil {
		return nil, err
	}
	p := &clusterProcess{running: r, config: cfg, logged: logged}
	p.rest, err = client.Config(cfg.ClientConnection, r.master, "rollcall/"+version().Version)
	if err != nil {
		return nil, err
	}
	if cfg.LeaderElection.LeaderElect {
		if p.election, err = lease.New(cfg.LeaderElection, p.rest); err != nil {
			return nil, err
		}
		p.rest = p.election.Guard(p.rest)
	}
	if r.records {
		p.rest = client.ReadOnly(p.rest)
	}
	p.rest = client.Shared(p.rest) // not for the lease: it does not wait for binds
	if p.client, err = kubernetes.NewForConfig(p.rest); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return p, nil
}

// run serves health and metrics, waits for the lease, and schedules.
func (p *clusterProcess) run(ctx context.Context) (err error) {
	endpoints, err := p.endpoints()
	if err != nil {
		return err
	}
	server, err := p.running.serving.Serve(endpoints)
	if err != nil {
		return err
	}
	if server != nil {
		defer server.Close()
		slog.Info("Serving health and metrics", "address", server.Address().String())
	}
	own := []prometheus.Collector{metrics.Leading(p.leads.Load)}
	if p.running.shadow {
		p.shadow = newShadow()
		own = append(own, p.shadow.counts)
	}
	if logs.InStream(p.running.log) {
		own = append(own, metrics.Standby(p.followed.Load))
	}
	for _, collector := range own {
		if err := legacyregistry.Registerer().Register(collector); err != nil {
			return fmt.Errorf("serve metrics: %w", err)
		}
	}
	if p.election == nil {
		return p.leadWithoutStandby(ctx, nil)
	}
	slog.Info("Waiting for the lease", "lease", p.config.LeaderElection.ResourceNamespace+"/"+
		p.config.LeaderElection.ResourceName, "identity", p.election.Identity())
	if logs.InStream(p.running.log) {
		return p.standAgainAndAgain(ctx)
	}
	return p.election.Run(ctx, p.otherLeads(), p.leadWithoutStandby)
}

// otherLeads returns a function that logs another candidate that leads: once, until yet another one leads.
func (p *clusterProcess) otherLeads() func(identity string) {
	told := ""
	return func(identity string) {
		if identity != "" && identity != told {
			slog.Info("Another scheduler leads", "identity", identity)
		}
		told = identity
	}
}

// leadWithoutStandby leads with nothing prepared.
func (p *clusterProcess) leadWithoutStandby(ctx context.Context, lost <-chan struct{}) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	return p.lead(ctx, lost, &standby{connection: c})
}

// endpoints returns the served endpoints: configuration, profiling, health and readiness.
func (p *clusterProcess) endpoints() (serving.Endpoints, error) {
	shown := &configv1.KubeSchedulerConfiguration{}
	if err := scheme.Scheme.Convert(p.config.KubeSchedulerConfiguration, shown, nil); err != nil {
		return serving.Endpoints{}, fmt.Errorf("show the configuration: %w", err)
	}
	shown.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	e := serving.Endpoints{
		Configuration: shown, Profiling: p.config.EnableProfiling, Contention: p.config.EnableContentionProfiling,
	}
	if p.election != nil {
		e.Alive = append(e.Alive, p.election.WatchDog())
	}
	e.Ready = append(e.Ready, healthz.NamedCheck("scheduling", func(*http.Request) error {
		return p.readiness()
	}))
	return e, nil
}

// readiness gives the reason why the scheduler is not ready. A scheduler on standby is ready, as kube-scheduler's is:
// it would take over at once, and a rollout that waits for it would wait until the leader ends. If it cannot follow its
// log it is not ready. With delayCacheUntilActive, kube-scheduler is not ready then either.
func (p *clusterProcess) readiness() error {
	switch stage := live.Stage(p.stage.Load()); {
	case !p.leads.Load() && p.astray.Load() != nil:
		return fmt.Errorf("the %s is on standby, and cannot follow the log: %w", p.running.role(), *p.astray.Load())
	case !p.leads.Load() && p.election != nil && !p.config.DelayCacheUntilActive:
		return nil
	case !p.leads.Load():
		return fmt.Errorf("the %s is on standby: it waits for the lease", p.running.role())
	case stage != live.Scheduling:
		return fmt.Errorf("the %s is %s", p.running.role(), stage)
	}
	return nil
}

// lead schedules until ctx is done, with the state and the connection that s has prepared. Once lost is closed it sends
// nothing more and cancels the calls that are under way.
func (p *clusterProcess) lead(ctx context.Context, lost <-chan struct{}, s *standby) (err error) {
	p.leads.Store(true)
	defer p.leads.Store(false)
	p.running.retain(ctx, p.running.log) // before it is opened: its disk may be full
	log, snapshots, err := p.open(ctx, s.state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	var all sync.WaitGroup
	defer all.Wait()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all.Go(func() {
		select {
		case <-lost:
			stop()
		case <-working.Done():
		}
	})
	c := s.connection
	var effects live.Effects = nothingToCarry{}
	if !p.running.records {
		effects = c.effects
		all.Go(func() { c.effects.Run(working) })
		all.Go(func() { c.status.Run(working) })
	}
	all.Go(func() { p.running.retainAlways(working, p.running.log) })
	var recovered *scheduler.Machine
	options := p.engine(snapshots, c.status.PluginEvents())
	options.Standby = s.state
	if p.shadow != nil {
		options.Before = p.shadow.before
	}
	return p.adviseOnStop(live.Run(ctx, live.Options{
		Log:    log,
		Engine: options,
		World: func(r engine.Recovery) (live.World, error) {
			recovered = r.State
			if !p.running.records {
				c.status.Listen(recovered.Seq())
			}
			if watcher := c.watcher.Load(); watcher != nil { // the watcher of the standby
				watcher.Lead()
				return watcher, nil
			}
			recorded, err := p.recorded(r.State.Seq(), log)
			if err != nil {
				return nil, err
			}
			watcher, err := c.watch(recovered, false, recorded)
			if err != nil {
				return nil, err
			}
			all.Go(func() { runWatch(working, watcher) })
			return watcher, nil
		},
		Effects: effects,
		Observe: func(ready engine.Ready) {
			p.counts.Observe(ready)
			if !p.running.records {
				c.status.Observe(ready)
			}
		},
		Grace: p.running.grace, Lost: lost,
		Stage: func(stage live.Stage) {
			if stage == live.Scheduling {
				s.recover(recovered, log)
			}
			p.stage.Store(int32(stage))
			slog.Info("The "+p.running.role()+" is "+p.running.stage(stage), "log", logs.Shown(p.running.log))
		},
	}))
}

func runWatch(ctx context.Context, watcher *watch.Watch) {
	if err := watcher.Run(ctx); err != nil {
		slog.Error("The watches ended", "err", err)
	}
}

// engine says how decisions are made.
func (p *clusterProcess) engine(snapshots snapshot.Store, events framework.EventSink) engine.Options {
	registry := p.running.classes.in(p.running.registry)
	registry.Outside = p.rest // for plugins, beside cycles
	registry.Events = events
	return engine.Options{
		Registry: registry, Config: p.logged, Version: version().String(),
		Snapshots: snapshots, SnapshotEvery: p.running.snapshotEvery, SnapshotAge: p.running.snapshotAge,
		Report:           logNote,
		StandbysSnapshot: p.election != nil && logs.InStream(p.running.log),
	}
}

// adviseOnStop adds to the error that ended a run what the user can do about it.
func (p *clusterProcess) adviseOnStop(err error) error {
	var appending *engine.AppendError
	var displaced *eventlog.DisplacedError
	var superseded *eventlog.SupersededError
	var damaged *eventlog.DamagedError
	var lost *snapshot.LostError
	const again = "Then start it again: the next start asks the API server what came of the binds that were under way"
	switch {
	case errors.As(err, &damaged) && damaged.Seq > 1 && !errors.As(err, &lost): // of which logs has said it
		return logs.AdviseOnDamage(logs.Shown(p.running.log), 1, err)
	case errors.As(err, &superseded) && errors.As(err, &appending):
		return fmt.Errorf("%w\nAnother scheduler has taken the log over and decides now. Nothing that was decided "+
			"here in entries %d and on has left this process", err, appending.First)
	case errors.As(err, &displaced):
		return fmt.Errorf("%w\nEvery entry that was acknowledged is in the files that were there. %s", err, again)
	case errors.As(err, &appending):
		return fmt.Errorf("%w\nNothing that was decided in entries %d and on has left this process, and every entry "+
			"before them is safe. See that the disk is in order and has room. %s", err, appending.First, again)
	case logs.IsDiskError(err):
		return fmt.Errorf("%w\nNothing of what stands in the log is lost. See that the disk is in order and has "+
			"room. %s", err, again)
	}
	return err
}

func logNote(message string) { slog.Info(message) }

// closing is a log that is closed in the end.
type closing interface {
	engine.Log
	First() uint64
	Close() error
}

// open opens the log, or makes it if there is none, and returns the place of its snapshots. A log must have all entries
// of the given state: a server that was cut off may not know yet the entries that the others have acknowledged.
func (p *clusterProcess) open(ctx context.Context, state *engine.Standby) (closing, snapshot.Store, error) {
	r := p.running
	if r.log == inMemory {
		return eventlog.NewMemory(), nil, nil
	}
	log, err := p.openWith(ctx, state)
	if err != nil {
		return nil, nil, err
	}
	if log.Replicas() == 1 {
		slog.Warn("One server keeps this log. It is lost with that server's disk; and what the server acknowledges is "+
			"on the disk only with sync_interval: always, which cannot be seen from here", "log", logs.Shown(r.log))
	}
	if p.election != nil {
		if err := log.Announce(p.election.Identity()); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	return log, log.Snapshots(r.snapshotDistance()), nil
}

// openPatience is the longest time for which servers may lack entries that a standby has read from other servers.
const openPatience = 30 * time.Second

func (p *clusterProcess) openWith(ctx context.Context, state *engine.Standby) (*logs.Kept, error) {
	opts := p.keeping()
	for began := time.Now(); ; {
		log, err := opts.Continue(ctx, p.running.log)
		if errors.Is(err, fs.ErrNotExist) && state == nil {
			log, err = opts.Create(ctx, p.running.log)
		}
		if err != nil || state == nil {
			return log, err
		}
		last, err := log.Last()
		if err == nil && (last >= state.Seq() || time.Since(began) > openPatience) { // the engine says what is missing
			return log, nil
		}
		if err := errors.Join(err, log.Close()); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(openPause):
		}
	}
}

// openPause is the time between two tries to open a log that lacks something.
const openPause = 100 * time.Millisecond

// keeping says how the log is kept.
func (p *clusterProcess) keeping() logs.KeepOptions {
	return logs.KeepOptions{
		SegmentBytes: int64(p.running.segmentSize), Archives: p.running.archives, Version: version().String(),
		Report: logNote,
	}
}

// snapshotDistance returns the number of entries from one snapshot to the next.
func (r *running) snapshotDistance() uint64 {
	if r.snapshotEvery == 0 {
		return keep.DefaultSnapshotEvery
	}
	return r.snapshotEvery
}
