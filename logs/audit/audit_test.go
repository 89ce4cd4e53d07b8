package audit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// parties are a log of 120 entries, and the key of its signer.
type parties struct {
	log         *logs.Source
	entries     []eventlog.Entry
	dir         string
	private, pu string
}

func newParties(t *testing.T) *parties {
	t.Helper()
	p := &parties{entries: logstest.WellFormed(120), dir: t.TempDir()}
	p.private = p.newKey(t, "test.example.org/log", "key")
	p.pu = PublicFile(p.private)
	p.log = p.open(t, p.entries)
	return p
}

func (p *parties) newKey(t *testing.T, name, file string) string {
	t.Helper()
	key, err := proof.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(p.dir, file)
	if err := WriteKey(path, key); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *parties) open(t *testing.T, entries []eventlog.Entry) *logs.Source {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), logstest.Segmented(t, entries, 25))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// file writes content to a file and returns its name.
func (p *parties) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sign writes the checkpoint of the first at entries to a file.
func (p *parties) sign(t *testing.T, log *logs.Source, private, name string, at uint64) string {
	t.Helper()
	signer, err := ReadSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := Checkpoint(log, signer, at)
	if err != nil {
		t.Fatal(err)
	}
	return p.file(t, name, msg)
}

// prove writes the proof of a claim to a file.
func (p *parties) prove(t *testing.T, c Claim, name string) string {
	t.Helper()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	made, err := c.Prove(t.Context(), p.log)
	if err != nil {
		t.Fatal(err)
	}
	content, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return p.file(t, name, content)
}

func TestAnEntryIsProvenWithThePublicKeyAlone(t *testing.T) {
	p := newParties(t)
	signed := p.sign(t, p.log, p.private, "signed", 100)
	file := p.prove(t, Claim{Seq: 37, Checkpoints: []string{signed}}, "proof")
	checked, err := Check(file, []string{p.pu}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := eventlog.AppendJSON(nil, p.entries[36])
	if err != nil {
		t.Fatal(err)
	}
	if checked.Proven != "inclusion" || string(checked.Entry) != string(want) {
		t.Errorf("proven is %s of %s, want inclusion of %s", checked.Proven, checked.Entry, want)
	}
	if len(checked.Checkpoints) != 1 || checked.Checkpoints[0].Size != 100 {
		t.Errorf("it rests on %+v, want the checkpoint of 100 entries", checked.Checkpoints)
	}
}

func TestGrowthIsProvenBetweenTwoCheckpoints(t *testing.T) {
	p := newParties(t)
	early, late := p.sign(t, p.log, p.private, "early", 30), p.sign(t, p.log, p.private, "late", 0)
	file := p.prove(t, Claim{Checkpoints: []string{early, late}}, "proof")
	checked, err := Check(file, []string{p.pu}, []string{early})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []uint64
	for _, c := range checked.Checkpoints {
		sizes = append(sizes, c.Size)
	}
	if checked.Proven != "consistency" || !slices.Equal(sizes, []uint64{30, 120}) || checked.Entry != nil {
		t.Errorf("proven is %s between %d, entry %s", checked.Proven, sizes, checked.Entry)
	}
	if checked, err := Check(late, []string{p.pu}, nil); err != nil || checked.Proven != "checkpoint" {
		t.Errorf("the checkpoint by itself: %+v, %v", checked, err)
	}
}

// TestNothingIsProvenToTheWrongKeyOrByAnotherLog has proofs that are right in themselves.
func TestNothingIsProvenToTheWrongKeyOrByAnotherLog(t *testing.T) {
	p := newParties(t)
	signed := p.sign(t, p.log, p.private, "signed", 100)
	file := p.prove(t, Claim{Seq: 37, Checkpoints: []string{signed}}, "proof")
	bare := p.prove(t, Claim{Seq: 37, Size: 100}, "bare")
	stranger := p.newKey(t, "test.example.org/log", "stranger")

	forged := slices.Clone(p.entries)
	forged[59].Time++
	other := p.open(t, forged)
	fork := p.sign(t, other, p.private, "fork", 100)

	for _, tc := range []struct {
		name, file  string
		key         string
		checkpoints []string
		want        string
	}{
		{"a stranger's key", file, PublicFile(stranger), nil, "in the proof"},
		{"no checkpoint", bare, p.pu, nil, "rests on a checkpoint of 100 entries, and none was given that is signed: " +
			"name it with --checkpoint"},
		{"the checkpoint of a log that was changed", bare, p.pu, []string{fork},
			"it is another log, or it was changed"},
		{"two checkpoints that contradict each other", file, p.pu, []string{fork}, "keep both"},
		{"a checkpoint that no key has signed", bare, PublicFile(stranger), []string{signed}, signed},
		{"a checkpoint beside a checkpoint", signed, p.pu, []string{signed}, "is not a proof"},
	} {
		checked, err := Check(tc.file, []string{tc.key}, tc.checkpoints)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want an error with %q, got %+v, %v", tc.name, tc.want, checked, err)
		}
	}
	if _, err := Check(bare, []string{p.pu}, []string{signed}); err != nil {
		t.Errorf("with the right checkpoint: %v", err)
	}
}

