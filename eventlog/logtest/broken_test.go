package logtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// A broken log is a memory log with one fault. It does everything else as the memory log does.
type broken struct {
	eventlog.Log
	read     func(ctx context.Context, from uint64) context.Context
	append   func(ctx context.Context, log *broken, last uint64, entries []eventlog.Entry) error
	follow   func(ctx context.Context, log *broken, from uint64) iter.Seq2[eventlog.Record, error]
	record   func(eventlog.Record) eventlog.Record
	hash     func(seq uint64, hash [32]byte) [32]byte
	tree     func(merkle.Tree) merkle.Tree
	first    func(uint64) uint64
	reopen   func(log eventlog.Log, found eventlog.Reopened) (eventlog.Log, eventlog.Reopened)
	limit    func(eventlog.Limit) eventlog.Limit
	appended int
}

func (b *broken) Append(ctx context.Context, last uint64, entries []eventlog.Entry) error {
	b.appended++
	if b.append != nil {
		return b.append(ctx, b, last, entries)
	}
	return b.Log.Append(ctx, last, entries)
}

func (b *broken) Follow(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	if b.follow != nil {
		return b.follow(ctx, b, from)
	}
	return b.Log.Follow(ctx, from)
}

func (b *broken) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	if b.read != nil {
		ctx = b.read(ctx, from)
	}
	return b.Log.Read(ctx, from)
}

