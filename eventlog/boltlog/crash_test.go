package boltlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/internal/crashfs"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// The crash states of a real run: the test binary runs TestRunThatIsRecorded in a process of its own under
// crashfs.Record, and then opens what a crash at any moment could have left of the log.

const (
	// recordedRun tells the child where to put the log.
	recordedRun = "ROLLCALL_RECORDED_RUN"
	// recordedLog is the log's name there.
	recordedLog = "a.log"
	// noteCreated and noteAcked are the child's notes: the log is made, entries up to a number are durable.
	noteCreated = "created"
	noteAcked   = "acknowledged "
)

// recordedOptions make segments of a few appends.
var recordedOptions = Options{SegmentBytes: 128 << 10}

// recordedSizes are the numbers of entries of the appends: together they fill some segments.
var recordedSizes = []int{1, 1, 2, 10, 1, 20, 3, 1, 25, 1, 1, 5, 14, 2, 35, 1, 1, 11, 7, 1}

// recordedEntries returns entries that fill many pages but are quickly read: their text is up to 3 KB long.
func recordedEntries(first uint64, n int) []eventlog.Entry {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	entries := logtest.Entries(first, n)
	for i := range entries {
		seq := entries[i].Seq
		text := strings.Repeat(letters[seq%26:]+letters[:seq%26], int(seq*577%3000)/26)
		entries[i].Payload = &eventlog.BindResult{
			UID:     "uid",
			Node:    fmt.Sprint(seq),
			Outcome: eventlog.BindBound,
			Message: text,
		}
	}
	return entries
}

// TestRunThatIsRecorded is not a test but the run itself, in the process that recordRun starts.
func TestRunThatIsRecorded(t *testing.T) {
	root := os.Getenv(recordedRun)
	if root == "" {
		t.Skip("run by the tests of crash states, in a process of its own")
	}
	notes := os.NewFile(crashfs.Notes, "notes")
	note := func(format string, args ...any) {
		if _, err := fmt.Fprintf(notes, format, args...); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, recordedLog)
	l, err := recordedOptions.Create(path)
	must(t, err)
	note(noteCreated)
	last := uint64(0)
	for round := range 2 {
		for _, n := range recordedSizes {
			must(t, l.Append(context.Background(), last, recordedEntries(last+1, n)))
			last += uint64(n)
			note(noteAcked+"%d", last)
		}
		if round == 0 { // a crash in the middle of a rotation, which opening the log has to finish
			must(t, l.tail.writeSeal(l.end))
		}
		must(t, l.Close())
		l, err = recordedOptions.Open(path)
		must(t, err)
	}
	must(t, l.Close())
}

// recordRun records the run.
func recordRun(t *testing.T) crashfs.Recording {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	root := t.TempDir()
	cmd := exec.Command(self, "-test.run=^TestRunThatIsRecorded$")
	cmd.Env = append(os.Environ(), recordedRun+"="+root)
	cmd.Stderr = os.Stderr
	r, err := crashfs.Record(cmd, root)
	if errors.Is(err, crashfs.ErrUnsupported) {
		t.Skipf("this system does not let a process be traced, which recording a run takes: %v", err)
	}
	must(t, err)
	wantSameFiles(t, r, root)
	return r
}

// wantSameFiles checks that nothing is missing from a recording: it leaves the same files as the run.
func wantSameFiles(t *testing.T, r crashfs.Recording, root string) {
	t.Helper()
	built := t.TempDir()
	must(t, crashfs.NewDisk(r).Content(crashfs.State{Ops: len(r)}).Build(built))
	if got, want := filesBelow(t, built), filesBelow(t, root); !maps.Equal(got, want) {
		t.Fatalf("the recording does not lead to what the run left: %d files, want %d", len(got), len(want))
	}
}

// filesBelow returns the contents of all files below a directory.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(content)
		return err
	}))
	return files
}

