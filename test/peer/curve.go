package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/bench/workload"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
)

// growth is "bench curve".
type growth struct {
	rounds, pods  int
	nodes, shapes []int
	limit         time.Duration
	dir           string
	into, chart   string
	note          string
}

func newCurve() *cobra.Command {
	g := &growth{}
	cmd := &cobra.Command{
		Use:   "curve",
		Short: "Show what Rollcall's pods/s become as nodes and shapes grow in number",
		Long: `Measures Rollcall with each number of nodes and of shapes. Where the nodes have fewer GPUs than there are pods, the oldest
pods end as new ones come, so that every run places as many.`,
		Example: "  bench curve --chart docs/curve.svg\n  bench curve --nodes 100,1000 --shapes 1 --rounds 1",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return g.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.IntVar(&g.rounds, "rounds", 3, "how often each is measured")
	f.IntVar(&g.pods, "pods", 10000, "how many pods come in each run")
	f.IntSliceVar(&g.nodes, "nodes", []int{500, 1000, 5000, 15000}, "the numbers of nodes")
	f.IntSliceVar(&g.shapes, "shapes", []int{1, 20, 200}, "the numbers of shapes")
	f.DurationVar(&g.limit, "limit", time.Minute, "stop a run after this much time")
	f.StringVar(&g.dir, "dir", "", "a directory on the file system for the log; default: that for temporary files")
	f.StringVar(&g.into, "into", "",
		"put the table into this file, between <!-- bench curve --> and <!-- end bench curve -->")
	f.StringVar(&g.chart, "chart", "", "draw the medians to this SVG file")
	f.StringVar(&g.note, "note", "", "a sentence to stand above the table")
	return cmd
}

func (g *growth) run(ctx context.Context, w io.Writer) error {
	if g.into != "" {
		if _, _, err := around(g.into, "bench curve"); err != nil {
			return err
		}
	}
	rates := make([][][]float64, len(g.shapes)) // by shapes, nodes, round
	for i := range rates {
		rates[i] = make([][]float64, len(g.nodes))
	}
	for round := range g.rounds {
		for i, shapes := range g.shapes {
			for k, nodes := range g.nodes {
				tell("round %d of %d: %d nodes, %d shapes", round+1, g.rounds, nodes, shapes)
				run := one{Spec: workload.Spec{Nodes: nodes, Pods: g.pods, Shapes: shapes}, Limit: g.limit, Batch: 1000,
					Dir: g.dir}
				r, err := run.apart(ctx)
				if err != nil {
					return err
				}
				rates[i][k] = append(rates[i][k], r.PodsPerSecond)
			}
		}
	}
	tell("")
	table := g.table(rates)
	if g.chart != "" {
		if err := draw(g.chart,
			func(w io.Writer) error { return svgplot.WriteCurves(w, g.curves(rates)) }); err != nil {
			return err
		}
	}
	if g.into != "" {
		if err := replace(g.into, "bench curve", table); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, table)
	return err
}

// table is the medians as Markdown.
func (g *growth) table(rates [][][]float64) string {
	var b strings.Builder
	if g.note != "" {
		fmt.Fprintf(&b, "%s\n\n", g.note)
	}
	fmt.Fprintf(&b, "%s, %d cores, %s, %d pods in each run; %s.\n\n| pods/s |", time.Now().UTC().Format(time.DateOnly),
		runtime.GOMAXPROCS(0), runtime.Version(), g.pods, medians(g.rounds))
	for _, nodes := range g.nodes {
		fmt.Fprintf(&b, " %d nodes |", nodes)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(g.nodes)) + "\n")
	for i, shapes := range g.shapes {
		fmt.Fprintf(&b, "| %s |", shapesName(shapes))
		for k := range g.nodes {
			fmt.Fprintf(&b, " %.0f |", throughput.Median(rates[i][k]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func shapesName(n int) string {
	if n == 1 {
		return "1 shape"
	}
	return fmt.Sprintf("%d shapes", n)
}

// curves are the medians as a chart.
func (g *growth) curves(rates [][][]float64) svgplot.Curves {
	out := svgplot.Curves{
		Title: "Rollcall: pods scheduled per second",
		Subtitle: fmt.Sprintf("%d pods of one GPU in each run, every node scored, every decision durable; %d cores",
			g.pods, runtime.GOMAXPROCS(0)),
		X: "nodes", Y: "pods/s",
	}
	for i, shapes := range g.shapes {
		line := svgplot.Line{Name: shapesName(shapes)}
		for k, nodes := range g.nodes {
			line.Points = append(line.Points, svgplot.Point{X: float64(nodes), Y: throughput.Median(rates[i][k])})
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}
