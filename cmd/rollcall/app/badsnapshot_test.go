package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/logs/verify"
	v1 "k8s.io/api/core/v1"
)

// forge replaces the snapshot of entry seq with another one that is whole and of that entry, but has another label on
// the first node in its state.
func forge(t testing.TB, path string, seq uint64) {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m := scheduler.New(plugins.NewRegistry())
	changed := false
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if up, ok := e.Payload.(*eventlog.Upserted); ok && !changed {
			if node, ok := up.Object.(*v1.Node); ok {
				node = node.DeepCopy()
				node.Labels = map[string]string{"forged": "true"}
				e.Payload, changed = &eventlog.Upserted{Resource: up.Resource, Object: node}, true
			}
		}
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		if e.Seq == seq {
			break
		}
	}
	position, err := log.RecordHash(context.Background(), seq)
	if err != nil || !changed {
		t.Fatalf("%v, a node was changed: %v", err, changed)
	}
	data, err := snapshot.Encode(m, position)
	if err != nil {
		t.Fatal(err)
	}
	good, err := logs.SnapshotsOf(path).Get(seq)
	if err != nil || bytes.Equal(good, data) {
		t.Fatalf("%v, or nothing was forged", err)
	}
	if err := logs.SnapshotsOf(path).Add(seq, data); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFindsEachBadSnapshotAndSaysThatTheLogIsWhole(t *testing.T) {
	log, _ := small(t)
	other, _ := small(t) // with other epochs' UUIDs
	seqs := snapshotSeqs(t, log)
	dir := logs.SnapshotsOf(log)
	facts, _, code := verified(t, log)
	if code != exitDone || len(facts.Snapshots) != len(seqs) {
		t.Fatalf("exit code %d, %+v", code, facts)
	}
	for _, s := range facts.Snapshots {
		made, _ := factsOf[replayFacts](t, "replay", log, "--from", fmt.Sprint(s.Seq))
		if s.State != verify.SnapshotGood || len(s.Hash) != 64 || made.Start != s.Seq {
			t.Errorf("%+v", s)
		}
	}
	seq := seqs[1]
	good, err := dir.Get(seq)
	if err != nil {
		t.Fatal(err)
	}
	rollcall(t, "log", "snapshot", other, "--at", fmt.Sprint(seq))
	foreign, err := logs.SnapshotsOf(other).Get(seq)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for reason, data := range map[string][]byte{
		"its checksum is wrong":                          flipped,
		"its length is wrong":                            good[:20],
		fmt.Sprintf("entry %d is another one here", seq): foreign,
	} {
		if err := dir.Add(seq, data); err != nil {
			t.Fatal(err)
		}
		facts, stderr, code := verified(t, log)
		if code != exitFailed || !facts.Whole ||
			!strings.Contains(stderr, "the log is whole, but its snapshot of entry "+fmt.Sprint(seq)) ||
			!strings.Contains(stderr, dir.File(seq)) {
			t.Errorf("%s: exit code %d, stderr %q, %+v", reason, code, stderr, facts)
		}
		for _, s := range facts.Snapshots {
			if bad := s.State == verify.SnapshotBad; bad != (s.Seq == seq) ||
				bad && !strings.Contains(s.Reason, reason) {
				t.Errorf("%s: %+v", reason, s)
			}
		}
		wants(
			t,
			exitFailed,
			[]string{fmt.Sprintf("snapshot  of entry %d, BAD: ", seq), "\nwhole\n"},
			"log",
			"verify",
			log,
		)
	}
	if err := os.WriteFile(dir.File(seq), resealedAs(good, snapshot.FormatVersion+1), 0o600); err != nil {
		t.Fatal(err)
	}
	wants(
		t,
		exitDone,
		[]string{fmt.Sprintf("snapshot  of entry %d, not compared: the snapshot is of format", seq), "\nwhole\n"},
		"log",
		"verify",
		log,
	)
}

// TestWithoutItsFirstEntriesALogNeedsAGoodSnapshot spoils one after the other.
func TestWithoutItsFirstEntriesALogNeedsAGoodSnapshot(t *testing.T) {
	log, _ := small(t)
	away := filepath.Join(t.TempDir(), "archive")
	facts, _ := factsOf[archive.Report](t, "log", "archive", log, "--before", "1100", "--to", away)
	if err := os.Rename(away, away+".away"); err != nil {
		t.Fatal(err)
	}
	seqs := slices.DeleteFunc(snapshotSeqs(t, log), func(seq uint64) bool { return seq < facts.Last })
	for i, seq := range seqs {
		if v, stderr, code := verified(t, log); !v.Whole || (code == exitDone) != (i == 0) {
			t.Fatalf("with %d of %d bad: exit code %d, %s", i, len(seqs), code, stderr)
		}
		if err := os.Truncate(logs.SnapshotsOf(log).File(seq), 200); err != nil {
			t.Fatal(err)
		}
	}
	wants(
		t,
		exitDamaged,
		[]string{fmt.Sprintf("DAMAGED at entry %d", facts.Last+1), "no snapshot of entry", "its checksum is wrong"},
		"log",
		"verify",
		log,
	)
	v, _, _ := verified(t, log)
	if v.Whole || v.Damage == nil || v.Damage.Seq != facts.Last+1 {
		t.Errorf("%+v", v)
	}
	if v, _, code := verified(t, log, "--archive", away+".away"); !v.Whole || code != exitFailed {
		t.Errorf("with the archive: exit code %d, %+v", code, v)
	}
}

