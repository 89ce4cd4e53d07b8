package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// benchLogFacts is what "rollcall bench log" prints.
type benchLogFacts struct {
	Dir         string            `json:"dir"`
	RecordBytes int               `json:"recordBytes"`
	Rounds      int               `json:"rounds"`
	Batches     []benchBatchFacts `json:"batches"`
	Read        benchReadFacts    `json:"read"`
}

// benchBatchFacts compares, for one size of batch, the log with a file that the same records are appended to.
type benchBatchFacts struct {
	Entries int `json:"entries"`
	// Log and Raw are the medians of the rounds, in entries a second.
	Log float64 `json:"logEntriesPerSecond"`
	Raw float64 `json:"rawEntriesPerSecond"`
	// Ratio is the median of the rounds' ratios, Lowest and Highest are their bounds.
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowestRatio"`
	Highest float64 `json:"highestRatio"`
}

// benchReadFacts is how fast a log is read from the page cache, every check included.
type benchReadFacts struct {
	Entries          uint64  `json:"entries"`
	EntriesPerSecond float64 `json:"entriesPerSecond"`
}

func newBenchLog() *cobra.Command {
	var (
		out   output
		bench logBench
	)
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure how fast entries become durable, compared with the disk",
		Long: `Appends batches of entries of 300 bytes to a new log, and the same bytes to a plain file with a sync
after each batch: what the file system can do at best. The two take turns, so that what else the machine
does meets both. Then the log is read, from the page cache and with every check. All that is written is
removed at the end.`,
		Example: "  rollcall bench log --dir /var/lib/rollcall\n  rollcall bench log -o json | jq '.batches[].ratio'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if bench.rounds < 1 {
				return usageError{fmt.Errorf("--rounds is %d: want at least 1", bench.rounds)}
			}
			if bench.each <= 0 {
				return usageError{fmt.Errorf("--time is %s: want more than none", bench.each)}
			}
			facts, err := bench.run(cmd.Context())
			if err != nil {
				return err
			}
			return out.write(cmd.OutOrStdout(), facts, facts.writeText)
		},
	}
	cmd.Flags().StringVar(&bench.dir, "dir", ".", "a directory on the file system to measure")
	cmd.Flags().IntVar(&bench.rounds, "rounds", 7, "how often the log and the file take turns")
	cmd.Flags().DurationVar(&bench.each, "time", 300*time.Millisecond, "how long each of them appends in one round")
	out.register(cmd)
	return cmd
}

// benchRecord is the size of the records that are measured.
const benchRecord = 300

// benchSizes are the sizes of batches that are measured.
var benchSizes = []int{1, 10, 100, 1000}

// A logBench measures.
type logBench struct {
	dir    string
	rounds int
	each   time.Duration
	shown  *progress
}

