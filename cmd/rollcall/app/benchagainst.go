package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rollcall-sched/rollcall/bench/throughput"
)

// benchPair is "rollcall bench" with --against: this program and another one take turns.
type benchPair struct {
	other  string
	rounds int
}

func (p *benchPair) register(f *pflag.FlagSet) {
	f.StringVar(&p.other, "against", "", "measure this other rollcall program too, in turns with this one, and print "+
		"the ratios of this one's figures to the other's")
	f.IntVar(&p.rounds, "rounds", 5, "with --against: how often each program is measured")
}

// check reports flags that do not go with --against.
func (p *benchPair) check(cmd *cobra.Command) error {
	f := cmd.Flags()
	if p.other == "" {
		if f.Changed("rounds") {
			return usageError{errors.New("--rounds is for --against: give both")}
		}
		return nil
	}
	for _, name := range []string{"log", "cpuprofile", "memprofile"} {
		if f.Changed(name) {
			return usageError{fmt.Errorf("--%s is for one run, and --against makes several: leave one of them out",
				name)}
		}
	}
	if p.rounds < 1 {
		return usageError{fmt.Errorf("--rounds is %d: want at least 1", p.rounds)}
	}
	if _, err := exec.LookPath(p.other); err != nil {
		return usageError{fmt.Errorf("--against: %w", err)}
	}
	return nil
}

// run measures both programs in each round. The one that began a round is the second in the next round.
func (p *benchPair) run(cmd *cobra.Command, out *output, backlog bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"against", "rounds", "output"}, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	programs, runs := [2]string{self, p.other}, [2][]measuredRun{}
	progress := newProgress(cmd.ErrOrStderr())
	defer progress.done()
	for round := range p.rounds {
		for turn := range programs {
			who := (round + turn) % 2
			progress.show("round %d of %d: %s", round+1, p.rounds, programs[who])
			r, err := measureApart(cmd.Context(), programs[who], args, backlog)
			if err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			runs[who] = append(runs[who], r)
		}
	}
	progress.done()
	if err := checkPairs(runs[0], runs[1]); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	facts := compareRuns(runs[0], runs[1])
	facts.Program, facts.Other = self, p.other
	return out.write(cmd.OutOrStdout(), facts, facts.writeText)
}

// A measuredRun is one run's workload and its figures, in the order in which they are printed.
type measuredRun struct {
	workload string
	figures  []runFigure
}

type runFigure struct {
	name  string
	value float64
}

func measureApart(ctx context.Context, program string, args []string, backlog bool) (measuredRun, error) {
	if backlog {
		var r throughput.BacklogResult
		err := throughput.Apart(ctx, program, args, &r)
		return measuredRun{r.Text + ", " + r.Policy, backlogFigures(&r)}, err
	}
	var r throughput.Result
	err := throughput.Apart(ctx, program, args, &r)
	return measuredRun{r.Text, coreFigures(&r)}, err
}

func coreFigures(r *throughput.Result) []runFigure {
	figures := []runFigure{
		{"pods/s", r.PodsPerSecond},
		{"pods per CPU second", float64(r.Placed) / cmp.Or(r.CPUSeconds, 1)},
		{"latency p50, ms", 1000 * r.LatencyP50},
		{"latency p99, ms", 1000 * r.LatencyP99},
	}
	if r.IdlePods > 0 {
		figures = append(figures, runFigure{"when idle p50, ms", 1000 * r.IdleP50},
			runFigure{"when idle p99, ms", 1000 * r.IdleP99})
	}
	return append(figures,
		runFigure{"decisions", float64(r.Decisions)},
		runFigure{"bytes of the log a pod", r.BytesPerPod},
		runFigure{"peak memory, MiB", float64(r.PeakRSS) / (1 << 20)},
		runFigure{"mean score", r.MeanScore})
}

func backlogFigures(r *throughput.BacklogResult) []runFigure {
	return []runFigure{
		{"CPU s to queue the gangs", r.FirstSeconds},
		{"CPU ms of an event", 1000 * r.PerEvent},
		{"decisions", float64(r.Decisions)},
		{"peak memory, MiB", float64(r.PeakRSS) / (1 << 20)},
	}
}

// pairFacts holds the facts that "rollcall bench --against" prints.
type pairFacts struct {
	Text    string       `json:"workload"`
	Program string       `json:"program"`
	Other   string       `json:"otherProgram"`
	Rounds  int          `json:"rounds"`
	Cores   int          `json:"cores"`
	Figures []pairFigure `json:"figures"`
}

// A pairFigure is one figure of both programs: medians over the rounds. A ratio divides this program's figure by the
// other's in the same round: the median, the lowest and the highest.
type pairFigure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Other   float64 `json:"other"`
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowestRatio"`
	Highest float64 `json:"highestRatio"`
}

// checkPairs returns an error if the runs are not of one workload, or have not the same figures.
func checkPairs(runs, others []measuredRun) error {
	names := func(r measuredRun) (all []string) {
		for _, f := range r.figures {
			all = append(all, f.name)
		}
		return all
	}
	for _, r := range slices.Concat(runs, others) {
		if r.workload != runs[0].workload {
			return fmt.Errorf("the programs measure different workloads: %q and %q", runs[0].workload, r.workload)
		}
		if !slices.Equal(names(r), names(runs[0])) {
			return fmt.Errorf("a run was not complete and lacks figures: give it more time with --limit")
		}
	}
	return nil
}

// compareRuns compares the runs of as many rounds, at least one, that checkPairs accepts.
func compareRuns(runs, others []measuredRun) *pairFacts {
	facts := &pairFacts{Text: runs[0].workload, Rounds: len(runs), Cores: runtime.GOMAXPROCS(0)}
	for i, figure := range runs[0].figures {
		var values, other []float64
		for round := range runs {
			values = append(values, runs[round].figures[i].value)
			other = append(other, others[round].figures[i].value)
		}
		f := pairFigure{Name: figure.name, Value: throughput.Median(values), Other: throughput.Median(other)}
		f.Ratio, f.Lowest, f.Highest = throughput.Ratio(values, other)
		facts.Figures = append(facts.Figures, f)
	}
	return facts
}

func (f *pairFacts) writeText(w io.Writer) error {
	rounds := fmt.Sprintf("%d rounds", f.Rounds)
	if f.Rounds == 1 {
		rounds = "1 round"
	}
	plainf(w, "workload  %s; %s on %d cores\nthis      %s\nother     %s\n\n", f.Text, rounds, f.Cores, f.Program,
		f.Other)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "medians\tthis\tother\tratio\tlowest\thighest\t")
	for _, figure := range f.Figures {
		plainf(t, "%s\t%s\t%s\t%.3f\t%.3f\t%.3f\t\n", figure.Name, fourDigits(figure.Value),
			fourDigits(figure.Other), figure.Ratio, figure.Lowest, figure.Highest)
	}
	return t.Flush()
}

// fourDigits prints whole numbers from 1,000, and four digits of smaller values.
func fourDigits(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}
