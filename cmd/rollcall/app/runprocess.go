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

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/client"
	"github.com/rollcall-sched/rollcall/kube/lease"
	"github.com/rollcall-sched/rollcall/kube/metrics"
	"github.com/rollcall-sched/rollcall/kube/serving"
	"github.com/rollcall-sched/rollcall/live"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/simulate/keep"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// bindWorkers is how many calls to the API server are under way at once. More make it slower: 32 to 256 workers bind
// 850 to 1,500 pods a second, one worker 480.
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
}

// newProcess makes everything that can be wrong before anything is begun.
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
	if err := legacyregistry.Registerer().Register(metrics.Leading(p.leads.Load)); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	if p.election == nil {
		return p.lead(ctx, nil)
	}
	slog.Info("Waiting for the lease", "lease", p.config.LeaderElection.ResourceNamespace+"/"+
		p.config.LeaderElection.ResourceName, "identity", p.election.Identity())
	other := func(identity string) { slog.Info("Another scheduler leads", "identity", identity) }
	return p.election.Run(ctx, other, p.lead)
}

// endpoints are what is served.
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

// readiness says why the scheduler is not ready. One on standby is ready, as kube-scheduler's is: it would take over at
// once, and a rollout that waits for it would wait until the leader ends. With delayCacheUntilActive, kube-scheduler is
// not ready then either.
func (p *clusterProcess) readiness() error {
	switch stage := live.Stage(p.stage.Load()); {
	case !p.leads.Load() && p.election != nil && !p.config.DelayCacheUntilActive:
		return nil
	case !p.leads.Load():
		return errors.New("the scheduler is on standby: it waits for the lease")
	case stage != live.Scheduling:
		return fmt.Errorf("the scheduler is %s", stage)
	}
	return nil
}

// lead schedules until ctx is done. Once lost is closed nothing is sent any more, and what is under way is broken off.
func (p *clusterProcess) lead(ctx context.Context, lost <-chan struct{}) (err error) {
	p.leads.Store(true)
	p.running.retain(ctx, p.running.log) // before it is opened: its disk may be full
	log, snapshots, err := p.open(ctx)
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
	c := &connection{clusterProcess: p}
	if err := c.connect(); err != nil {
		return err
	}
	counts := c.metrics()
	if err := legacyregistry.Registerer().Register(counts); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	all.Go(func() { c.effects.Run(working) })
	all.Go(func() { c.status.Run(working) })
	all.Go(func() { p.running.retainAlways(working, p.running.log) })
	var recovered *scheduler.Machine
	return p.adviseOnStop(live.Run(ctx, live.Options{
		Log:    log,
		Engine: p.engine(snapshots, c.status.PluginEvents()),
		World: func(m *scheduler.Machine) (live.World, error) {
			recovered = m
			c.status.Listen(m.Seq())
			watcher, err := c.watch(m)
			if err != nil {
				return nil, err
			}
			all.Go(func() {
				if err := watcher.Run(working); err != nil {
					slog.Error("The watches ended", "err", err)
				}
			})
			return watcher, nil
		},
		Effects: c.effects,
		Observe: func(m *scheduler.Machine, commit engine.Commit) {
			counts.Observe(m, commit)
			c.status.Observe(m, commit)
		},
		Grace: p.running.grace, Lost: lost,
		Stage: func(s live.Stage) {
			if s == live.Scheduling {
				c.recover(recovered, log)
			}
			p.stage.Store(int32(s))
			slog.Info("The scheduler is "+s.String(), "log", logs.Shown(p.running.log))
		},
	}))
}

// engine says how decisions are made.
func (p *clusterProcess) engine(snapshots snapshot.Store, events framework.EventSink) engine.Options {
	registry := p.running.classes.in(p.running.registry)
	registry.Outside = p.rest // for plugins, beside cycles
	registry.Events = events
	return engine.Options{
		Registry: registry, Config: p.logged, Version: version().String(),
		Snapshots: snapshots, SnapshotEvery: p.running.snapshotEvery, SnapshotAge: p.running.snapshotAge,
		Report: logNote,
	}
}

// adviseOnStop adds to what ended a run what can be done about it.
func (p *clusterProcess) adviseOnStop(err error) error {
	var appending *engine.AppendError
	var displaced *eventlog.DisplacedError
	var superseded *eventlog.SupersededError
	var damaged *eventlog.DamagedError
	var lost *snapshot.LostError
	const again = "Then start it again: the next start asks the API server what came of the binds that were under way"
	switch {
	case errors.As(err, &damaged) && damaged.Seq > 1 && !errors.As(err, &lost): // of which logs has said it
		return fmt.Errorf("%w\n%s", err, logs.AdviceOnDamage(logs.Shown(p.running.log), 1, damaged.Seq))
	case errors.As(err, &superseded) && errors.As(err, &appending):
		return fmt.Errorf("%w\nAnother scheduler has taken the log over and decides now. Nothing that was decided "+
			"here in "+
			"entries %d and on has left this process. Start it again to have it ready to take over in its turn", err,
			appending.First)
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
	Close() error
}

// open opens the log, or makes it if there is none, and returns the place of its snapshots.
func (p *clusterProcess) open(ctx context.Context) (closing, snapshot.Store, error) {
	r := p.running
	if r.log == inMemory {
		return eventlog.NewMemory(), nil, nil
	}
	opts := logs.KeepOptions{
		SegmentBytes: int64(r.segmentSize), Archives: r.archives, Version: version().String(), Report: logNote,
	}
	log, err := opts.Continue(ctx, r.log)
	if errors.Is(err, fs.ErrNotExist) {
		log, err = opts.Create(ctx, r.log)
	}
	if err != nil {
		return nil, nil, err
	}
	every := r.snapshotEvery
	if every == 0 {
		every = keep.DefaultSnapshotEvery
	}
	return log, log.Snapshots(every), nil
}
