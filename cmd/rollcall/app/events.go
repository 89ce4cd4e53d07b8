package app

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/headroom"
	"github.com/rollcall-sched/rollcall/internal/termwidth"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/history"
)

const eventsHelp = `Prints one line for each event of a log, in order: nodes that joined, were lost,
cordoned or tainted; gangs and pods that were complete, waited, were placed,
preempted, lost with a node, evicted, or ended; reservations, and epochs.

An event of a gang that waits has the reason code of "rollcall explain". Equal
failures are one event, with their number: another line comes when the code
changes. A cause comes before its effects. Times are UTC.

--gang, --pod, --node and --namespace select events about that name. With --gang
or --pod, of a log with an index only the entries are read that the name needs.
--from and --until limit the range, --at is one moment: the events of the entry,
or the last ones up to the time. --follow prints new events of a log that grows,
until it is interrupted; without --from it begins at the log's end.

-o json prints one JSON object a line, -o csv one row for each event.`

// eventList is "rollcall events".
type eventList struct {
	reading
	from, until, at history.Moment
	kinds           []string
	filter          events.Filter
	follow          bool
	format          string
}

// eventFormats are the values of -o.
var eventFormats = []string{"text", "json", "csv"}

func newEvents(registry framework.Registry) *cobra.Command {
	l := eventList{reading: reading{registry: registry}}
	cmd := &cobra.Command{
		Use:   "events LOG|BUNDLE|DUMP",
		Short: "Print what happened: one line for each event of a log",
		Long:  eventsHelp,
		Example: `  rollcall events jobs.db --from 13:25 --until 13:40
  rollcall events jobs.db --gang ml/train
  rollcall events jobs.db --kind Preempted,Lost -o csv
  rollcall events jobs.db --node gpu-07 --from -6h
  rollcall events /var/lib/rollcall --follow`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Var(&l.from, "from", "the first `entry`, a time such as 2026-01-03T14:03:00Z or 14:03, or -5m for five minutes "+
		"before the log's end; default: the first there is")
	f.Var(&l.until, "until", "the last `entry`, or a time; default: the log's last")
	f.Var(&l.at, "at", "one moment: an `entry`, or a time")
	f.StringSliceVar(&l.kinds, "kind", nil, "events of these `KIND`s only, with commas between them: "+kindNames())
	f.StringVar(&l.filter.Namespace, "namespace", "", "events about this namespace only")
	f.StringVar(&l.filter.Gang, "gang", "", "events about this gang only: `NAMESPACE/NAME`")
	f.StringVar(&l.filter.Pod, "pod", "", "events about this pod only: `NAMESPACE/NAME`")
	f.StringVar(&l.filter.Node, "node", "", "events about this node only, and of the pods there")
	f.BoolVar(&l.follow, "follow", false, "print new events, until the command is interrupted")
	l.format = "text"
	f.VarP(enumValue{&l.format, eventFormats}, "output", "o", "how to print: text, json, csv")
	_ = cmd.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(eventFormats, cobra.ShellCompDirectiveNoFileComp))
	l.reading.register(cmd)
	return cmd
}

