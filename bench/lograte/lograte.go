// Package lograte measures how fast entries become durable in a log. It compares the log with the fastest way to keep
// the same bytes in the same place. On a file system that is a plain file with a sync after each batch, and in NATS
// JetStream a stream of plain messages. The two take turns, so that other load on the machine slows both. Then it
// measures how fast the log can be read, from the page cache or from the servers, with every check.
//
// It owns the appended entries, the clock and the medians. It schedules nothing: bench/throughput does that.
//
// Start reading at Run.
package lograte

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Result is the outcome of a measurement.
type Result struct {
	// Place is the directory, or the log's name without its secrets. RawIs names the thing that the log is compared
	// with.
	Place string `json:"dir"`
	RawIs string `json:"rawIs"`
	// RecordBytes is the size of each entry's record.
	RecordBytes int `json:"recordBytes"`
	Rounds      int `json:"rounds"`
	// Batches are the sizes that were measured, from the smallest to the largest.
	Batches []Batch `json:"batches"`
	Read    Read    `json:"read"`
}

// A Batch compares the log, for one size of batch, with a file or a stream that gets the same records.
type Batch struct {
	Entries int `json:"entries"`
	// Log and Raw are the medians of the rounds, in entries a second.
	Log float64 `json:"logEntriesPerSecond"`
	Raw float64 `json:"rawEntriesPerSecond"`
	// Ratio is the median of the rounds' ratios, Lowest and Highest are their bounds.
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowestRatio"`
	Highest float64 `json:"highestRatio"`
}

// Read tells how fast a log can be read that was just written, every check included.
type Read struct {
	Entries          uint64  `json:"entries"`
	EntriesPerSecond float64 `json:"entriesPerSecond"`
}

// recordBytes is the size of the records that are measured.
const recordBytes = 300

// sizes are the sizes of batches that are measured.
var sizes = []int{1, 10, 100, 1000, 4096}

// Options say what is measured.
type Options struct {
	// Dir is a directory on the file system to measure. A directory is made in it, and removed at the end.
	Dir string
	// Log is the name of a log in NATS JetStream to measure instead. Run makes streams whose names begin with its
	// stream's, and removes them at the end.
	Log string
	// Rounds is the number of turns of the log and the file, from 1.
	Rounds int
	// Each is the time for which each of them appends in one round, above 0.
	Each time.Duration
	// Version is the program's version, for the log.
	Version string
	// Progress, if not nil, gets the step that Run is at now and then.
	Progress func(doing string)
}

func (o *Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Run measures. Its errors come from the file system or from the servers.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	where, err := o.place()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, where.remove()) }()
	r = &Result{Place: where.shown(), RawIs: where.raw(), RecordBytes: recordBytes, Rounds: o.Rounds}
	for _, size := range sizes {
		batch, err := o.batch(ctx, where, size)
		if err != nil {
			return nil, fmt.Errorf("batches of %d: %w", size, err)
		}
		r.Batches = append(r.Batches, batch)
	}
	r.Read, err = o.read(ctx, where, sizes[len(sizes)-1])
	return r, err
}

// batch measures one size of batch.
func (o *Options) batch(ctx context.Context, where place, size int) (facts Batch, err error) {
	log, raw, err := where.begin(ctx, size)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, log.Close(), raw.Close()) }()
	logEnd, rawEnd := &appender{size: size, version: o.Version}, &appender{size: size, version: o.Version}
	var logs, raws, ratios []float64
	for round := range o.Rounds {
		o.progress("batches of %d, round %d of %d", size, round+1, o.Rounds)
		fast, err := o.rate(ctx, rawEnd, rawEnd.encode, func() error { return raw.write(ctx, rawEnd.bytes) })
		if err != nil {
			return facts, err
		}
		ours, err := o.rate(ctx, logEnd, nil, func() error { return log.Append(ctx, logEnd.last, logEnd.entries) })
		if err != nil {
			return facts, err
		}
		logs, raws, ratios = append(logs, ours), append(raws, fast), append(ratios, ours/fast)
	}
	return Batch{Entries: size, Log: median(logs), Raw: median(raws), Ratio: median(ratios),
		Lowest: slices.Min(ratios), Highest: slices.Max(ratios)}, nil
}

// rate appends with a for a while, and returns the number of entries that became durable per second. The time for
// making the entries, and for prepare, does not count.
func (o *Options) rate(ctx context.Context, a *appender, prepare, write func() error) (float64, error) {
	var spent time.Duration
	n := 0
	for spent < o.Each {
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

// An appender counts the entries and bytes of one of the two.
type appender struct {
	size    int
	version string
	last    uint64
	prev    [32]byte
	entries []eventlog.Entry
	bytes   []byte
}

// fill makes the next batch: entries like the results of binding pods, each recordBytes long.
func (a *appender) fill() {
	a.entries = a.entries[:0]
	for i := range a.size {
		seq := a.last + 1 + uint64(i)
		e := eventlog.Entry{Seq: seq, Epoch: 1, Time: eventlog.Time(seq)}
		if seq == 1 {
			e.Payload = &eventlog.EpochStarted{ID: "bench", Version: a.version, Format: eventlog.FormatVersion}
		} else {
			e.Payload = &eventlog.BindResult{UID: types.UID(fmt.Sprintf("%036d", seq)),
				Node:    fmt.Sprintf("node-%06d", seq%5000),
				Outcome: eventlog.BindBound, Message: message}
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

// read measures how fast the log of a size can be read, which was just written.
func (o *Options) read(ctx context.Context, where place, size int) (facts Read, err error) {
	o.progress("reading")
	log, err := where.reopen(ctx, size)
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

// WriteText writes the result for people.
func (r *Result) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "entries a second that become durable, records of %d bytes, in %s; medians of %d rounds\n\n",
		r.RecordBytes, r.Place, r.Rounds)
	fmt.Fprintf(w, "%8s %14s %20s %8s %16s\n", "batch", "log", r.RawIs, "ratio", "from to")
	for _, b := range r.Batches {
		fmt.Fprintf(w, "%8d %14.0f %20.0f %7.0f%% %15s\n", b.Entries, b.Log, b.Raw, 100*b.Ratio,
			fmt.Sprintf("%.0f%% %.0f%%", 100*b.Lowest, 100*b.Highest))
	}
	_, err := fmt.Fprintf(w, "\nread again at once, every check included: %d entries, %.0f a second\n",
		r.Read.Entries, r.Read.EntriesPerSecond)
	return err
}

// message makes the records recordBytes bytes long.
var message = strings.Repeat("m", recordBytes-bareBytes)

// bareBytes is the size of a record without a message: header and checksum, and the lengths and texts of its payload.
const bareBytes = 59 + 4 + 1 + 36 + 1 + 11 + 1 + 2