// TestAClaimIsFilledFromItsCheckpoints has claims that lack something, and claims that make no sense.
func TestAClaimIsFilledFromItsCheckpoints(t *testing.T) {
	p := newParties(t)
	early, late := p.sign(t, p.log, p.private, "early", 30), p.sign(t, p.log, p.private, "late", 120)
	for _, tc := range []struct {
		name  string
		claim Claim
		want  Claim  // the numbers of it
		wrong string // or what is wrong
	}{
		{name: "an entry", claim: Claim{Seq: 7, Checkpoints: []string{early}}, want: Claim{Seq: 7, Size: 30}},
		{name: "an entry of a size", claim: Claim{Seq: 7, Size: 9}, want: Claim{Seq: 7, Size: 9}},
		{name: "growth", claim: Claim{Checkpoints: []string{early, late}}, want: Claim{From: 30, To: 120}},
		{name: "exchanged", claim: Claim{Checkpoints: []string{late, early}}, wrong: "the checkpoints are exchanged"},
		{name: "growth to the end", claim: Claim{Checkpoints: []string{early}}, want: Claim{From: 30}},
		{name: "nothing", wrong: "what is to be proven?"},
		{name: "both", claim: Claim{Seq: 1, From: 1}, wrong: "one of the two"},
		{name: "an entry behind the checkpoint", claim: Claim{Seq: 31, Checkpoints: []string{early}},
			wrong: "take a later checkpoint"},
		{name: "an entry of two", claim: Claim{Seq: 1, Checkpoints: []string{early, late}},
			wrong: "give --checkpoint once"},
		{name: "growth of three", claim: Claim{Checkpoints: []string{early, late, early}}, wrong: "at most twice"},
		{name: "growth backwards", claim: Claim{From: 9, To: 8}, wrong: "--from is 9, after --to 8"},
	} {
		err := tc.claim.Complete()
		var request *logs.RequestError
		if tc.wrong != "" {
			if !errors.As(err, &request) || !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("%s: want a RequestError with %q, got %v", tc.name, tc.wrong, err)
			}
			continue
		}
		got := Claim{Seq: tc.claim.Seq, Size: tc.claim.Size, From: tc.claim.From, To: tc.claim.To}
		if err != nil || got.Seq != tc.want.Seq || got.Size != tc.want.Size || got.From != tc.want.From ||
			got.To != tc.want.To {
			t.Errorf("%s: the claim is %+v, %v, want %+v", tc.name, got, err, tc.want)
		}
	}
}