func kindNames() string {
	var names []string
	for _, k := range events.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// check reads the flags.
func (l *eventList) check() (err error) {
	if !slices.Contains(eventFormats, l.format) {
		return usageError{fmt.Errorf("--output is %q: want one of %q", l.format, eventFormats)}
	}
	for _, name := range l.kinds {
		kind, err := events.ParseKind(name)
		if err != nil {
			return usageError{fmt.Errorf("--kind: %w", err)}
		}
		l.filter.Kinds = append(l.filter.Kinds, kind)
	}
	for _, name := range []*string{&l.filter.Gang, &l.filter.Pod} {
		if *name != "" {
			namespace, own, err := parseTarget(*name)
			if err != nil {
				return err
			}
			*name = namespace + "/" + own
		}
	}
	switch {
	case l.at.Given() && (l.from.Given() || l.until.Given()):
		return usageError{errors.New("--at is one moment, and --from and --until are a range: give one of the two")}
	case l.follow && (l.at.Given() || l.until.Given()):
		return usageError{errors.New("--follow has no end: leave out --until and --at")}
	}
	return nil
}

func (l *eventList) run(cmd *cobra.Command, name string) error {
	if err := l.check(); err != nil {
		return err
	}
	// States are made that live as long as the answer takes, as in an explanation.
	defer headroom.Spend(explainGCPercent, explainMemory)()
	log, err := l.open(cmd, name)
	if err != nil {
		return err
	}
	defer log.Close()
	if l.follow && log.IsBundle() {
		return usageError{fmt.Errorf("--follow: %s is a bundle, and bundles do not grow", name)}
	}
	past := history.New(log.Source, history.Options{
		Progress: func(seq uint64) { log.shown.show("entry %d", seq) },
	})
	first, last, err := l.entries(cmd.Context(), log, past)
	if err != nil {
		return err
	}
	printer := newEventPrinter(cmd.OutOrStdout(), l.format)
	reading := events.NewReading(events.NewList(l.filter, func(e *events.Event) error {
		log.shown.done()
		return printer.print(e)
	}))
	err = reading.Range(cmd.Context(), past, first, last)
	log.shown.done()
	if err := errors.Join(err, printer.flush()); err != nil {
		return err
	}
	if l.follow {
		return l.followFrom(cmd, name, reading, printer)
	}
	if printer.printed == 0 {
		if err := l.isKnown(cmd.Context(), past, last); err != nil {
			return err
		}
		log.shown.note(fmt.Sprintf("the entries %d to %d have no such event", first, last))
	}
	return nil
}

// isKnown returns an error if a name that is asked for does not exist up to an entry.
func (l *eventList) isKnown(ctx context.Context, past *history.Log, last uint64) (err error) {
	opts := explain.Options{AtSeq: last}
	if namespace, name, ok := strings.Cut(l.filter.Gang, "/"); ok {
		_, err = explain.Group(ctx, past, namespace, name, opts)
	}
	if namespace, name, ok := strings.Cut(l.filter.Pod, "/"); ok && err == nil {
		_, err = explain.Pod(ctx, past, namespace, name, opts)
	}
	if l.filter.Node != "" && err == nil {
		_, err = explain.Node(ctx, past, l.filter.Node, opts)
	}
	if unknown := (*explain.NotFoundError)(nil); errors.As(err, &unknown) {
		return err
	}
	return nil // the events were read, and there are none
}

// entries returns the range of entries that is asked for.
func (l *eventList) entries(ctx context.Context, log *source, past *history.Log) (first, last uint64, err error) {
	known, err := past.Extent(ctx)
	if err != nil {
		return 0, 0, err
	}
	first, last = max(1, known.First, known.KnownFrom()), known.Last
	begin, end := &l.from, &l.until
	if l.at.Given() {
		begin, end = &l.at, &l.at
	}
	if begin != end {
		begin.Begins(end)
	}
	if end.Given() {
		if last, err = lastUntil(ctx, log, past, end); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case begin.Given():
		from, at, err := begin.In(ctx, log.Source)
		if err == nil && at != 0 && l.at.Given() {
			at, err = timeOf(ctx, past, last)
		}
		if err == nil && at != 0 {
			from, err = past.FirstSince(ctx, at)
		} else if err == nil {
			err = log.MustHave(from)
		}
		if err != nil {
			return 0, 0, err
		}
		first = max(first, from)
	case l.follow:
		first = last + 1
	case known.KnownFrom() > 0:
		log.ReportFirst()
	}
	if first > last && !l.follow {
		return 0, 0, usageError{fmt.Errorf(
			"there is no entry in that range: it would begin with entry %d and end with entry %d", first, last)}
	}
	return first, last, nil
}

// lastUntil returns the last entry up to a moment.
func lastUntil(ctx context.Context, log *source, past *history.Log, m *history.Moment) (uint64, error) {
	seq, at, err := m.In(ctx, log.Source)
	switch {
	case err != nil:
		return 0, err
	case at == 0:
		return seq, log.MustHave(seq)
	}
	seq, err = past.FirstSince(ctx, at+1)
	return seq - 1, err
}

// timeOf returns the time of an entry, 0 for an entry before the first one.
func timeOf(ctx context.Context, past *history.Log, seq uint64) (eventlog.Time, error) {
	for e, err := range past.Entries(ctx, history.Query{From: seq, To: history.Bound{Seq: seq}}) {
		return e.Time, err
	}
	return 0, nil
}

// followEvery is the time between two looks at a log that grows.
const followEvery = time.Second

// followFrom prints new events until the command is interrupted. It opens the log again for each look.
func (l *eventList) followFrom(
	cmd *cobra.Command, name string, reading *events.Reading, printer *eventPrinter,
) error {
	ctx := cmd.Context()
	opts := logs.Options{Archives: l.archives, Registry: l.registry}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
		err := followOnce(ctx, opts, name, reading)
		if ctx.Err() != nil {
			err = nil
		}
		if err := errors.Join(err, printer.flush()); err != nil {
			return err
		}
	}
}

