package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rollcall-sched/rollcall/bench/throughput"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
)

// comparison is "bench peer".
type comparison struct {
	rounds             int
	limit              time.Duration
	only               []string
	skipAllNodes       bool
	nodes, pods        int
	dir                string
	into, chart, facts string
	note               string
	against            string // another rollcall program; "" for none
}

func newPeer() *cobra.Command {
	c := &comparison{}
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Compare Rollcall with kube-scheduler, run by run in turns",
		Long: `Gives the same workloads to kube-scheduler and to Rollcall, taking turns, each run in a process of its own. kube-scheduler
is the one that is compiled in, made by scheduler.New with its default configuration over a client in memory; it is measured as
it is, and with all nodes scored. Binds do nothing in either. Rollcall scores all nodes, and its log is on disk: every event and
every decision is durable.

A run that takes longer than --limit is stopped, and what it placed until then counts. The scenario "preempt" is given
130 s at least: all gangs evict before the first one is placed.

With --against another rollcall program, such as one of before a change, is measured in each round too, by its own
"rollcall bench". It and this Rollcall change places from round to round.`,
		Example: "  bench peer\n  bench peer --rounds 1 --only shape,gangs --into docs/PERFORMANCE.md --chart " +
			"docs/peer.svg\n  bench peer --limit 15s --skip-all-nodes --against ./rollcall-before",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	var keys []string
	for _, s := range scenarios {
		keys = append(keys, s.Key)
	}
	f := cmd.Flags()
	f.IntVar(&c.rounds, "rounds", 5, "how often each is measured")
	f.DurationVar(&c.limit, "limit", time.Minute, "stop a run after this much time")
	f.StringSliceVar(&c.only, "only", keys, "the scenarios")
	f.BoolVar(&c.skipAllNodes, "skip-all-nodes", false,
		"leave out kube-scheduler with all nodes scored, which most of the time is spent on otherwise")
	f.IntVar(&c.nodes, "nodes", 0, "another number of nodes for all scenarios")
	f.IntVar(&c.pods, "pods", 0, "another number of pods for all scenarios")
	f.StringVar(&c.dir, "dir", "",
		"a directory on the file system for Rollcall's log; default: that for temporary files")
	f.StringVar(&c.into, "into", "",
		"put the table into this file, between <!-- bench peer --> and <!-- end bench peer -->")
	f.StringVar(&c.chart, "chart", "", "draw the medians to this SVG file")
	f.StringVar(&c.facts, "facts", "", "write every result to this file, as JSON")
	f.StringVar(&c.against, "against", "",
		"measure this other rollcall program, too, and print how many times its figures Rollcall's are")
	f.StringVar(&c.note, "note", "", "a sentence to stand above the table")
	return cmd
}