// A crashOracle knows what the run appended, and says whether a state that a crash left is as promised.
type crashOracle struct {
	hashes [][32]byte // by the number of the last entry
	acked  []uint64   // by the number of operations: the last entry acknowledged before
	made   []bool     // by the same: whether the log was acknowledged as created
}

func newCrashOracle(t *testing.T, r crashfs.Recording) *crashOracle {
	t.Helper()
	o := &crashOracle{hashes: make([][32]byte, 1), acked: make([]uint64, len(r)+1), made: make([]bool, len(r)+1)}
	for i, op := range r {
		o.acked[i+1], o.made[i+1] = o.acked[i], o.made[i]
		if op.Kind != crashfs.Note {
			continue
		}
		if _, err := fmt.Sscanf(op.Text, noteAcked+"%d", &o.acked[i+1]); err != nil {
			o.made[i+1] = true
		}
	}
	var prev [32]byte
	for _, e := range recordedEntries(1, int(o.acked[len(r)])) {
		rec, err := eventlog.AppendRecord(nil, e, prev)
		must(t, err)
		prev = eventlog.HashRecord(rec)
		o.hashes = append(o.hashes, prev)
	}
	return o
}

// check returns an error if a crash after ops operations left dir in a wrong state. That is a lost acknowledged entry,
// an entry that was never appended, a log that cannot be opened or continued, or a reader that sees a different log
// than the writer.
func (o *crashOracle) check(dir string, ops int) error {
	path := filepath.Join(dir, recordedLog)
	seen, err := lastReadable(path)
	l, openErr := recordedOptions.Open(path)
	if !o.made[ops] && errors.Is(openErr, fs.ErrNotExist) {
		l, openErr = recordedOptions.Create(path)
		seen, err = 0, nil
	}
	if openErr != nil {
		return fmt.Errorf("open: %w", openErr)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read before it is opened for appending: %w", err), l.Close())
	}
	last, err := l.Last()
	switch {
	case err != nil:
	case last < o.acked[ops]:
		err = fmt.Errorf("the last entry is %d, but %d was acknowledged", last, o.acked[ops])
	case last >= uint64(len(o.hashes)):
		err = fmt.Errorf("the last entry is %d, but only %d were appended", last, len(o.hashes)-1)
	case seen != last:
		err = fmt.Errorf("the last entry is %d, a reader saw %d", last, seen)
	case l.end.Hash != o.hashes[last]:
		err = fmt.Errorf("the chain of hashes up to entry %d is not that of what was appended", last)
	default:
		err = errors.Join(appendAndRead(l, last), l.Close())
		if err != nil {
			return err
		}
		return checkStructure(path)
	}
	return errors.Join(err, l.Close())
}

// lastReadable reads a log as a reader would, before a writer has done anything to it.
func lastReadable(path string) (uint64, error) {
	l, err := OpenReadOnly(path)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return readAll(l)
}

// readAll reads a log to its end, and so checks the whole chain.
func readAll(l *Log) (last uint64, err error) {
	for e, err := range l.Read(context.Background(), 1) {
		if err != nil {
			return last, err
		}
		last = e.Seq
	}
	return last, nil
}

func appendAndRead(l *Log, last uint64) error {
	const more = 3
	if err := l.Append(context.Background(), last, recordedEntries(last+1, more)); err != nil {
		return fmt.Errorf("append after the crash: %w", err)
	}
	got, err := readAll(l)
	if err == nil && got != last+more {
		err = fmt.Errorf("the last entry read is %d, want %d", got, last+more)
	}
	return err
}

// checkStructure is wantWhole for any goroutine.
func checkStructure(path string) error {
	paths, err := segmentPaths(path)
	if err != nil {
		return err
	}
	var prev Facts
	for _, file := range paths {
		s, err := OpenSegment(file)
		if err != nil {
			return err
		}
		if err := errors.Join(s.Follows(prev), s.Sound(), s.Check(), s.Close()); err != nil {
			return err
		}
		prev = s.Facts
	}
	return nil
}