func TestNothingIsSignedOrProvenBehindTheLogsEnd(t *testing.T) {
	p := newParties(t)
	signer, err := ReadSigner(p.private)
	if err != nil {
		t.Fatal(err)
	}
	var request *logs.RequestError
	if _, err := Checkpoint(p.log, signer, 121); !errors.As(err, &request) {
		t.Errorf("a checkpoint of 121 entries: want a RequestError, got %v", err)
	}
	for _, c := range []Claim{{Seq: 121}, {Seq: 1, Size: 121}, {From: 121}, {From: 1, To: 121}} {
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Prove(t.Context(), p.log); !errors.As(err, &request) {
			t.Errorf("%+v: want a RequestError, got %v", c, err)
		}
	}
	if _, err := Checkpoint(p.open(t, nil), signer, 0); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("a checkpoint of an empty log: %v", err)
	}
}

// TestADamagedLogIsSignedOnlyBeforeItsDamage takes a segment away from the end.
func TestADamagedLogIsSignedOnlyBeforeItsDamage(t *testing.T) {
	p := newParties(t)
	path := logstest.Segmented(t, p.entries, 25)
	if err := os.Truncate(logstest.SegmentOf(path, 101), 4096); err != nil {
		t.Fatal(err)
	}
	var notes []string
	log, err := logs.Options{Report: func(note string) { notes = append(notes, note) }}.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	signer, err := ReadSigner(p.private)
	if err != nil {
		t.Fatal(err)
	}
	var damaged *eventlog.DamagedError
	if _, err := Checkpoint(log, signer, 0); !errors.As(err, &damaged) || damaged.Seq != 101 {
		t.Errorf("up to its end: want the damage at entry 101, got %v", err)
	}
	if _, err := Checkpoint(log, signer, 100); err != nil || len(notes) != 1 {
		t.Errorf("before the damage: %v, reported %q, want the damage", err, notes)
	}
}

func TestKeysAreWrittenBothOrNeither(t *testing.T) {
	p := newParties(t)
	for file, mode := range map[string]os.FileMode{p.private: 0o600, p.pu: 0o644} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v, want %v", file, info.Mode(), err, mode)
		}
	}
	key, err := proof.GenerateKey(rand.Reader, "x")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(p.pu)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.private); err != nil {
		t.Fatal(err)
	}
	var request *logs.RequestError
	if err := WriteKey(p.private, key); !errors.As(err, &request) {
		t.Errorf("beside another public key: want a RequestError, got %v", err)
	}
	if _, err := os.Stat(p.private); err == nil {
		t.Error("the private key was left")
	}
	if after, err := os.ReadFile(p.pu); err != nil || string(after) != string(before) {
		t.Errorf("the public key was changed: %v", err)
	}
}

// TestALogIsComparedWithEachCheckpoint signs a log, then compares it, one that was changed, and one that was cut.
func TestALogIsComparedWithEachCheckpoint(t *testing.T) {
	p := newParties(t)
	early, late := p.sign(t, p.log, p.private, "early", 30), p.sign(t, p.log, p.private, "late", 120)
	signed, err := ReadSigned([]string{p.pu}, []string{late, early})
	if err != nil || len(signed) != 2 || signed[0].Size != 30 {
		t.Fatalf("the checkpoints are %+v, %v, want the smaller one first", signed, err)
	}
	forged := slices.Clone(p.entries)
	forged[59].Time++
	for _, tc := range []struct {
		name    string
		entries []eventlog.Entry
		last    uint64
		rest    Rest
		agree   int
		from    uint64 // of the mismatch; 0 for none
		want    string // of its reason, or why it is not compared
	}{
		{"as it was signed", p.entries, 120, Rest{}, 2, 0, ""},
		{"changed behind the first", forged, 120, Rest{}, 1, 31, "entries 31 to 120 are not all what"},
		{"cut", p.entries[:60], 60, Rest{}, 1, 61, "the log ends with entry 60, but"},
		{"with an end that was not read", p.entries[:60], 60, Rest{Damaged, "it is damaged at entry 61"}, 1, 0,
			"the log can be read up to entry 60: it is damaged at entry 61"},
	} {
		c, err := Compare(t.Context(), p.open(t, tc.entries), signed, tc.last, tc.rest)
		if err != nil || len(c.Agree) != tc.agree || len(c.Agree)+len(c.Mismatches)+len(c.NotCompared) != 2 {
			t.Errorf("%s: %+v, %v, want %d to agree", tc.name, c, err, tc.agree)
		}
		if (len(c.Mismatches) > 0) != (tc.from != 0) {
			t.Errorf("%s: mismatches %+v, want one from entry %d on", tc.name, c.Mismatches, tc.from)
		}
		for _, m := range c.Mismatches {
			if m.From != tc.from || m.Size != 120 || !strings.Contains(m.Reason, tc.want) {
				t.Errorf("%s: %+v, want from entry %d on: %s", tc.name, m, tc.from, tc.want)
			}
		}
		for _, n := range c.NotCompared {
			if n.Size != 120 || tc.want == "" || n.Reason != tc.want {
				t.Errorf("%s: %+v, want %s", tc.name, n, tc.want)
			}
		}
	}
	var request *logs.RequestError
	if _, err := ReadSigned(nil, []string{early}); !errors.As(err, &request) {
		t.Errorf("no key: want a RequestError, got %v", err)
	}
	if _, err := ReadSigned([]string{p.pu}, nil); !errors.As(err, &request) {
		t.Errorf("no checkpoint: want a RequestError, got %v", err)
	}
}