func (c *comparison) run(ctx context.Context, w io.Writer) error {
	chosen, err := c.choose()
	if err != nil {
		return err
	}
	if c.into != "" { // rather now than after an hour
		if _, _, err := around(c.into, "bench peer"); err != nil {
			return err
		}
	}
	if c.against != "" {
		if _, err := exec.LookPath(c.against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
	}
	outcomes := make([]outcome, len(chosen))
	for round := range c.rounds {
		for i, s := range chosen {
			outcomes[i].Scenario, outcomes[i].name = s.Key, s.Name
			for _, who := range c.turns(round) {
				tell("round %d of %d: %s: %s", round+1, c.rounds, s.Name, contestants[who].Name)
				r, err := c.measure(ctx, s, who)
				if err != nil {
					return err
				}
				outcomes[i].Results[who] = append(outcomes[i].Results[who], r)
			}
		}
		// The results so far are worth keeping if a later round is broken off.
		if err := c.keep(outcomes, round+1); err != nil {
			return err
		}
	}
	tell("")
	_, err = io.WriteString(w, c.table(outcomes, c.rounds))
	return err
}

// turns returns who is measured in a round, in this order.
func (c *comparison) turns(round int) []int {
	order := []int{sampled}
	if !c.skipAllNodes {
		order = append(order, allNodes)
	}
	switch {
	case c.against == "":
		return append(order, rollcall)
	case round%2 == 0:
		return append(order, rollcall, against)
	}
	return append(order, against, rollcall)
}

func (c *comparison) measure(ctx context.Context, s scenario, who int) (*throughput.Result, error) {
	run := one{Spec: s.Spec, Kube: contestants[who].kube, Percentage: contestants[who].percentage,
		Limit: s.limit(c.limit), Batch: 1000, Dir: c.dir}
	if who == against {
		return run.by(ctx, c.against)
	}
	return run.apart(ctx)
}

// choose returns the scenarios that are asked for, as they are asked for.
func (c *comparison) choose() ([]scenario, error) {
	if c.rounds < 1 {
		return nil, fmt.Errorf("--rounds is %d: want at least 1", c.rounds)
	}
	var out []scenario
	for _, key := range c.only {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.Key == key })
		if i < 0 {
			return nil, fmt.Errorf("--only: there is no scenario %q: see --help for those that there are", key)
		}
		s := scenarios[i]
		different := s.Shapes == s.Pods
		if c.nodes > 0 {
			s.Nodes = c.nodes
		}
		if c.pods > 0 {
			s.Pods = c.pods
		}
		if different {
			s.Shapes = s.Pods
		}
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// keep writes the files that are asked for.
func (c *comparison) keep(outcomes []outcome, rounds int) error {
	if c.facts != "" {
		data, err := json.MarshalIndent(outcomes, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.facts, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if c.chart != "" {
		if err := draw(c.chart,
			func(w io.Writer) error { return svgplot.WriteDots(w, dots(outcomes, rounds)) }); err != nil {
			return err
		}
	}
	if c.into == "" {
		return nil
	}
	return replace(c.into, "bench peer", c.table(outcomes, rounds))
}

// draw writes an SVG file.
func draw(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// replace puts text between <!-- name --> and <!-- end name --> of a file.
func replace(path, name, text string) error {
	before, after, err := around(path, name)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(before+text+after), 0o644)
}

// around returns the parts before and after the place for a text in a file, including the two comments.
func around(path, name string) (before, after string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	opening, closing := "<!-- "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(string(data), opening)
	_, after, found := strings.Cut(rest, closing)
	if !ok || !found {
		return "", "", fmt.Errorf("%s has no %q with a %q behind it, between which the table would stand", path,
			strings.TrimSpace(opening), closing)
	}
	return before + opening, closing + after, nil
}

// table is the result as Markdown.
func (c *comparison) table(outcomes []outcome, rounds int) string {
	var b strings.Builder
	if c.note != "" {
		fmt.Fprintf(&b, "%s\n\n", c.note)
	}
	fmt.Fprintf(&b, "%s, %d cores, %s: %s, in brackets the lowest and highest ratio of a round.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.GOMAXPROCS(0), runtime.Version(), medians(rounds))
	b.WriteString("| pods/s | kube-scheduler, its sample | kube-scheduler, all nodes | Rollcall, all nodes, durable " +
		"| × its sample | × all nodes |\n|---|--:|--:|--:|--:|--:|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", o.name, o.rate(sampled), o.rate(allNodes),
			o.rate(rollcall),
			times(o.ratio(sampled, podsPerSecond)), times(o.ratio(allNodes, podsPerSecond)))
	}
	fmt.Fprintf(&b, "\n\\* stopped after %s%s: pods/s of what was placed until then, which is the emptier half of the "+
		"work.\n\n", c.limit, longer(outcomes, c.limit))
	b.WriteString("What a second of one core places, which other work on the machine changes less:\n\n")
	b.WriteString("| pods per CPU second | kube-scheduler, its sample | kube-scheduler, all nodes | Rollcall | × its " +
		"sample | × all nodes |\n|---|--:|--:|--:|--:|--:|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", o.name, o.show(sampled, digits(o), podsPerCPU),
			o.show(allNodes, digits(o), podsPerCPU), o.show(rollcall, digits(o), podsPerCPU),
			times(o.ratio(sampled, podsPerCPU)), times(o.ratio(allNodes, podsPerCPU)))
	}
	b.WriteString(evictions(outcomes))
	b.WriteString("\nThe chosen nodes' mean score of 200 (LeastAllocated and balanced allocation, at the time of\n" +
		"the choice), of as many pods as all contestants placed, and the peak of memory in MiB:\n\n")
	b.WriteString("| | of the first | score: its sample | all nodes | Rollcall | memory: its sample | all nodes | " +
		"Rollcall |\n|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, o := range outcomes {
		pods, scores := o.reached()
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s | %s |\n", o.name, pods, score(scores[sampled]),
			score(scores[allNodes]), score(scores[rollcall]),
			o.show(sampled, "%.0f", peakMiB), o.show(allNodes, "%.0f", peakMiB), o.show(rollcall, "%.0f", peakMiB))
	}
	b.WriteString(devicesTwice(outcomes))
	b.WriteString(beside(outcomes))
	return b.String()
}

// beside is the table of Rollcall and the other program of it, "" if there was none.
func beside(outcomes []outcome) string {
	if !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.measured(against) }) {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nRollcall beside the other program. A ratio divides Rollcall's figure by the other's:\n\n" +
		"| | other, pods/s | Rollcall | × | other, pods per CPU second | Rollcall | × | other, MiB | Rollcall | × |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s ", o.name)
		for _, value := range []func(*throughput.Result) float64{podsPerSecond, podsPerCPU, peakMiB} {
			middle, lowest, highest := o.ratio(against, value)
			fmt.Fprintf(&b, "| %s | %s | %.3f (%.3f–%.3f) ", o.show(against, digits(o), value),
				o.show(rollcall, digits(o), value), middle, lowest, highest)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// devicesTwice reports the number of pods that kube-scheduler gave devices of other pods; "" if none.
func devicesTwice(outcomes []outcome) string {
	var b strings.Builder
	for _, o := range outcomes {
		for _, scheduler := range []int{sampled, allNodes} {
			name := map[int]string{sampled: "its sample", allNodes: "all nodes"}[scheduler]
			if n := o.of(scheduler, twiceGiven); n > 0 {
				fmt.Fprintf(&b, "\n%s, kube-scheduler, %s: %.0f pods got a device that another pod had.\n", o.name,
					name, n)
			}
		}
	}
	return b.String()
}

// evictions is the table of the evictions per second of one core, "" if there were none to make. For a run that was
// stopped it shows more than the number of placed pods: kube-scheduler makes all gangs evict before it tries the first
// one again.
func evictions(outcomes []outcome) string {
	var b strings.Builder
	for _, o := range outcomes {
		if o.of(rollcall, evictedPerCPU) == 0 {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| evictions per CPU second | kube-scheduler, its sample | kube-scheduler, all nodes | " +
				"Rollcall | × its sample | × all nodes |\n|---|--:|--:|--:|--:|--:|\n")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", o.name, o.show(sampled, "%.1f", evictedPerCPU),
			o.show(allNodes, "%.1f", evictedPerCPU), o.show(rollcall, "%.1f", evictedPerCPU),
			times(o.ratio(sampled, evictedPerCPU)), times(o.ratio(allNodes, evictedPerCPU)))
	}
	return b.String()
}