// A crashSearch goes through the states of a recording.
type crashSearch struct {
	recording crashfs.Recording
	oracle    *crashOracle
	effort    crashfs.Effort
	seed      uint64
	scratch   string
	// from and to bound the moments; stopAt is the number of failures after which the search stops.
	from, to, stopAt int
	// seen are the states that were tried, with the entry that was acknowledged before. It may be kept from search to
	// search, so that none is tried, or counted, twice.
	seen map[[2]uint64]bool
}

// A crashResult is the result of a search.
type crashResult struct {
	states, distinct int
	failures         []string
}

// run searches on all processors: each takes a share of the moments.
func (s crashSearch) run() crashResult {
	var (
		mu     sync.Mutex
		result crashResult
		wait   sync.WaitGroup
	)
	seen := s.seen
	if seen == nil {
		seen = map[[2]uint64]bool{}
	}
	// fresh counts a state, and says whether it has still to be tried.
	fresh := func(sum, acked uint64) bool {
		mu.Lock()
		defer mu.Unlock()
		result.states++
		key := [2]uint64{sum, acked}
		if seen[key] || len(result.failures) >= s.stopAt {
			return false
		}
		seen[key] = true
		result.distinct++
		return true
	}
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wait.Go(func() {
			disk := crashfs.NewDisk(s.recording)
			for ops := s.from + w; ops < s.to; ops += workers {
				chance := rand.New(rand.NewPCG(s.seed, uint64(ops)))
				for state := range s.recording.Moment(ops, s.effort, chance) {
					content := disk.Content(state)
					if !fresh(content.Sum(), s.oracle.acked[ops]) {
						continue
					}
					if err := s.try(content, ops, w); err != nil {
						mu.Lock()
						result.failures = append(
							result.failures,
							fmt.Sprintf("%v\nafter %s", err, s.recording.Describe(state)),
						)
						mu.Unlock()
					}
				}
			}
		})
	}
	wait.Wait()
	return result
}

// try puts one state on a file system and has the oracle look at it.
func (s crashSearch) try(content crashfs.Content, ops, worker int) (err error) {
	dir := filepath.Join(s.scratch, fmt.Sprint(worker))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := content.Build(dir); err != nil {
		return err
	}
	return s.oracle.check(dir, ops)
}

// scratchDir returns a directory in memory if there is one: thousands of states are no work for a disk.
func scratchDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rollcall-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestEveryCrashStateRecovers(t *testing.T) {
	r := recordRun(t)
	search := crashSearch{
		recording: r,
		oracle:    newCrashOracle(t, r),
		scratch:   scratchDir(t),
		seed:      1,
		to:        len(r) + 1,
		stopAt:    5,
		effort:    crashfs.Effort{Subsets: 16, Tears: 16, LastWrites: 4},
	}
	search.seen = map[[2]uint64]bool{}
	rounds, want := 1, 10_000
	if !fixedseed.Whole() {
		search.effort, want = crashfs.Effort{Subsets: 3, Tears: 3, LastWrites: 4}, 3_000
	}
	if os.Getenv("ROLLCALL_SOAK") != "" {
		rounds, search.effort = 10, crashfs.Effort{Subsets: 40, Tears: 40, LastWrites: 4}
		want = 50_000
	}
	var total crashResult
	for round := 0; round < rounds && total.distinct < want; round++ {
		result := search.run()
		total.states += result.states
		total.distinct += result.distinct
		for _, failure := range result.failures {
			t.Error(failure)
		}
		if t.Failed() {
			break
		}
		t.Logf("round %d: %d states, %d of them new", round+1, result.states, result.distinct)
		search.seed++
	}
	t.Logf("%d operations, %d states, %d of them distinct", len(r), total.states, total.distinct)
	if total.distinct < want {
		t.Errorf("only %d distinct states, want %d", total.distinct, want)
	}
	if os.Getenv("ROLLCALL_RECORDING") != "" {
		fmt.Println(strings.TrimSpace(r.String()))
	}
}
