package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// demoColumns is the width in columns of the demo's output, if the terminal is not narrower. Its answers are long
// sentences, and README shows them.
const demoColumns = 100

// demo holds the arguments of the demo command.
type demo struct {
	registry framework.Registry
	keep     string
	plot     target
}

func newDemo(registry framework.Registry) *cobra.Command {
	d := demo{registry: registry, plot: target{flag: "--plot"}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Simulate, replay and explain a bundled workload",
		Long: `Schedules a small bundled workload on twelve virtual nodes, decides its log
again, and asks the log why a gang had to wait and why a pod is pending. It
shows the main lines of what each command prints. Takes a few seconds; keeps
nothing unless --keep or --plot ask for it.`,
		Example: "  rollcall demo\n  rollcall demo --keep demo.db --plot demo.svg\n  rollcall log cat demo.db | head",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := d.keep
			if path == "" {
				dir, err := os.MkdirTemp("", "rollcall-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				path = filepath.Join(dir, "demo.db")
			}
			if err := d.plot.open(); err != nil {
				return err
			}
			defer d.plot.discard()
			return termwidth.FitWithin(cmd.OutOrStdout(), demoColumns, func(w io.Writer) error {
				return d.run(cmd, w, path)
			})
		},
	}
	cmd.Flags().StringVar(&d.keep, "keep", "", "keep the log in this new directory")
	cmd.Flags().StringVar(&d.plot.path, "plot", "", "draw utilisation and queue length over time to this SVG file")
	return cmd
}

func (d *demo) run(cmd *cobra.Command, w io.Writer, path string) error {
	if err := d.simulate(cmd, w, path); err != nil {
		return err
	}
	fmt.Fprint(
		w,
		"\n# Every input and every decision is in the log. Decide it all again:\n# are the decisions the same?\n"+
			"$ rollcall replay demo.db\n",
	)
	facts, _, err := replayLog(cmd, path, replaying{reading: reading{registry: d.registry}, keep: 10})
	if err != nil {
		return err
	}
	if !facts.Identical {
		return errors.Join(facts.writeText(w), errDiverged)
	}
	if err := writeMainLines(w, facts.writeText, "decisions ", "identical"); err != nil {
		return err
	}
	if err := d.explain(cmd, w, path); err != nil {
		return err
	}
	if d.keep == "" {
		plainf(w, "\nrollcall demo --keep demo.db --plot demo.svg keeps the log and draws a plot.\n")
	}
	return nil
}

// simulate runs the bundled workload and draws the plot, if one is asked for.
func (d *demo) simulate(cmd *cobra.Command, w io.Writer, path string) error {
	nodes, work, err := workload.Demo()
	if err != nil {
		return err
	}
	_, config, err := readConfig(cmd, d.registry, "", queuePolicy{}, nil)
	if err != nil {
		return err
	}
	fmt.Fprint(w, "# Schedule the bundled workload, four gangs and ten single pods, on 12 nodes\n"+
		"# of 8 GPUs, in virtual time.\n"+
		"$ rollcall simulate --nodes demo.yaml --workload demo.yaml --log demo.db\n")
	cluster, err := sim.New(nodes, work, sim.Options{Timeline: d.plot.path != ""})
	if err != nil {
		return err
	}
	summary, err := keeping{reading: reading{registry: d.registry}, log: path}.simulate(cmd, cluster, config)
	if err != nil {
		return err
	}
	if err := writeMainLines(w, summary.WriteText, "pods ", "gangs ", "gang wait "); err != nil {
		return err
	}
	if d.plot.path == "" {
		return nil
	}
	figure := cluster.Timeline().Figure("demo.yaml on the nodes of demo.yaml", "", summary)
	return d.plot.write(cmd.OutOrStdout(), func(w io.Writer) error { return svgplot.WriteSVG(w, figure) })
}

// writeMainLines writes the lines of a text that begin with one of the prefixes, and says how many others there are.
func writeMainLines(w io.Writer, write func(io.Writer) error, prefixes ...string) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	others := 0
	for line := range strings.Lines(text.String()) {
		if !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			others++
			continue
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	_, err := plainf(w, "… and %d more lines\n", others)
	return err
}

// explain asks the demo's log two questions.
func (d *demo) explain(cmd *cobra.Command, w io.Writer, path string) error {
	log, err := reading{registry: d.registry}.open(cmd, path)
	if err != nil {
		return err
	}
	defer log.Close()
	past, opts := history.New(log.Source, history.Options{}), explain.Options{}

	fmt.Fprint(w, "\n# Why did the gang wide have to wait? Ask as of ten minutes after it came.\n"+
		"$ rollcall explain demo.db group default/wide --at 2026-01-01T00:20:00Z\n")
	asked, err := history.ParseMoment("2026-01-01T00:20:00Z")
	if err != nil {
		return err
	}
	if opts.AtSeq, opts.AtTime, err = asked.In(cmd.Context(), log.Source); err != nil {
		return err
	}
	group, err := explain.Group(cmd.Context(), past, "default", "wide", opts)
	if err != nil {
		return err
	}
	log.shown.done()
	err = writeMainLines(w, func(w io.Writer) error { return render.Group(w, group) }, "Gang ")
	if err != nil {
		return err
	}

	fmt.Fprint(w, "\n# And why is the pod mistyped pending to the end?\n$ rollcall explain demo.db pod "+
		"default/mistyped\n")
	pod, err := explain.Pod(cmd.Context(), past, "default", "mistyped", explain.Options{})
	if err != nil {
		return err
	}
	return writeMainLines(w, func(w io.Writer) error { return render.Pod(w, pod) }, "Pod ")
}
