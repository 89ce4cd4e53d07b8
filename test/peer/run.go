package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/test/peer/kubescheduler"
)

// one is one run: a contestant, and its workload.
type one struct {
	workload.Spec
	// Kube measures kube-scheduler.
	Kube bool
	// Percentage is percentageOfNodesToScore; 0 for the scheduler's default.
	Percentage int32
	Limit      time.Duration
	Batch      int
	Dir        string
}

// newRun is the command that a run's process is started with. People may, too: it takes a profile.
func newRun() *cobra.Command {
	var (
		o       one
		profile string
	)
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Measure one scheduler once and print the result as JSON",
		Example: "  bench run --kube --nodes 5000 --pods 10000 --cpuprofile kube.prof",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.here(cmd.Context(), profile)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Kube, "kube", false, "measure kube-scheduler")
	f.IntVar(&o.Nodes, "nodes", 5000, "how many nodes there are")
	f.IntVar(&o.Pods, "pods", 10000, "how many pods come")
	f.Var(o.GangFlag(), "gang", workload.GangUsage)
	f.IntVar(&o.Shapes, "shapes", 1, "how many different requests there are")
	f.BoolVar(&o.Spread, "spread", false, "spread the pods over zones")
	f.BoolVar(&o.Affinity, "affinity", false, "keep the pods of an app apart by node, and rather together by zone")
	f.BoolVar(&o.SoftSpread, "soft-spread", false, "spread the pods of an app over zones and nodes, if possible")
	f.BoolVar(&o.ZoneAffinity, "zone-affinity", false, "have pods be in a zone with one of another app")
	f.BoolVar(&o.NamespaceAffinity, "namespace-affinity", false,
		"have pods be in a zone with one of another app, in namespaces that they select")
	f.IntVar(&o.Apps, "apps", 0, "how many apps there are; 0: 50 where pods look at apps")
	f.BoolVar(&o.DRA, "dra", false, "the GPUs are devices of ResourceSlices, and each pod has a ResourceClaim for one")
	f.BoolVar(&o.Preempt, "preempt", false,
		"have all nodes be full with pods of lower priority, and each gang evict some; with --gang")
	f.Int32Var(&o.Percentage, "sample", 0, "percentageOfNodesToScore; 0: the scheduler's default")
	f.DurationVar(&o.Limit, "limit", 0, "end after this much time")
	f.IntVar(&o.Batch, "batch", 1000, "how many pods Rollcall is given at once, at the most")
	f.StringVar(&o.Dir, "dir", "", "where Rollcall's log is")
	f.StringVar(&profile, "cpuprofile", "", "write a CPU profile of the measured time to this file")
	return cmd
}

// here measures in this process.
func (o one) here(ctx context.Context, profile string) (*throughput.Result, error) {
	var file *os.File
	started := func() (err error) {
		if profile == "" {
			return nil
		}
		if file, err = os.Create(profile); err != nil {
			return err
		}
		return pprof.StartCPUProfile(file)
	}
	stopped := func() error {
		if file == nil {
			return nil
		}
		pprof.StopCPUProfile()
		return file.Close()
	}
	if o.Kube {
		return kubescheduler.Run(ctx,
			kubescheduler.Options{
				Spec: o.Spec, Percentage: o.Percentage, Batch: o.Batch, Limit: o.Limit, Started: started,
				Stopped: stopped})
	}
	return throughput.Run(ctx,
		throughput.Options{Spec: o.Spec, Percentage: o.Percentage, Limit: o.Limit, Batch: o.Batch, Dir: o.Dir,
			Version: "bench", Started: started, Stopped: stopped})
}

// apart measures in a process of its own, so that no run finds memory or a heap that another left behind.
func (o one) apart(ctx context.Context) (*throughput.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, slices.Concat([]string{"run", "--kube=" + strconv.FormatBool(o.Kube),
		"--batch=" + strconv.Itoa(o.Batch)}, o.flags())...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("%s: %w: %s", o.Spec, err, complaint.String()))
	}
	r := new(throughput.Result)
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, fmt.Errorf("%s: what the run printed: %w", o.Spec, err)
	}
	return r, nil
}

// by has another rollcall program measure, with its "rollcall bench".
func (o one) by(ctx context.Context, program string) (*throughput.Result, error) {
	r := new(throughput.Result)
	return r, throughput.Apart(ctx, program, o.flags(), r)
}

// flags are the flags of this program's "run" that "rollcall bench" has, too. Its batches have the same size without a
// flag.
func (o one) flags() []string {
	return []string{
		"--spread=" + strconv.FormatBool(o.Spread), "--dra=" + strconv.FormatBool(o.DRA),
		"--affinity=" + strconv.FormatBool(o.Affinity), "--soft-spread=" + strconv.FormatBool(o.SoftSpread),
		"--zone-affinity=" + strconv.FormatBool(o.ZoneAffinity), "--preempt=" + strconv.FormatBool(o.Preempt),
		"--namespace-affinity=" + strconv.FormatBool(o.NamespaceAffinity), "--apps=" + strconv.Itoa(o.Apps),
		"--nodes=" + strconv.Itoa(o.Nodes), "--pods=" + strconv.Itoa(o.Pods), "--gang=" + o.GangFlag().String(),
		"--shapes=" + strconv.Itoa(o.Shapes), "--sample=" + strconv.Itoa(int(o.Percentage)),
		"--limit=" + o.Limit.String(), "--dir=" + o.Dir,
	}
}