// TestAForgedSnapshotIsFoundByEveryCommandThatReadsPastIt forges one of several: it is whole, and of the right entry.
func TestAForgedSnapshotIsFoundByEveryCommandThatReadsPastIt(t *testing.T) {
	log, _ := small(t)
	seqs := snapshotSeqs(t, log)
	whole, _ := factsOf[replayFacts](t, "replay", log)
	if !slices.Equal(whole.States, seqs) || len(whole.OtherStates) > 0 {
		t.Fatalf(
			"replay compared the snapshots of entries %d, want %d, and finds %d wrong",
			whole.States,
			seqs,
			whole.OtherStates,
		)
	}
	forged := seqs[len(seqs)-2]
	forge(t, log, forged)
	wants(t, exitDone, []string{"\nwhole\n"}, "log", "verify", log) // that is not enough
	file := filepath.Join(t.TempDir(), "bundle")
	complaint := []string{
		fmt.Sprintf("snapshot at entry %d: its state is not the one that the log's entries make", forged),
		"Remove " + logs.SnapshotsOf(log).File(forged),
	}
	wants(
		t,
		exitDamaged,
		append(complaint, "\nidentical\n", fmt.Sprintf("1 WRONG: of entries [%d]", forged)),
		"replay",
		log,
	)
	wants(t, exitDamaged, complaint, "replay", log, "--from", fmt.Sprint(seqs[0]))
	wants(t, exitDamaged, complaint, "log", "export", log, "--out", file, "--from", fmt.Sprint(forged+5))
	wants(t, exitDamaged, complaint, "log", "archive", log, "--before", fmt.Sprint(forged+1), "--to", file+".d")
	if _, err := os.Stat(file); err == nil {
		t.Error("a bundle was made")
	}
	if err := os.Remove(logs.SnapshotsOf(log).File(forged)); err != nil {
		t.Fatal(err)
	}
	wants(t, exitDone, nil, "log", "export", log, "--out", file, "--from", fmt.Sprint(forged+5))
	wants(t, exitDone, []string{"\nidentical\n"}, "replay", log)

	// The commands do not believe a snapshot because the ones before it agree with it.
	left := snapshotSeqs(t, log)
	for _, seq := range left {
		forge(t, log, seq)
	}
	last := left[len(left)-1]
	complaint = []string{
		fmt.Sprintf("snapshot at entry %d: its state is not the one that the log's entries make", last),
	}
	must(t, os.Remove(file))
	wants(t, exitDamaged, complaint, "log", "export", log, "--out", file, "--from", fmt.Sprint(last+5))
	before := filesIn(t, log)
	wants(t, exitDamaged, complaint, "log", "archive", log, "--before", fmt.Sprint(last+1), "--to", file+".d")
	if after := filesIn(t, log); !slices.Equal(after, before) {
		t.Errorf("there is %q in the log, and was %q", after, before)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a bundle was made")
	}
	for _, seq := range left {
		must(t, os.Remove(logs.SnapshotsOf(log).File(seq)))
		rollcall(t, "log", "snapshot", log, "--at", fmt.Sprint(seq))
	}

	// The commands name a snapshot that cannot be compared.
	if err := os.Truncate(logs.SnapshotsOf(log).File(seqs[0]), 100); err != nil {
		t.Fatal(err)
	}
	wants(
		t,
		exitDone,
		[]string{fmt.Sprintf("not compared: snapshot at entry %d: the snapshot is damaged", seqs[0])},
		"replay",
		log,
	)
	flipABit(t, logstest.SegmentOf(log, 1), []byte("node-03"))
	notCompared := fmt.Sprintf("the snapshot of entry %d is not compared with the entries before it", last)
	wants(t, exitDone, []string{notCompared}, "log", "export", log, "--out", file, "--from", fmt.Sprint(last+5))
	before = filesIn(t, log)
	wants(
		t,
		exitDamaged,
		[]string{"nothing is archived", notCompared},
		"log",
		"archive",
		log,
		"--before",
		fmt.Sprint(last+1),
		"--to",
		file+".d",
	)
	if after := filesIn(t, log); !slices.Equal(after, before) {
		t.Errorf("there is %q in the log, and was %q", after, before)
	}
}

// filesIn names the files of a directory.
func filesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// flipABit flips one of the first place where the file has that text.
func flipABit(t testing.TB, file string, text []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	must(t, err)
	at := bytes.Index(content, text)
	if at < 0 {
		t.Fatalf("%s has no %q", file, text)
	}
	content[at] ^= 1
	must(t, os.WriteFile(file, content, 0o600))
}