// A log that ends before a checkpoint may have lost its end by a disk or by a backup that was restored. One that has
// other entries has not.
func TestALogThatEndsBeforeACheckpointIsNotCalledAnotherOne(t *testing.T) {
	p := newParties(t)
	signed, err := ReadSigned([]string{p.pu}, []string{p.sign(t, p.log, p.private, "late", 120)})
	if err != nil {
		t.Fatal(err)
	}
	forged := slices.Clone(p.entries)
	forged[59].Time++
	for name, tc := range map[string]struct {
		entries       []eventlog.Entry
		kind          MismatchKind
		said, notSaid string
	}{
		"cut":     {p.entries[:60], EndsBefore, "an older backup that was restored", "No fault of a disk"},
		"changed": {forged, AnotherHistory, "No fault of a disk", "backup"},
	} {
		c, err := Compare(t.Context(), p.open(t, tc.entries), signed, uint64(len(tc.entries)), Rest{})
		if err != nil || len(c.Mismatches) != 1 || c.Mismatches[0].Kind != tc.kind {
			t.Fatalf("%s: %+v, %v, want %s", name, c, err, tc.kind)
		}
		advice := (&MismatchError{Path: "x", Mismatches: c.Mismatches}).Advice()
		if !strings.Contains(advice, tc.said) || strings.Contains(advice, tc.notSaid) {
			t.Errorf("%s: the advice is %q, want %q", name, advice, tc.said)
		}
	}
}

// Each checkpoint is reported once, also where the entries up to one of them cannot be read.
func TestNoCheckpointIsPassedOverWhereEntriesCannotBeRead(t *testing.T) {
	p := newParties(t)
	var files []string
	for _, size := range []uint64{30, 70, 120} {
		files = append(files, p.sign(t, p.log, p.private, fmt.Sprint(size), size))
	}
	signed, err := ReadSigned([]string{p.pu}, files)
	if err != nil {
		t.Fatal(err)
	}
	path := logstest.Segmented(t, p.entries, 40)
	if err := os.Truncate(logstest.SegmentOf(path, 41), 4096); err != nil {
		t.Fatal(err)
	}
	log, err := logs.Options{}.OpenUnexamined(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c, err := Compare(t.Context(), log, signed, 120, Rest{})
	if err != nil || len(c.Agree)+len(c.Mismatches)+len(c.NotCompared) != 3 {
		t.Fatalf("%+v, %v, want each of three checkpoints once", c, err)
	}
	if len(c.Agree) == 0 || c.Agree[0].Size != 30 || len(c.NotCompared) == 0 || c.NotCompared[0].Size != 70 ||
		c.NotCompared[0].Kind != Damaged {
		t.Errorf("%+v, want 30 entries to agree, and 70 not to be compared", c)
	}
}