// digits is the number format for the contestants' rates: whole numbers, unless one of them is below one.
func digits(o outcome) string {
	for who := range contestants {
		if v := o.of(who, podsPerSecond); o.measured(who) && v > 0 && v < 1 {
			return "%.2f"
		}
	}
	return "%.0f"
}

// longer names the scenarios that had more time than the limit; "" if there are none.
func longer(outcomes []outcome, limit time.Duration) string {
	var b strings.Builder
	for _, o := range outcomes {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.Key == o.Scenario })
		if i >= 0 && scenarios[i].limit(limit) > limit {
			fmt.Fprintf(&b, " (%s: %s)", o.name, scenarios[i].limit(limit))
		}
	}
	return b.String()
}

// rate is a contestant's pods a second, with an asterisk if it was stopped.
func (o outcome) rate(who int) string {
	text := o.show(who, digits(o), podsPerSecond)
	if o.cut(who) {
		text += "\\*"
	}
	return text
}

func score(mean float64) string {
	if mean == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", mean)
}

func times(middle, lowest, highest float64) string {
	if middle == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f (%.1f–%.1f)", middle, lowest, highest)
}

// dots are the medians as a chart.
func dots(outcomes []outcome, rounds int) svgplot.Dots {
	out := svgplot.Dots{
		Title: "Pods scheduled per second",
		Subtitle: fmt.Sprintf(
			"5,000 nodes unless said, 10,000 pods of one GPU, %d cores; %s; each mark is ten times the one before",
			runtime.GOMAXPROCS(0), medians(rounds)),
		Axis: "pods/s, logarithmic",
	}
	ran := func(who int) bool {
		return slices.ContainsFunc(outcomes, func(o outcome) bool { return o.measured(who) })
	}
	drawn := contestants[:against] // the chart is of Rollcall and of others
	for who, c := range drawn {
		if ran(who) {
			out.Series = append(out.Series, c.Name)
		}
	}
	for _, o := range outcomes {
		g := svgplot.DotGroup{Name: o.name}
		for who := range drawn {
			if !ran(who) {
				continue
			}
			v := svgplot.Dot{Value: o.of(who, podsPerSecond)}
			v.Label = fmt.Sprintf("%.0f", v.Value)
			if who == rollcall {
				middle, _, _ := o.ratio(sampled, podsPerSecond)
				v.Label += fmt.Sprintf(" (× %.1f)", middle)
			}
			g.Values = append(g.Values, v)
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}

// tell says on a terminal what is being done.
func tell(format string, args ...any) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", fmt.Sprintf(format, args...))
	}
}
