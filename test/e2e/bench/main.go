// Command bench measures schedulers on a real API server, in turn. It measures the number of pods of gangs that they
// bind per second, its cost in processor time, memory and API requests, and the time for one pod in an idle cluster.
// It also measures the number of binds per second that the API server can accept at all.
//
//	go run ./bench [--nodes 1000] [--pods 10000] [--gang 50] [--rounds 3] [--schedulers rollcall,kube-scheduler]
//
// Scenarios:
//
//   - "backlog": all pods exist when the scheduler starts.
//   - "burst": the scheduler runs and the pods are created as fast as the API server accepts them.
//   - "latency": one pod after the other in an idle cluster.
//   - "growth", only on request: the growth of the log on disk while nodes send heartbeats, and gangs come, run for
//     a minute and end.
//   - "takeover", only on request: two schedulers share a log in NATS JetStream; the time from the leader's death
//     until the other one has bound a gang.
//
// For example:
//
//	go run ./bench --scenarios growth --schedulers rollcall --rounds 1 [--span 10m] [--per-minute 50]
//	go run ./bench --scenarios takeover --schedulers rollcall --rounds 1 --nodes 5000 --pods 100000 --bound 99900
//
// Gangs are PodGroups of scheduling.k8s.io, which both schedulers have. The machine should have no other load.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// plan selects the measurements.
type plan struct {
	nodes, pods, gang, rounds, latencyPods int
	bound                                  int
	schedulers, scenarios                  []string
	heartbeat, report, span                time.Duration
	perMinute                              int
	json                                   bool
}

// bench is a running measurement.
type bench struct {
	plan
	c      *cluster.Cluster
	client kubernetes.Interface
	// made counts the gangs so far: names are never used twice.
	made int
	// names are the names of the nodes.
	names []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var p plan
	var names, scenarios string
	flag.IntVar(&p.nodes, "nodes", 1000, "nodes of 16 CPUs")
	flag.IntVar(&p.pods, "pods", 10000, "pods of one CPU in each round")
	flag.IntVar(&p.gang, "gang", 50, "members of each gang")
	flag.IntVar(&p.rounds, "rounds", 3, "rounds; in each one, every scheduler goes through every scenario")
	flag.IntVar(&p.latencyPods, "latency-pods", 100, "pods of the scenario latency")
	flag.StringVar(&names, "schedulers", "rollcall,kube-scheduler", "schedulers, in this order; or command lines")
	flag.StringVar(&scenarios, "scenarios", "limit,backlog,burst,latency",
		"what is measured, of these, growth and takeover; limit is what the API server takes without\n"+
			"a scheduler: the binds of a backlog, the creations and binds of a burst")
	flag.DurationVar(&p.heartbeat, "heartbeat", -1,
		"how often nodes renew their leases; negative: never, but 10s in growth")
	flag.DurationVar(&p.report, "report", 0, "how often nodes report their status; 0: never, or 5m in growth")
	flag.DurationVar(&p.span, "span", 10*time.Minute, "how long the scenario growth takes")
	flag.IntVar(&p.perMinute, "per-minute", 50, "pods that come in a minute of the scenario growth")
	flag.IntVar(&p.bound, "bound", 0, "how many of the pods of takeover are created on nodes, a tenth of a CPU each")
	flag.BoolVar(&p.json, "json", false, "print a JSON object a measurement")
	flag.Parse()
	p.schedulers, p.scenarios = strings.Split(names, ","), strings.Split(scenarios, ",")
	if p.bound < 0 || p.bound > p.pods {
		return fmt.Errorf("%d of %d pods are created on nodes", p.bound, p.pods)
	}
	if waiting := p.pods - p.bound; waiting+p.bound/10 > 16*p.nodes || p.gang < 1 || waiting%p.gang != 0 {
		return fmt.Errorf("%d pods in gangs of %d do not fit %d nodes of 16, beside %d small ones", waiting, p.gang,
			p.nodes, p.bound)
	}
	if p.perMinute < 1 || p.span <= 0 {
		return fmt.Errorf("%d pods a minute for %s: both must be above 0", p.perMinute, p.span)
	}
	if slices.Contains(p.scenarios, "growth") {
		if p.heartbeat < 0 {
			p.heartbeat = 10 * time.Second
		}
		if p.report == 0 {
			p.report = 5 * time.Minute
		}
	}
	for _, choice := range p.schedulers {
		if choice != binaries.Rollcall && choice != binaries.KubeScheduler {
			continue
		}
		if _, err := binaries.Path(ctx, choice); err != nil { // no measurement waits for a compiler
			return err
		}
	}
	b := &bench{plan: p}
	b.c, err = cluster.Start(ctx, cluster.Options{GenericWorkload: true, CheapAudit: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.c.Stop()) }()
	b.client = kubernetes.NewForConfigOrDie(b.c.Config())
	played, err := nodes.Start(ctx, b.c.Config(), nodes.Options{
		Count: p.nodes, Heartbeat: p.heartbeat, Report: p.report, WithoutPods: true,
	})
	if err != nil {
		return err
	}
	defer played.Stop()
	b.names = played.Names()
	var all []result
	for round := range p.rounds {
		found, err := b.round(ctx, round+1)
		all = append(all, found...)
		if err != nil {
			return err
		}
	}
	if !p.json {
		summary(os.Stdout, all)
	}
	return nil
}

// round measures everything once.
func (b *bench) round(ctx context.Context, number int) (all []result, err error) {
	measure := func(scheduler, scenario string, f func() (result, error)) error {
		r, err := f()
		if err != nil {
			return fmt.Errorf("%s, %s: %w", scheduler, scenario, err)
		}
		r.Round, r.Scheduler, r.Scenario = number, scheduler, scenario
		all = append(all, r)
		b.print(r)
		if scenario == "takeover" && number == b.rounds {
			return nil // the cluster ends with it
		}
		return b.clear(ctx)
	}
	if slices.Contains(b.scenarios, "limit") {
		if err := measure("none", "backlog", func() (result, error) { return b.limit(ctx) }); err != nil {
			return all, err
		}
		if err := measure("none", "burst", func() (result, error) { return b.burstLimit(ctx) }); err != nil {
			return all, err
		}
	}
	for _, s := range b.schedulers {
		for _, x := range []struct {
			name string
			run  func(context.Context, string) (result, error)
		}{{"backlog", b.backlog}, {"burst", b.burst}, {"latency", b.latency}, {"growth", b.growth},
			{"takeover", b.takeover}} {
			if !slices.Contains(b.scenarios, x.name) {
				continue
			}
			if err := measure(s, x.name, func() (result, error) { return x.run(ctx, s) }); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// print writes one measurement.
func (b *bench) print(r result) {
	if b.json {
		_ = json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	fmt.Println(r.line())
}

// start starts a scheduler.
func (b *bench) start(ctx context.Context, choice string) (*schedulers.Scheduler, error) {
	return schedulers.Start(ctx, b.c, schedulers.Options{
		Choice: choice, FeatureGates: map[string]bool{"GenericWorkload": true},
	})
}
