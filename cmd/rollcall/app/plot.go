package app

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
	"github.com/rollcall-sched/rollcall/replay/plot"
)

// plotting is "rollcall plot".
type plotting struct {
	reading
	span      ledger.Span
	by        ledger.By
	resources []string
	step      time.Duration
	format    string
	to        target
}

var plotFormats = []string{"svg", "json", "csv"}

// otherPictures are the endings of files that no SVG should have.
var otherPictures = []string{".png", ".jpg", ".jpeg", ".pdf", ".gif", ".webp"}

func newPlot(registry framework.Registry) *cobra.Command {
	p := plotting{reading: reading{registry: registry}, to: target{flag: "--out"}}
	cmd := &cobra.Command{
		Use:   "plot LOG|BUNDLE",
		Short: "Draw who held the resources over time, who waited, and what happened",
		Long: `Draws a range of a log as an SVG file, for a browser or a document. Panels one
below the other have for each resource what each group of pods held, and why the
rest was not held; then how many gangs and pods waited. Below them are marks:
configuration changes, nodes lost and back (hollow), cordons, preemptions, pods
lost with a node or evicted with their gang. The most important events are
written out. Times are UTC.

The words are the ones of "rollcall report" and "rollcall events". The values
are means over steps of time, and the area of a group is what the report says
that it held. The eight groups with the largest shares of what was held and
waited have a colour. The others are drawn together.

-o json and -o csv print the series that are drawn, each value as a mean and as
the exact sum. docs/REPORT.md defines the columns.`,
		Example: `  rollcall plot jobs.db --out jobs.svg
  rollcall plot jobs.db --from 13:00 --until 15:00 --out incident.svg
  rollcall plot jobs.db --by label:team --resource nvidia.com/gpu --out gpu.svg
  rollcall plot jobs.db --step 1h -o csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Var(&p.by, "by", "the `group` of a pod: namespace, label:KEY, gang, node or priority; default: namespace")
	f.Var(&p.span.From, "from", "where the range begins: behind an `entry`, or at a time such as "+
		"2026-01-03T14:03:00Z or 14:03 (UTC), or -5m before the log's end; default: the log's beginning")
	f.Var(&p.span.To, "until", "where the range ends: an `entry` or a time; default: the log's end")
	f.StringSliceVar(&p.resources, "resource", nil, "the `NAME`s of the resources to draw, with commas between them; "+
		"default: cpu and extended resources, four at most")
	durationVar(f, &p.step, "step", 0, "the time over which a value is the mean, such as 5m; default: a round one")
	f.StringVar(&p.to.path, "out", "-", "write to this `file`; - for standard output")
	p.format = plotFormats[0]
	f.VarP(enumValue{&p.format, plotFormats}, "output", "o", "what to write: svg, json, csv")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(plotFormats, cobra.ShellCompDirectiveNoFileComp))
	p.reading.register(cmd)
	return cmd
}

func (p *plotting) run(cmd *cobra.Command, name string) error {
	if !slices.Contains(plotFormats, p.format) {
		return usageError{fmt.Errorf("--output is %q: want one of %q", p.format, plotFormats)}
	}
	if ext := strings.ToLower(filepath.Ext(p.to.path)); p.format == "svg" && slices.Contains(otherPictures, ext) {
		return usageError{fmt.Errorf("--out is %s: the picture is an SVG, so name it .svg", p.to.path)}
	}
	if p.step < 0 {
		return usageError{fmt.Errorf("--step is %s: want a duration above zero", p.step)}
	}
	defer headroom.Spend(reportGCPercent, reportMemory)()
	log, err := p.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := p.to.open(); err != nil { // what cannot be written is said before the work
		return err
	}
	defer p.to.discard()
	ctx := cmd.Context()
	within, err := ledger.Resolve(ctx, history.New(log.Source, history.Options{}), p.span)
	if err != nil {
		return err
	}
	var resources []v1.ResourceName
	for _, text := range p.resources {
		if !slices.Contains(resources, v1.ResourceName(text)) {
			resources = append(resources, v1.ResourceName(text))
		}
	}
	drawn, err := plot.Make(ctx, log.Source, plot.Options{Range: within, By: p.by, Resources: resources, Step: p.step,
		Workers:  runtime.GOMAXPROCS(0),
		Progress: func(read, all uint64) { log.shown.show("entry %d of %d (%d%%)", read, all, 100*read/max(1, all)) }})
	log.shown.done()
	if err != nil {
		return err
	}
	return p.to.write(cmd.OutOrStdout(), func(w io.Writer) error {
		switch p.format {
		case "csv":
			return drawn.WriteCSV(w)
		case "json":
			return (&output{"json"}).write(w, drawn, nil)
		}
		return svgplot.WriteSVG(w, drawn.Figure(filepath.Base(name)))
	})
}