func (b *logBench) run(ctx context.Context) (facts *benchLogFacts, err error) {
	work, err := os.MkdirTemp(b.dir, "rollcall-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench log: --dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b.shown = newProgress()
	defer b.shown.done()
	facts = &benchLogFacts{Dir: b.dir, RecordBytes: benchRecord, Rounds: b.rounds}
	for _, size := range benchSizes {
		batch, err := b.batch(ctx, filepath.Join(work, fmt.Sprint(size)), size)
		if err != nil {
			return nil, fmt.Errorf("bench log: batches of %d: %w", size, err)
		}
		facts.Batches = append(facts.Batches, batch)
	}
	facts.Read, err = b.read(ctx, filepath.Join(work, fmt.Sprint(benchSizes[len(benchSizes)-1])))
	return facts, err
}

// batch measures one size of batch, with its files in dir.
func (b *logBench) batch(ctx context.Context, dir string, size int) (facts benchBatchFacts, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return facts, err
	}
	log, err := boltlog.Create(filepath.Join(dir, "log"))
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	raw, err := os.OpenFile(filepath.Join(dir, "raw"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	logEnd, rawEnd := &appender{size: size}, &appender{size: size}
	var logs, raws, ratios []float64
	for round := range b.rounds {
		b.shown.show("batches of %d, round %d of %d", size, round+1, b.rounds)
		fast, err := b.rate(ctx, rawEnd, rawEnd.encode, func() error { return rawEnd.writeTo(raw) })
		if err != nil {
			return facts, err
		}
		ours, err := b.rate(ctx, logEnd, nil, func() error { return log.Append(ctx, logEnd.last, logEnd.entries) })
		if err != nil {
			return facts, err
		}
		logs, raws, ratios = append(logs, ours), append(raws, fast), append(ratios, ours/fast)
	}
	return benchBatchFacts{Entries: size, Log: median(logs), Raw: median(raws), Ratio: median(ratios),
		Lowest: slices.Min(ratios), Highest: slices.Max(ratios)}, nil
}

// rate lets a append for a while, and returns how many entries a second became durable. Making the entries, and
// prepare, are not counted.
func (b *logBench) rate(ctx context.Context, a *appender, prepare, write func() error) (float64, error) {
	var spent time.Duration
	n := 0
	for spent < b.each {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		a.fill()
		if prepare != nil {
			if err := prepare(); err != nil {
				return 0, err
			}
		}
		began := time.Now()
		if err := write(); err != nil {
			return 0, err
		}
		spent += time.Since(began)
		a.last += uint64(len(a.entries))
		n += len(a.entries)
	}
	return float64(n) / spent.Seconds(), nil
}

// An appender is how far one of the two has come.
type appender struct {
	size    int
	last    uint64
	prev    [32]byte
	entries []eventlog.Entry
	bytes   []byte
}

// fill makes the next batch: what the results of binding pods look like, each as long as benchRecord.
func (a *appender) fill() {
	a.entries = a.entries[:0]
	for i := range a.size {
		seq := a.last + 1 + uint64(i)
		e := eventlog.Entry{Seq: seq, Epoch: 1, Time: eventlog.Time(seq)}
		if seq == 1 {
			e.Payload = &eventlog.EpochStarted{ID: "bench", Version: version().Version, Format: eventlog.FormatVersion}
		} else {
			e.Payload = &eventlog.BindResult{UID: types.UID(fmt.Sprintf("%036d", seq)),
				Node:    fmt.Sprintf("node-%06d", seq%5000),
				Outcome: eventlog.BindBound, Message: benchMessage}
		}
		a.entries = append(a.entries, e)
	}
}

// encode makes the bytes of the batch.
func (a *appender) encode() (err error) {
	a.bytes = a.bytes[:0]
	for _, e := range a.entries {
		start := len(a.bytes)
		if a.bytes, err = eventlog.AppendRecord(a.bytes, e, a.prev); err != nil {
			return err
		}
		a.prev = eventlog.HashRecord(a.bytes[start:])
	}
	return nil
}

// writeTo appends the bytes to a file, and brings them to the disk.
func (a *appender) writeTo(f *os.File) error {
	if _, err := f.Write(a.bytes); err != nil {
		return err
	}
	return syncData(f)
}

// read measures how fast the log in dir is read, which was just written and so is in the page cache.
func (b *logBench) read(ctx context.Context, dir string) (facts benchReadFacts, err error) {
	b.shown.show("reading")
	log, err := boltlog.OpenReadOnly(filepath.Join(dir, "log"))
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	began := time.Now()
	for _, err := range log.Read(ctx, 1) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return facts, err
		}
		facts.Entries++
	}
	facts.EntriesPerSecond = float64(facts.Entries) / time.Since(began).Seconds()
	return facts, nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (f *benchLogFacts) writeText(w io.Writer) error {
	fmt.Fprintf(w, "entries a second that become durable, records of %d bytes, in %s; medians of %d rounds\n\n",
		f.RecordBytes, f.Dir, f.Rounds)
	fmt.Fprintf(w, "%8s %14s %20s %8s %16s\n", "batch", "log", "append+fdatasync", "ratio", "from to")
	for _, b := range f.Batches {
		fmt.Fprintf(w, "%8d %14.0f %20.0f %7.0f%% %15s\n", b.Entries, b.Log, b.Raw, 100*b.Ratio,
			fmt.Sprintf("%.0f%% %.0f%%", 100*b.Lowest, 100*b.Highest))
	}
	_, err := fmt.Fprintf(w, "\nread from the page cache, every check included: %d entries, %.0f a second\n",
		f.Read.Entries, f.Read.EntriesPerSecond)
	return err
}

// benchMessage makes the records benchRecord bytes long.
var benchMessage = strings.Repeat("m", benchRecord-benchBare)

// benchBare is the size of a record without a message: header and checksum, and the lengths and texts of its payload.
const benchBare = 59 + 4 + 1 + 36 + 1 + 11 + 1 + 2
