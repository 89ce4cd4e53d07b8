// Package schedulers starts the scheduler that a test is about, as a process beside a cluster: rollcall run, or
// kube-scheduler 1.37 in its place. The variable ROLLCALL_E2E_SCHEDULER chooses: "rollcall", "kube-scheduler", or a
// command line that is given --kubeconfig F --config F behind its own words, such as "/tmp/rollcall run --log memory".
// Empty: "rollcall".
//
//	s := schedulers.ForTest(t, c, schedulers.Options{})
//	s.Kill()
package schedulers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// Variable is the name of the environment variable that chooses the scheduler.
const Variable = "ROLLCALL_E2E_SCHEDULER"

// defaultChoice is the scheduler to start if the variable is empty.
const defaultChoice = binaries.Rollcall

// Options say how the scheduler is started.
type Options struct {
	// Choice goes before ROLLCALL_E2E_SCHEDULER if it is not empty.
	Choice string
	// Name is the schedulerName of its profile; default-scheduler if it is empty.
	Name string
	// Server is the URL of a proxy before the API server; empty: the API server's own.
	Server string
	// User is the scheduler's user for the API server; "scheduler" if it is empty. Groups are the user's; nil:
	// system:masters.
	User   string
	Groups []string
	// Log is the folder of Rollcall's log; empty: one beside the cluster's files. "memory" keeps none.
	Log string
	// FeatureGates are the gates that differ from their default.
	FeatureGates map[string]bool
	// QPS limits its requests a second; 5,000 if it is 0.
	QPS float64
	// Args are added to the command line.
	Args []string
	// Config is a KubeSchedulerConfiguration without clientConnection and leaderElection; empty: one default profile.
	Config string
}

// Scheduler is a scheduler that was started.
type Scheduler struct {
	*cluster.Process
	// User is the scheduler's user for the API server, which the audit log names.
	User string
	// Log is the folder of its log; empty if it keeps none, which kube-scheduler never does.
	Log string
	// Program is the path of the program: rollcall's also reads logs.
	Program string
}

// Choice is the scheduler that tests are to start.
func Choice() string {
	if c := os.Getenv(Variable); c != "" {
		return c
	}
	return defaultChoice
}

// Start starts a scheduler. Whether it is ready is not waited for: its pods are.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (*Scheduler, error) {
	s, err := prepare(ctx, c, o)
	if err != nil {
		return nil, err
	}
	return s, s.Process.Start(ctx)
}

// ForTest starts a scheduler for a test and ends it with the test. If the test has failed, the end of its output is in
// the test's log.
func ForTest(t testing.TB, c *cluster.Cluster, o Options) *Scheduler {
	t.Helper()
	s, err := Start(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s:\n%s", s.Output, s.Tail(30))
		}
		s.Kill()
	})
	return s
}

func prepare(ctx context.Context, c *cluster.Cluster, o Options) (*Scheduler, error) {
	if o.Choice == "" {
		o.Choice = Choice()
	}
	if o.User == "" {
		o.User = "scheduler"
	}
	if o.Groups == nil {
		o.Groups = []string{"system:masters"}
	}
	dir, err := os.MkdirTemp(c.Dir(), "scheduler-")
	if err != nil {
		return nil, fmt.Errorf("make the scheduler's folder: %w", err)
	}
	kubeconfig, err := c.KubeconfigFor(o.Server, o.User, o.Groups...)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(o.configuration(kubeconfig)), 0o644); err != nil {
		return nil, fmt.Errorf("write the scheduler's configuration: %w", err)
	}
	s := &Scheduler{User: o.User}
	command, err := s.command(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	command = append(command, "--kubeconfig="+kubeconfig, "--config="+config)
	if len(o.FeatureGates) > 0 {
		var gates []string
		for k, v := range o.FeatureGates {
			gates = append(gates, fmt.Sprintf("%s=%v", k, v))
		}
		slices.Sort(gates)
		command = append(command, "--feature-gates="+strings.Join(gates, ","))
	}
	s.Program = command[0]
	s.Process = cluster.NewProcess("scheduler", filepath.Join(dir, "output"), append(command, o.Args...), nil, nil)
	return s, nil
}

// command is the beginning of the command line.
func (s *Scheduler) command(ctx context.Context, o Options, dir string) ([]string, error) {
	switch o.Choice {
	case binaries.KubeScheduler:
		file, err := binaries.Path(ctx, binaries.KubeScheduler)
		return []string{file, "--secure-port=0"}, err
	case binaries.Rollcall:
		file, err := binaries.Path(ctx, binaries.Rollcall)
		log := o.Log
		if log == "" {
			log = filepath.Join(dir, "log")
		}
		if log != "memory" {
			s.Log = log
		}
		return []string{file, "run", "--log=" + log, "--secure-port=0"}, err
	}
	words := strings.Fields(o.Choice)
	if len(words) == 0 {
		return nil, fmt.Errorf("%s is empty: it names no scheduler", Variable)
	}
	return words, nil
}

// configuration is the KubeSchedulerConfiguration. kube-scheduler takes the kubeconfig from it and not from the flag.
func (o Options) configuration(kubeconfig string) string {
	qps, rest := o.QPS, o.Config
	if qps == 0 {
		qps = 5000
	}
	if rest == "" {
		name := o.Name
		if name == "" {
			name = "default-scheduler"
		}
		rest = "profiles:\n- schedulerName: " + name + "\n"
	}
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: %g, burst: %d, contentType: application/vnd.kubernetes.protobuf}
leaderElection: {leaderElect: false}
%s`, kubeconfig, qps, int(2*qps), rest)
}

// Rollcall runs a command of rollcall and returns its standard output, also with an error.
func (s *Scheduler) Rollcall(ctx context.Context, args ...string) ([]byte, error) {
	file, err := binaries.Path(ctx, binaries.Rollcall)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("rollcall %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}
