package app

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// diffFormats are the values of -o.
var diffFormats = []string{"text", "json", "csv"}

// withRollcall is the value of --with.
const withRollcall = "rollcall"

// checkFormat refuses values of -o that are not known, or need --with.
func (d *diff) checkFormat() error {
	switch {
	case !slices.Contains(diffFormats, d.out.format):
		return usageError{fmt.Errorf("--output is %q: want one of %q", d.out.format, diffFormats)}
	case d.with != "" && d.with != withRollcall:
		return usageError{fmt.Errorf("--with is %q: want %q", d.with, withRollcall)}
	case d.with == "" && d.out.format == "csv":
		return usageError{errors.New("-o csv is for --with rollcall: two logs have no list of binds")}
	case d.with == "" && d.config != "":
		return usageError{errors.New("--config is for --with rollcall: two logs have their own configurations")}
	case d.show < 0:
		return usageError{errors.New("--show is negative: want 0 or more")}
	}
	return nil
}

// runWith is "rollcall diff LOG --with rollcall".
func (d *diff) runWith(cmd *cobra.Command, name string) error {
	defer headroom.Spend(explainGCPercent, explainMemory)()
	d.says = true
	log, err := d.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := placeIn(cmd.Context(), log.Source, d.from)
	if err != nil {
		return err
	}
	until, err := placeIn(cmd.Context(), log.Source, d.until)
	if err != nil {
		return err
	}
	first, last, err := bundles.Range(cmd.Context(), log.Source, from, until)
	if err != nil {
		return err
	}
	if err := log.ReportRange(cmd.Context(), &d.from, &d.until, first, last); err != nil {
		return err
	}
	sum, err := d.compareBinds(cmd, log, first, last)
	if err != nil {
		return err
	}
	if d.exitCode && sum.Same != sum.Binds {
		return errDiffers
	}
	return nil
}

// bindsOutput writes choices as they come, and the counts at the end.
type bindsOutput struct {
	write func(*answer.Choice) error
	end   func(*choices.Summary) error
}

func (d *diff) compareBinds(cmd *cobra.Command, log *source, first, last uint64) (*choices.Summary, error) {
	past := log.past(history.Options{
		Progress:  func(seq uint64) { log.shown.show("entry %d of %d", seq, last) },
		Undecided: log.undecided(),
	})
	m, err := past.At(cmd.Context(), first)
	if err != nil {
		return nil, err
	}
	sentence := past.Undecided(m)
	buffered := bufio.NewWriter(cmd.OutOrStdout())
	var out bindsOutput
	switch d.out.format {
	case "csv":
		out, err = bindsCSV(buffered)
	case "json":
		out, err = bindsJSON(buffered, sentence)
	default:
		out = d.bindsText(cmd.OutOrStdout(), sentence)
	}
	if err != nil {
		return nil, err
	}
	opts := choices.Options{Trials: true}
	if log.Dumped != nil {
		opts.By = func(uid types.UID) string {
			p, _ := log.Dumped.Placing(uid)
			return p.By
		}
	}
	sum, err := choices.Compare(cmd.Context(), past, first, last, opts, func(x *answer.Choice) error {
		x.Configuration = d.config
		for _, n := range []*answer.NodeScore{x.Chosen, x.Ours} {
			if n != nil {
				n.Plugins = nil // explain has them
			}
		}
		return out.write(x)
	})
	log.shown.done()
	if err != nil {
		return nil, errors.Join(err, buffered.Flush())
	}
	return sum, errors.Join(out.end(sum), buffered.Flush())
}

func bindsCSV(w io.Writer) (bindsOutput, error) {
	rows, err := choices.NewCSV(w)
	return bindsOutput{rows.Write, func(*choices.Summary) error { return rows.Flush() }}, err
}

// bindsJSON writes one object. Each choice is a line of it.
func bindsJSON(w io.Writer, sentence string) (bindsOutput, error) {
	first := "{\n"
	if sentence != "" {
		b, err := json.Marshal(sentence)
		if err != nil {
			return bindsOutput{}, err
		}
		first += fmt.Sprintf("\"undecided\": %s,\n", b)
	}
	_, err := io.WriteString(w, first+"\"binds\": [")
	before := "\n"
	line := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return bindsOutput{
		write: func(x *answer.Choice) error {
			if _, err := io.WriteString(w, before); err != nil {
				return err
			}
			before = ",\n"
			return line(x)
		},
		end: func(s *choices.Summary) error {
			if _, err := io.WriteString(w, "\n],\n\"summary\": "); err != nil {
				return err
			}
			err := line(s)
			_, end := io.WriteString(w, "\n}\n")
			return cmp.Or(err, end)
		},
	}, err
}

// bindsText writes counts, and the first choices that differ.
func (d *diff) bindsText(w io.Writer, sentence string) bindsOutput {
	examples := choices.NewExamples(d.show)
	return bindsOutput{
		write: func(x *answer.Choice) error {
			examples.Add(x)
			return nil
		},
		end: func(s *choices.Summary) error {
			return termwidth.Fit(w, func(w io.Writer) error {
				if err := s.WriteText(w, examples); err != nil || sentence == "" {
					return err
				}
				_, err := plainf(w, "\n%s\n", sentence)
				return err
			})
		},
	}
}
