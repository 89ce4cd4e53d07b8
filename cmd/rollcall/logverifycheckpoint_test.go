package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/proof"
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

// TestVerifyComparesEverythingThatIsSigned signs what is not so, with the right key.
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
	verify := func(checkpoints ...string) []string {
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
		verify(later, good, good)...)

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
		verify(otherChain)...)
	wants(
		t,
		exitFailed,
		[]string{"two signed checkpoints of 15 entries with the same root and different last records", "keep both"},
		verify(good, otherChain)...)
	wrong = at(15)
	wrong.Root[7] ^= 1
	wants(
		t,
		exitFailed,
		[]string{"two signed checkpoints of 15 entries with different roots", "keep both"},
		verify(good, signedAs(t, west, wrong))...)
	wants(
		t,
		exitUsage,
		[]string{
			`of the log "rollcall.example.org/west"`,
			`of "rollcall.example.org/east"`,
			"a log is compared with its own",
		},
		verify(good, signedAs(t, east, at(40)))...)
}

// TestADamagedLogIsComparedAsFarAsItIsGood passes over no checkpoint in silence.
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

// TestEveryCommandWritesRootAndChainTheSameWay looks for what the checkpoint says in what each of them prints.
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
