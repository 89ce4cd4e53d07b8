package keep

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// brokenDisk is a log whose second append does not return before until is closed, and then fails.
type brokenDisk struct {
	engine.Log
	until <-chan struct{}
}

var errBroken = errors.New("the disk is broken")

func (l *brokenDisk) Close() error { return nil }

func (l *brokenDisk) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if expectedLast == 0 {
		return l.Log.Append(ctx, expectedLast, entries)
	}
	<-l.until
	return errBroken
}

// asked is a context that does something when it is asked for its error the nth time, from 1: a simulation asks before
// each instant, and before each decision.
type asked struct {
	context.Context
	n, times int
	then     func()
	canceled bool // from then on
}

func (c *asked) Err() error {
	if c.times++; c.times == c.n {
		c.then()
	}
	if c.canceled && c.times >= c.n {
		return context.Canceled
	}
	return nil
}

// demonstrated returns the bundled simulation, and options that keep a log of it.
func demonstrated(t *testing.T) (*sim.Cluster, Options) {
	t.Helper()
	nodes, work, err := workload.Demo()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return cluster, Options{
		Log:    filepath.Join(t.TempDir(), "log"),
		Engine: engine.Options{Registry: plugins.NewRegistry(), Config: config, Version: "test"},
		Report: func(message string) { t.Logf("reported: %s", message) },
	}
}

// TestAnInterruptedSimulationSaysThatItsDiskFailed has the append fail that is under way when the interrupt comes,
// between steps and in the middle of them.
func TestAnInterruptedSimulationSaysThatItsDiskFailed(t *testing.T) {
	for n := 2; n < 30; n++ { // when it is asked the first time nothing is under way
		interrupted := make(chan struct{})
		cluster, opts := demonstrated(t)
		log := &brokenDisk{Log: simulate.NoLog(), until: interrupted}
		_, err := opts.runOn(
			&asked{Context: t.Context(), n: n, then: func() { close(interrupted) }, canceled: true},
			cluster, log)
		var failed *engine.AppendError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) {
			t.Fatalf("interrupted when it asks the time %d, with an append under way that fails, it says only: %v", n,
				err)
		}
		for _, want := range []string{errBroken.Error(),
			"Nothing that was decided in entries 2 and on has left this process"} {
			if strings.Count(err.Error(), want) != 1 {
				t.Errorf("interrupted when it asks the time %d it does not say once %q: %v", n, want, err)
			}
		}
	}
}

// TestASimulationIsKeptAndCannotBeBegunOrResumedInTheWrongPlace runs one to its end, then makes impossible requests.
func TestASimulationIsKeptAndCannotBeBegunOrResumedInTheWrongPlace(t *testing.T) {
	cluster, opts := demonstrated(t)
	opts.SnapshotEvery = 50
	if _, err := Run(t.Context(), cluster, opts); err != nil {
		t.Fatal(err)
	}
	log, err := logs.Options{}.Open(t.Context(), opts.Log)
	if err != nil {
		t.Fatal(err)
	}
	last, err := log.Last()
	if err = errors.Join(err, log.Close()); err != nil || last < 100 {
		t.Fatalf("the log ends with entry %d, error %v", last, err)
	}
	if seqs, err := logs.SnapshotsOf(opts.Log).List(); err != nil || len(seqs) == 0 {
		t.Errorf("snapshots of entries %d, error %v", seqs, err)
	}
	absent, elsewhere := opts, opts
	absent.Log, absent.Resume = filepath.Join(t.TempDir(), "absent"), true
	elsewhere.Log = "s3://bucket/jobs"
	url := absent
	url.Log = "file://" + absent.Log
	for _, tc := range []struct {
		name string
		opts Options
		want string
	}{
		{"begun where a log is", opts, "is there already: go on with its simulation with --resume"},
		{"resumed where none is", absent, "no log at " + absent.Log + ": there is nothing to resume"},
		{"resumed where none is, by a URL", url, "no log at " + url.Log + ": there is nothing to resume"},
		{"kept in no directory", elsewhere, "there are no logs of the scheme s3://"},
	} {
		cluster, _ := demonstrated(t)
		_, err := Run(t.Context(), cluster, tc.opts)
		var request *logs.RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want a RequestError with %q, got %v", tc.name, tc.want, err)
		}
	}
}

// TestAStopSaysWhatToDo tries each kind of error with a log that is kept, one that is resumed, and none.
func TestAStopSaysWhatToDo(t *testing.T) {
	kept := t.TempDir() // it is there
	for _, tc := range []struct {
		name string
		opts Options
		err  error
		want string
	}{
		{"the disk, with a log", Options{Log: kept}, syscall.ENOSPC, "run the same command with --resume"},
		{"the disk, before there is a log", Options{Log: filepath.Join(kept, "no")}, syscall.ENOSPC,
			"run the same command again"},
		{"the disk, without a log", Options{}, syscall.ENOSPC, "No log was kept (--log)"},
		{"an append", Options{Log: kept}, &engine.AppendError{First: 7, Err: errBroken},
			"decided in entries 7 and on has left this process"},
		{"damage", Options{Log: kept, Resume: true}, &eventlog.DamagedError{Path: kept, Seq: 9, Err: errBroken},
			"Entries 1 to 8 are good: save them with rollcall log export " + kept + " --up-to 8"},
		{"another simulation", Options{Log: kept, Resume: true}, &sim.OtherSimulationError{},
			"give the nodes, workload, configuration, --until and --requeue that it was begun with"},
		{"anything else", Options{Log: kept}, errBroken, errBroken.Error()},
	} {
		err := tc.opts.explainStop(tc.err)
		if !errors.Is(err, tc.err) || strings.Count(err.Error(), tc.want) != 1 {
			t.Errorf("%s: want %q once in the error, got %v", tc.name, tc.want, err)
		}
	}
}