// followOnce reads the entries that have come.
func followOnce(ctx context.Context, opts logs.Options, name string, reading *events.Reading) error {
	log, err := opts.Open(ctx, name)
	if err != nil {
		return err
	}
	defer log.Close()
	last, err := log.Last()
	if err != nil {
		return err
	}
	return reading.Follow(ctx, history.New(log, history.Options{}), last)
}

// eventPrinter prints events in one of the formats.
type eventPrinter struct {
	printed int
	format  string
	json    *json.Encoder
	csv     *csv.Writer
	text    *termwidth.Writer
	day     string
}

func newEventPrinter(w io.Writer, format string) *eventPrinter {
	return &eventPrinter{format: format, json: json.NewEncoder(w), csv: csv.NewWriter(w), text: termwidth.NewWriter(w)}
}

func (p *eventPrinter) print(e *events.Event) error {
	p.printed++
	switch p.format {
	case "json":
		return p.json.Encode(e)
	case "csv":
		if p.printed == 1 {
			if err := p.csv.Write(eventColumns); err != nil {
				return err
			}
		}
		return p.csv.Write(eventRow(e))
	}
	at := eventlog.Time(e.Time)
	if day := at.Std().Format(time.DateOnly); day != p.day {
		p.day = day
		if _, err := plainf(p.text, "%s, UTC\n", day); err != nil {
			return err
		}
	}
	_, err := plainf(p.text, "%s  %s\n", events.Clock(at), e.Message)
	return err
}

// flush writes what is held back.
func (p *eventPrinter) flush() error {
	p.csv.Flush()
	return errors.Join(p.csv.Error(), p.text.Flush())
}

// eventColumns are the columns of CSV.
var eventColumns = []string{"entry", "time", "last_entry", "last_time", "kind", "count", "namespace", "gang", "pod",
	"node", "pods", "nodes", "code", "by", "waited_seconds", "cause_entry", "cause_kind", "message"}

// eventRow returns an event as a row of CSV, with escaped names: a row is one line.
func eventRow(e *events.Event) []string {
	number := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	var lastEntry, lastTime, by, waited, causeEntry, causeKind string
	if e.Last != nil {
		lastEntry, lastTime = number(e.Last.Seq), e.Last.Time.String()
	}
	if e.By != nil {
		if by = "gang " + e.By.Group; e.By.Group == "" {
			by = "pod " + e.By.Pod
		}
	}
	if e.WaitedSeconds != nil {
		waited = strconv.FormatFloat(*e.WaitedSeconds, 'f', -1, 64)
	}
	if e.Cause != nil {
		causeEntry, causeKind = number(e.Cause.Seq), string(e.Cause.Kind)
	}
	row := []string{number(e.Seq), e.Time.String(), lastEntry, lastTime, string(e.Kind), strconv.Itoa(e.Count),
		e.Namespace, e.Gang, e.Pod, e.Node, number(uint64(e.Pods)), number(uint64(e.NumNodes)), string(e.Code), by,
		waited, causeEntry, causeKind, e.Message}
	for i := range row {
		row[i] = eventlog.Plain(row[i])
	}
	return row
}
