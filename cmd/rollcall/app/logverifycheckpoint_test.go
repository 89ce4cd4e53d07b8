package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/logs/verify"
)

// newSigner makes a key with log keygen.
func newSigner(t testing.TB, name string) (signer note.Signer, public string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	rollcall(t, "log", "keygen", "--name", name, "--out", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = proof.ReadSigner(content); err != nil {
		t.Fatal(err)
	}
	return signer, file + ".pub"
}

// signedAs signs a checkpoint, and returns its file.
func signedAs(t testing.TB, signer note.Signer, c proof.Checkpoint) string {
	t.Helper()
	c.Origin = signer.Name()
	msg, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.WriteFile(file, msg, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestVerifyComparesEverythingThatIsSigned signs false statements with the right key.
func TestVerifyComparesEverythingThatIsSigned(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(40), 10)
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	west, westKey := newSigner(t, "rollcall.example.org/west")
	east, eastKey := newSigner(t, "rollcall.example.org/east")
	at := func(size uint64) proof.Checkpoint {
		c, err := (&proof.Prover{Log: log}).Checkpoint(context.Background(), "", size)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	compared := func(checkpoints ...string) []string {
		args := []string{"log", "verify", path, "--key", westKey, "--key", eastKey}
		for _, file := range checkpoints {
			args = append(args, "--checkpoint", file)
		}
		return args
	}
	good, later := signedAs(t, west, at(15)), signedAs(t, west, at(40))
	wants(
		t,
		exitDone,
		[]string{"the first 15 entries", "the first 40 entries", "\nwhole\n"},
		compared(later, good, good)...)

	wrong := at(15)
	wrong.Chain[7] ^= 1
	otherChain := signedAs(t, west, wrong)
	wants(
		t,
		exitDamaged,
		[]string{
			"DOES NOT MATCH the checkpoint of 15 entries of rollcall.example.org/west",
			"the record of entry 15 is not the one that rollcall.example.org/west has signed",
			"are of different logs",
		},
		compared(otherChain)...)
	wants(
		t,
		exitFailed,
		[]string{"two signed checkpoints of 15 entries with the same root and different last records", "keep both"},
		compared(good, otherChain)...)
	wrong = at(15)
	wrong.Root[7] ^= 1
	wants(
		t,
		exitFailed,
		[]string{"two signed checkpoints of 15 entries with different roots", "keep both"},
		compared(good, signedAs(t, west, wrong))...)
	wants(
		t,
		exitUsage,
		[]string{
			`of the log "rollcall.example.org/west"`,
			`of "rollcall.example.org/east"`,
			"a log is compared with its own",
		},
		compared(good, signedAs(t, east, at(40)))...)
}

// TestADamagedLogIsComparedAsFarAsItIsGood finds that verify reports on every checkpoint.
func TestADamagedLogIsComparedAsFarAsItIsGood(t *testing.T) {
	for _, tc := range []struct {
		damaged int // the first entry of the segment
		want    []string
	}{
		{21, []string{
			"signed    the first 15 entries",
			"signed    NOT COMPARED with the checkpoint of 40 entries of west",
			"the log can be read up to entry 20: it is damaged at entry 21",
			"DAMAGED at entry 21",
		}},
		{1, []string{
			"signed    NOT COMPARED with the checkpoint of 15 entries of west",
			"signed    NOT COMPARED with the checkpoint of 40 entries of west",
			"DAMAGED at entry 1",
		}},
	} {
		path := logstest.Segmented(t, logstest.WellFormed(40), 10)
		log, err := logs.Options{}.Open(t.Context(), path)
		must(t, err)
		west, key := newSigner(t, "west")
		args := []string{"log", "verify", path, "--key", key}
		for _, size := range []uint64{15, 40} {
			c, err := (&proof.Prover{Log: log}).Checkpoint(context.Background(), "", size)
			must(t, err)
			args = append(args, "--checkpoint", signedAs(t, west, c))
		}
		must(t, log.Close())
		must(t, os.Truncate(logstest.SegmentOf(path, tc.damaged), 4096))
		wants(t, exitDamaged, tc.want, args...)
	}
}

// kinds lists, in order of their sizes, the results of log verify -o json for the checkpoints that the log contradicts.
func kinds(r verify.Report) (list []string) {
	for _, m := range r.Mismatches {
		list = append(list, string(m.Kind))
	}
	for _, c := range r.NotCompared {
		list = append(list, string(c.Kind))
	}
	return list
}

// TestVerifySaysInWhichWayALogIsNotWhatWasSigned compares a log that has lost its end in each way in which that shows,
// and one that cannot be read at all. Verify ignores none of them: each has a report.
func TestVerifySaysInWhichWayALogIsNotWhatWasSigned(t *testing.T) {
	log, _ := small(t)
	dir := t.TempDir()
	key, late := filepath.Join(dir, "west.key"), filepath.Join(dir, "late")
	rollcall(t, "log", "keygen", "--name", "west", "--out", key)
	must(t, os.WriteFile(late, rollcall(t, "log", "checkpoint", log, "--key", key), 0o600))
	signed := []string{"--checkpoint", late, "--key", key + ".pub"}
	pack := filepath.Join(dir, "all.bundle")
	rollcall(t, "log", "export", log, "--out", pack)
	wants(t, exitDone, []string{"\nwhole\n"}, append([]string{"log", "verify", log}, signed...)...)

	check := func(t *testing.T, path string, code int, kind string, said ...string) {
		t.Helper()
		report, stderr, got := verified(t, path, signed...)
		if got != code || report.Whole || !slices.Equal(kinds(report), []string{kind}) {
			t.Errorf("exit code %d, want %d; %v, want %s; %+v\n%s", got, code, kinds(report), kind, report, stderr)
		}
		text := wants(t, code, said, append([]string{"log", "verify", path}, signed...)...)
		if strings.Contains(text, "\nwhole\n") || !strings.Contains(text, "\nsigned ") {
			t.Errorf("the report says %s", text)
		}
	}
	last := cutBySegments(t, log)
	ends := fmt.Sprintf("the log ends with entry %d, but west has signed that it had", last)
	t.Run("an end that a snapshot knows of", func(t *testing.T) {
		check(t, log, exitDamaged, "EndsBefore", ends, "DOES NOT MATCH", "DAMAGED at entry", "backup")
	})
	snapshots := filepath.Join(log, logs.SnapshotDir)
	must(t, os.Rename(snapshots, snapshots+".away"))
	must(t, os.Symlink("nowhere", snapshots))
	t.Run("snapshots that cannot be read", func(t *testing.T) {
		check(t, log, exitDamaged, "EndsBefore", ends, "DOES NOT MATCH", "whether it had more is not known",
			"See that everything in "+snapshots+" can be read", "NOT KNOWN to be whole")
	})
	must(t, os.Remove(snapshots))
	t.Run("no snapshots", func(t *testing.T) {
		check(t, log, exitDamaged, "EndsBefore", ends, "DOES NOT MATCH", "whole in itself, and NOT what was signed")
	})
	must(t, os.Rename(snapshots+".away", snapshots))
	segments, err := filepath.Glob(filepath.Join(log, "*.seg"))
	must(t, err)
	for _, segment := range segments {
		must(t, os.Remove(segment))
	}
	t.Run("no segment", func(t *testing.T) {
		check(t, log, exitDamaged, "Damaged", "NOT COMPARED", "NOTHING OF IT COULD BE CHECKED",
			"there is none of its segments", "compared with none of the checkpoints")
	})
	t.Run("no log", func(t *testing.T) {
		check(t, log+".away", exitFailed, "Absent", "NOT COMPARED", "no log at")
	})
	must(t, os.Truncate(pack, 500))
	t.Run("a damaged bundle", func(t *testing.T) {
		check(t, pack, exitDamaged, "Damaged", "NOT COMPARED", "the bundle is damaged")
	})
	must(t, os.Remove(pack))
	must(t, os.Symlink(filepath.Base(pack), pack))
	t.Run("a log that is a link to itself", func(t *testing.T) {
		check(t, pack, exitFailed, "Unreadable", "NOT COMPARED")
	})
}

// TestEveryCommandWritesRootAndChainTheSameWay looks for the checkpoint's root and chain in the output of each command.
func TestEveryCommandWritesRootAndChainTheSameWay(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(40), 10)
	dir := t.TempDir()
	key, file, signed := filepath.Join(dir, "key"), filepath.Join(dir, "bundle"), filepath.Join(dir, "signed")
	rollcall(t, "log", "keygen", "--name", "west", "--out", key)
	msg := rollcall(t, "log", "checkpoint", path, "--key", key)
	if err := os.WriteFile(signed, msg, 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(msg), "\n")
	root, chain := lines[2], strings.TrimPrefix(lines[3], "chain ")
	for _, command := range [][]string{
		{"log", "verify", path}, {"log", "export", path, "--out", file}, {"log", "info", file}, {"log", "verify", file},
		{"log", "import", file, "--log", filepath.Join(dir, "imported")}, {"log", "check", signed, "--key", key +
			".pub"},
	} {
		wants(t, exitDone, []string{root, chain}, command...)
	}
}
