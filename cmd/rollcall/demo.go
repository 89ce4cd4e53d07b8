package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

func newDemo() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it all on a bundled workload: simulate, replay, explain",
		Long: `Schedules a small bundled workload on twelve virtual nodes, decides its log again, and asks the log
why a gang had to wait and why a pod is pending. Takes a few seconds; keeps nothing unless told to.`,
		Example: "  rollcall demo\n  rollcall demo --keep demo.db && rollcall log cat demo.db | head",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := keep
			if path == "" {
				dir, err := os.MkdirTemp("", "rollcall-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				path = filepath.Join(dir, "demo.db")
			}
			return runDemo(cmd, path)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep the log in this new directory")
	return cmd
}

func runDemo(cmd *cobra.Command, path string) error {
	w := cmd.OutOrStdout()
	nodes, work, err := workload.Demo()
	if err != nil {
		return err
	}
	config, err := readConfig("", "")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "# Schedule the bundled workload, four gangs and ten single pods, on 12 nodes of 8 GPUs, in "+
		"virtual time.\n$ rollcall simulate --nodes demo.yaml --workload demo.yaml --log demo.db\n")
	cluster, err := sim.New(nodes, work, sim.Options{})
	if err != nil {
		return err
	}
	summary, err := keeping{log: path}.simulate(cmd.Context(), cluster, config)
	if err != nil {
		return err
	}
	if err := summary.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n# Every input and every decision is in the log. Decide it all again: is every decision the "+
		"same?\n$ rollcall replay demo.db\n")
	facts, _, err := replayLog(cmd, path, replaying{keep: 10})
	if err != nil {
		return err
	}
	if err := facts.writeText(w); err != nil {
		return err
	}
	if !facts.Identical {
		return errDiverged
	}
	return explainDemo(cmd, w, path)
}

// explainDemo asks the demo's log two questions.
func explainDemo(cmd *cobra.Command, w io.Writer, path string) error {
	log, err := reading{}.open(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer log.Close()
	opts := explain.Options{Registry: plugins.NewRegistry()}

	fmt.Fprintf(w, "\n# Why did the gang wide have to wait? Ask as of ten minutes after it came.\n$ rollcall explain "+
		"demo.db group default/wide --at 2026-01-01T00:20:00Z\n")
	if err := parseAt("2026-01-01T00:20:00Z", &opts); err != nil {
		return err
	}
	group, err := explain.Group(cmd.Context(), log.Read, "default", "wide", opts)
	if err != nil {
		return err
	}
	if err := render.Group(w, group); err != nil {
		return err
	}

	fmt.Fprintf(w, "\n# And why is the pod mistyped pending to the end?\n$ rollcall explain demo.db pod "+
		"default/mistyped\n")
	pod, err := explain.Pod(cmd.Context(), log.Read, "default", "mistyped",
		explain.Options{Registry: plugins.NewRegistry()})
	if err != nil {
		return err
	}
	return render.Pod(w, pod)
}