func (b *broken) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range b.Log.Records(ctx, from) {
			if err == nil && b.record != nil {
				r = b.record(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (b *broken) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	hash, err := b.Log.RecordHash(ctx, seq)
	if err == nil && b.hash != nil {
		hash = b.hash(seq, hash)
	}
	return hash, err
}

func (b *broken) KnownTree(ctx context.Context, size uint64) (merkle.Tree, error) {
	tree, err := b.Log.KnownTree(ctx, size)
	if err == nil && b.tree != nil {
		tree = b.tree(tree)
	}
	return tree, err
}

func (b *broken) First() uint64 {
	if b.first != nil {
		return b.first(b.Log.First())
	}
	return b.Log.First()
}

func (b *broken) Limit() eventlog.Limit {
	if b.limit != nil {
		return b.limit(b.Log.Limit())
	}
	return b.Log.Limit()
}

func (b *broken) Reopen(ctx context.Context) (eventlog.Log, eventlog.Reopened, error) {
	log, found, err := b.Log.Reopen(ctx)
	if err != nil {
		return nil, found, err
	}
	if b.reopen != nil {
		log, found = b.reopen(log, found)
	}
	again := *b
	again.Log = log
	return &again, found, nil
}

// changed yields the records after change.
func changed(
	records iter.Seq2[eventlog.Record, error], change func(r eventlog.Record, err error) []eventlog.Record,
) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range records {
			for _, r := range change(r, err) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// brokenLogs are faults, each with the check that must find it.
var brokenLogs = map[string]struct {
	check string
	fault broken
}{
	"it appends with a context that has ended": {"AppendWithAContextThatHasEndedAddsNothing", broken{
		append: func(_ context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			return b.Log.Append(context.Background(), last, entries)
		}}},
	"an append with a context that has ended is of unknown outcome": {
		"AppendWithAContextThatHasEndedAddsNothing",
		broken{
			append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
				if ctx.Err() != nil {
					b.Log.Append(context.Background(), last, entries)
				}
				return b.Log.Append(ctx, last, entries)
			}},
	},
	"it reads on when the context has ended": {"ReadEndsWithItsContext", broken{
		read: func(context.Context, uint64) context.Context { return context.Background() }}},
	"it appends more than its limit": {"MoreThanTheLimitIsRefused", broken{
		limit: func(l eventlog.Limit) eventlog.Limit { l.Entries /= 2; return l }}},
	"its limit is none": {"MoreThanTheLimitIsRefused", broken{
		limit: func(eventlog.Limit) eventlog.Limit { return eventlog.Limit{} }}},
	"another writer is a conflict": {"AWriterThatIsSupersededStopsForGood", broken{
		append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			err := b.Log.Append(ctx, last, entries)
			var superseded *eventlog.SupersededError
			if errors.As(err, &superseded) {
				return &eventlog.ConflictError{Expected: superseded.Expected, Actual: superseded.Actual}
			}
			return err
		}}},
	"a superseded writer goes on": {"AWriterThatIsSupersededStopsForGood", broken{
		append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			err := b.Log.Append(ctx, last, entries)
			if errors.As(err, new(*eventlog.SupersededError)) {
				b.Log = takeOver(b.Log)
			}
			return err
		}}},
	"a record has another hash": {"RecordsAreAChainAndATree", broken{
		record: func(r eventlog.Record) eventlog.Record { r.Hash[0]++; return r }}},
	"the hash of a record is another": {"RecordsAreAChainAndATree", broken{
		hash: func(seq uint64, hash [32]byte) [32]byte { hash[31] += byte(min(seq, 1)); return hash }}},
	"there is a tree over other entries": {"RecordsAreAChainAndATree", broken{
		tree: func(merkle.Tree) merkle.Tree {
			var tree merkle.Tree
			tree.Add([32]byte{})
			return tree
		}}},
	"a log behind another begins with entry 1": {"ALogMayBeginBehindAnother", broken{
		first: func(uint64) uint64 { return 1 }}},
	"a log behind another has no tree": {"ALogMayBeginBehindAnother", broken{
		tree: func(merkle.Tree) merkle.Tree { return merkle.Tree{} }}},
	"a log that is read is appended to": {"ALogThatIsReadIsNotAppendedTo", broken{
		append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			err := b.Log.Append(ctx, last, entries)
			if errors.Is(err, eventlog.ErrReadOnly) {
				b.Log = takeOver(b.Log)
				return b.Log.Append(ctx, last, entries)
			}
			return err
		}}},
	"reopened, it says that entries have come": {"ReopenedLogGoesOn", broken{
		reopen: func(log eventlog.Log, found eventlog.Reopened) (eventlog.Log, eventlog.Reopened) {
			found.Last++
			return log, found
		}}},
	"reopened, it is empty": {"ReopenedLogGoesOn", broken{
		reopen: func(_ eventlog.Log, found eventlog.Reopened) (eventlog.Log, eventlog.Reopened) {
			return eventlog.NewMemory(), found
		}}},
	"it tells an entry twice": {"FollowTellsEachEntryOnceAndInOrder", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return changed(b.Log.Follow(ctx, from), func(r eventlog.Record, _ error) []eventlog.Record {
				if r.Seq == 200 {
					return []eventlog.Record{r, r}
				}
				return []eventlog.Record{r}
			})
		}}},
	"it passes an entry over": {"FollowTellsEachEntryOnceAndInOrder", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return changed(b.Log.Follow(ctx, from), func(r eventlog.Record, _ error) []eventlog.Record {
				if r.Seq == 200 {
					return nil
				}
				return []eventlog.Record{r}
			})
		}}},
	"it begins with the first entry, wherever it was to begin": {"FollowTellsEachEntryOnceAndInOrder", broken{
		follow: func(ctx context.Context, b *broken, _ uint64) iter.Seq2[eventlog.Record, error] {
			return b.Log.Follow(ctx, 1)
		}}},
	"it follows no further than it has got": {"FollowTellsEachEntryOnceAndInOrder", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return b.Records(ctx, from)
		}}},
	"it follows on when the context has ended": {"FollowEndsWithItsContext", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return func(yield func(eventlog.Record, error) bool) {
				for r, err := range b.Records(context.Background(), from) {
					if !yield(r, err) {
						return
					}
				}
				for r, err := range b.Log.Follow(ctx, from+9) {
					if !yield(r, err) {
						return
					}
				}
			}
		}}},
	"it does not say why it ends": {"FollowEndsWithItsContext", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return changed(b.Log.Follow(ctx, from), func(r eventlog.Record, err error) []eventlog.Record {
				if err != nil {
					return nil
				}
				return []eventlog.Record{r}
			})
		}}},
	"closed, it does not say so": {"FollowEndsWithTheLog", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return changed(b.Log.Follow(ctx, from), func(r eventlog.Record, err error) []eventlog.Record {
				if err != nil {
					return nil
				}
				return []eventlog.Record{r}
			})
		}}},
	// With faults: a write that fails.
	"a failed write is an error like others": {"faults", broken{
		append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			err := b.Log.Append(ctx, last, entries)
			if errors.As(err, new(*eventlog.UnknownOutcomeError)) {
				return errors.New("the disk is full")
			}
			return err
		}}},
	"after a failed write it appends": {"faults", broken{
		append: func(ctx context.Context, b *broken, last uint64, entries []eventlog.Entry) error {
			err := b.Log.Append(ctx, last, entries)
			if errors.As(err, new(*eventlog.UnknownOutcomeError)) {
				b.Log, _, _ = b.Log.Reopen(ctx)
			}
			return err
		}}},
	"reopened after a failed write, it says that nothing came of it": {"faults", broken{
		reopen: func(log eventlog.Log, found eventlog.Reopened) (eventlog.Log, eventlog.Reopened) {
			found.Last = found.Expected
			return log, found
		}}},
	"it tells what is not durable": {"faults", broken{
		follow: func(ctx context.Context, b *broken, from uint64) iter.Seq2[eventlog.Record, error] {
			return changed(b.Log.Follow(ctx, from), func(r eventlog.Record, err error) []eventlog.Record {
				if last, _ := b.Last(); r.Seq == last {
					next := r
					next.Seq++
					return []eventlog.Record{r, next}
				}
				return []eventlog.Record{r}
			})
		}}},
}

