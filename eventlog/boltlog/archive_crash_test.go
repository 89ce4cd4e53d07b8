package boltlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/internal/crashfs"
)

// The crash states of archiving, found as in crash_test.go: the run makes a log of five segments and archives the
// first two, then one more.

const (
	archivingRun    = "ROLLCALL_ARCHIVING_RUN"
	archivingDir    = "archive"
	archivingLast   = 25
	archivingBefore = 16 // the second time
)

// TestArchivingThatIsRecorded is not a test but the run itself.
func TestArchivingThatIsRecorded(t *testing.T) {
	root := os.Getenv(archivingRun)
	if root == "" {
		t.Skip("run by the test of crash states, in a process of its own")
	}
	path := filepath.Join(root, recordedLog)
	l, err := everyAppend.Create(path)
	must(t, err)
	for last := uint64(0); last < archivingLast; last += 5 {
		must(t, l.Append(context.Background(), last, logtest.Entries(last+1, 5)))
	}
	must(t, l.Close())
	_, err = fmt.Fprint(os.NewFile(crashfs.Notes, "notes"), noteCreated)
	must(t, err)
	for _, before := range []uint64{11, archivingBefore} {
		_, err = Archive(path, before, filepath.Join(root, archivingDir), nil)
		must(t, err)
	}
}

func recordArchiving(t *testing.T) (r crashfs.Recording, created int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	root := t.TempDir()
	cmd := exec.Command(self, "-test.run=^TestArchivingThatIsRecorded$")
	cmd.Env = append(os.Environ(), archivingRun+"="+root)
	cmd.Stderr = os.Stderr
	r, err = crashfs.Record(cmd, root)
	if errors.Is(err, crashfs.ErrUnsupported) {
		t.Skipf("this system does not let a process be traced, which recording a run takes: %v", err)
	}
	must(t, err)
	wantSameFiles(t, r, root)
	must(t, os.RemoveAll(filepath.Join(root, archivingDir))) // where ORIGIN says that the segments are
	for i, op := range r {
		if op.Kind == crashfs.Note && strings.HasPrefix(op.Text, noteCreated) {
			return r, i + 1
		}
	}
	t.Fatal("the run does not say that the log is made")
	return nil, 0
}

// checkArchived returns an error if a crash left dir in a wrong state: an entry that cannot be read, a log that does
// not continue, an archiving that cannot be finished.
func checkArchived(dir string) error {
	path, opts := filepath.Join(dir, recordedLog), everyAppend
	archive := filepath.Join(dir, archivingDir)
	opts.Archives = []string{archive} // ORIGIN knows where the run had it, which is gone
	whole := func(open func(string) (*Log, error), want uint64, use func(l *Log) error) error {
		l, err := open(path)
		if err != nil {
			return err
		}
		last, err := readAll(l)
		if err == nil && (last != want || l.First() != 1) {
			err = fmt.Errorf("entries %d to %d can be read, want 1 to %d", l.First(), last, want)
		}
		if err == nil && use != nil {
			err = use(l)
		}
		return errors.Join(err, l.Close())
	}
	if err := whole(opts.OpenReadOnly, archivingLast, nil); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := whole(opts.Open, archivingLast, func(l *Log) error {
		return l.Append(context.Background(), archivingLast, logtest.Entries(archivingLast+1, 5))
	}); err != nil {
		return fmt.Errorf("open for appending: %w", err)
	}
	if _, err := Archive(path, archivingBefore, archive, nil); err != nil {
		return fmt.Errorf("archive again: %w", err)
	}
	if _, err := os.Stat(segment(path, 11)); err == nil {
		return errors.New("archiving again has not moved everything")
	}
	return whole(opts.OpenReadOnly, archivingLast+5, nil)
}

// tryArchiving returns how many states there are after the log was made, and the first failure.
func tryArchiving(t *testing.T, r crashfs.Recording, created int) (states int, failure string) {
	t.Helper()
	disk, seen, scratch := crashfs.NewDisk(r), map[uint64]bool{}, scratchDir(t)
	for ops := created; ops <= len(r); ops++ {
		chance := rand.New(rand.NewPCG(1, uint64(ops)))
		for state := range r.Moment(ops, crashfs.Effort{Subsets: 16, Tears: 8, LastWrites: 3}, chance) {
			content := disk.Content(state)
			if seen[content.Sum()] {
				continue
			}
			seen[content.Sum()] = true
			dir := filepath.Join(scratch, "state")
			must(t, os.Mkdir(dir, 0o700))
			must(t, content.Build(dir))
			if err := checkArchived(dir); err != nil {
				return len(seen), fmt.Sprintf("%v\nafter %s", err, r.Describe(state))
			}
			must(t, os.RemoveAll(dir))
		}
	}
	return len(seen), ""
}

func TestEveryCrashOfArchivingIsRepaired(t *testing.T) {
	r, created := recordArchiving(t)
	states, failure := tryArchiving(t, r, created)
	if failure != "" {
		t.Error(failure)
	}
	t.Logf("%d operations, %d distinct states", len(r)-created, states)
	if states < 40 {
		t.Errorf("only %d distinct states", states)
	}
}

// The search finds every missing sync but the last one of each archiving, behind which nothing is ordered.
func TestMissingSyncOfArchivingIsFound(t *testing.T) {
	r, created := recordArchiving(t)
	needless := 0
	for i := created; i < len(r); i++ {
		if r[i].Kind != crashfs.Sync {
			continue
		}
		if _, failure := tryArchiving(t, r.Without(i), created); failure == "" {
			needless++
			t.Logf("without operation %d (%v): nothing is lost", i, r[i])
		}
	}
	if needless > 2 {
		t.Errorf("%d syncs can be left out, want no more than the last one of each archiving", needless)
	}
}