func takeOver(log eventlog.Log) eventlog.Log {
	if b, ok := log.(*broken); ok {
		return takeOver(b.Log)
	}
	return log.(*eventlog.Memory).TakeOver()
}

// brokenEnv selects, in a child process, one of brokenLogs.
const brokenEnv = "ROLLCALL_BROKEN_LOG"

// TestBrokenLog runs in a child process, where it is expected to fail.
func TestBrokenLog(t *testing.T) {
	b, ok := brokenLogs[os.Getenv(brokenEnv)]
	if !ok {
		t.Skip("run by TestEachCheckFindsItsFault")
	}
	over := func(log eventlog.Log) eventlog.Log {
		fault := b.fault
		fault.Log = log
		return &fault
	}
	t.Run("faults", func(t *testing.T) {
		logtest.RunFaults(t, func(*testing.T) logtest.Faulty {
			f := logtest.WithFaults(eventlog.NewMemory())
			fail := f.Fail
			return logtest.Faulty{Log: over(f.Log), Fail: func(log eventlog.Log, fault logtest.Fault) {
				fail(log.(*broken).Log, fault)
			}}
		})
	})
	logtest.Run(t, logtest.Backend{
		Create: func(_ *testing.T, origin eventlog.Origin) eventlog.Log {
			return over(eventlog.NewMemoryFrom(origin, eventlog.WideLimit))
		},
		ReadOnly: func(_ *testing.T, log eventlog.Log) eventlog.Log {
			return over(log.(*broken).Log.(*eventlog.Memory).ReadOnly())
		},
		TakeOver: func(_ *testing.T, log eventlog.Log) eventlog.Log { return over(takeOver(log)) },
	})
}

// TestEachCheckFindsItsFault examines broken logs, and a whole one.
func TestEachCheckFindsItsFault(t *testing.T) {
	for name, b := range brokenLogs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := b.check
			child := exec.Command(os.Args[0], "-test.run=^TestBrokenLog$/^"+check+"$", "-test.timeout=30s")
			child.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := child.CombinedOutput()
			if want := fmt.Sprintf(
				"--- FAIL: TestBrokenLog/%s",
				check,
			); err == nil ||
				!strings.Contains(string(out), want) {
				t.Errorf("%s does not find it: error %v\n%s", check, err, out)
			}
		})
	}
}
