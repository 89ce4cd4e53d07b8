package proof

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// records is a log in memory.
type records [][]byte

func newRecords(t testing.TB, n int, change func(e *eventlog.Entry)) records {
	t.Helper()
	var out records
	var prev [32]byte
	for _, e := range logtest.Entries(1, n) {
		if change != nil {
			change(&e)
		}
		rec, err := eventlog.AppendRecord(nil, e, prev)
		if err != nil {
			t.Fatal(err)
		}
		prev = eventlog.HashRecord(rec)
		out = append(out, rec)
	}
	return out
}

func (r records) KnownTree(_ context.Context, size uint64) (merkle.Tree, error) {
	var tree merkle.Tree
	for _, rec := range r[:min(size, uint64(len(r)))/7*7] { // as if segments had seven entries
		tree.Add(eventlog.HashRecord(rec))
	}
	return tree, nil
}

func (r records) Records(_ context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for i, rec := range r[from-1:] {
			if !yield(eventlog.Record{Seq: from + uint64(i), Bytes: rec, Hash: eventlog.HashRecord(rec)}, nil) {
				return
			}
		}
	}
}

func (r records) RecordHash(ctx context.Context, seq uint64) ([32]byte, error) {
	return eventlog.HashRecord(r[seq-1]), nil
}

// naiveRoot is RFC 6962's definition of the root, word for word.
func naiveRoot(r records) tlog.Hash {
	switch len(r) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		hash := eventlog.HashRecord(r[0])
		return sha256.Sum256(append([]byte{0}, hash[:]...))
	}
	k := 1
	for 2*k < len(r) {
		k *= 2
	}
	left, right := naiveRoot(r[:k]), naiveRoot(r[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// seeded is a source of bytes that are always the same.
func seeded(seed uint64) io.Reader { return rand.NewChaCha8([32]byte{byte(seed)}) }

func newKey(t testing.TB, name string, seed uint64) (note.Signer, note.Verifier, Key) {
	t.Helper()
	key, err := GenerateKey(seeded(seed), name)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ReadSigner([]byte(key.Private + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := ReadVerifier([]byte(key.Public + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return signer, verifier, key
}

func checkpoint(t testing.TB, r records, size int, signer note.Signer) []byte {
	t.Helper()
	p := Prover{Log: r}
	c, err := p.Checkpoint(context.Background(), signer.Name(), uint64(size))
	if err != nil {
		t.Fatal(err)
	}
	if c.Root != naiveRoot(r[:size]) || c.Chain != eventlog.HashRecord(r[size-1]) {
		t.Fatalf("checkpoint %+v, want root %v", c, naiveRoot(r[:size]))
	}
	msg, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// again writes a proof and reads it.
func again(t testing.TB, p *Proof) *Proof {
	t.Helper()
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	out, err := Decode(content)
	if err != nil {
		t.Fatalf("%v: %s", err, content)
	}
	return out
}

func TestEveryEntryIsProvenAtEverySize(t *testing.T) {
	r := newRecords(t, 70, nil)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	prover := Prover{Log: r}
	for size := 1; size <= len(r); size++ {
		msg := checkpoint(t, r, size, signer)
		for seq := 1; seq <= size; seq++ {
			p, err := prover.Inclusion(context.Background(), uint64(seq), uint64(size))
			if err != nil {
				t.Fatal(err)
			}
			got, err := again(t, p).Check(known, msg)
			if err != nil || got.Entry.Seq != uint64(seq) || len(got.Checkpoints) != 1 ||
				got.Checkpoints[0].Size != uint64(size) {
				t.Fatalf("entry %d of %d: %+v, error %v", seq, size, got, err)
			}
			// It does not hold with the record of another entry, nor with a checkpoint of another size.
			other := *p.Inclusion
			other.Record = r[(seq-1+1)%len(r)]
			if _, err := (&Proof{Format: Format, Inclusion: &other}).Check(known, msg); err == nil {
				t.Fatalf("entry %d of %d is proven by the record of another", seq, size)
			}
			other = *p.Inclusion
			other.Seq = uint64(seq%size + 1)
			if _, err := (&Proof{Format: Format, Inclusion: &other}).Check(known, msg); err == nil && size > 1 {
				t.Fatalf("the record of entry %d passes for that of %d", seq, other.Seq)
			}
		}
	}
}

func TestEveryGrowthIsProven(t *testing.T) {
	r := newRecords(t, 40, nil)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	prover := Prover{Log: r}
	var signed [][]byte
	for size := 1; size <= len(r); size++ {
		signed = append(signed, checkpoint(t, r, size, signer))
	}
	for to := 1; to <= len(r); to++ {
		for from := 1; from <= to; from++ {
			p, err := prover.Consistency(context.Background(), uint64(from), uint64(to))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Attach(signed[from-1]); err != nil {
				t.Fatal(err)
			}
			got, err := again(t, p).Check(known, signed[to-1])
			if err != nil || got.Entry != nil || len(got.Checkpoints) != 2 || got.Checkpoints[0].Size != uint64(from) ||
				got.Checkpoints[1].Size != uint64(to) {
				t.Fatalf("growth from %d to %d: %+v, error %v", from, to, got, err)
			}
		}
	}
}

// A log that was changed in any entry before the first checkpoint cannot prove that it grew from it, neither with its
// own proof nor with the proof of the unchanged log.
func TestChangedLogDoesNotGrowFromTheOldOne(t *testing.T) {
	const from, to = 13, 29
	old := newRecords(t, to, nil)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	before := checkpoint(t, old, from, signer)
	honest, err := (&Prover{Log: old}).Consistency(context.Background(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	for changed := uint64(1); changed <= to; changed++ {
		r := newRecords(t, to, func(e *eventlog.Entry) {
			if e.Seq == changed {
				e.Settled = !e.Settled
			}
		})
		after := checkpoint(t, r, to, signer)
		p, err := (&Prover{Log: r}).Consistency(context.Background(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Check(known, before, after)
		if changed <= from && err == nil {
			t.Errorf("entry %d was changed, and the log is proven to have grown", changed)
		} else if changed > from && err != nil {
			t.Errorf("entry %d, behind the checkpoint, is another: %v", changed, err)
		}
		if changed <= from && p.Attach(before) == nil {
			t.Errorf("entry %d was changed, and the checkpoint is taken for the log's", changed)
		}
		// It does not hold with the old root written into it either.
		forged := *p.Consistency
		forged.FromRoot = honest.Consistency.FromRoot
		if _, err := (&Proof{Format: Format, Consistency: &forged}).Check(
			known,
			before,
			after,
		); (err == nil) != (changed > from) {
			t.Errorf("entry %d was changed: error %v", changed, err)
		}
		forged = *honest.Consistency
		forged.ToRoot = p.Consistency.ToRoot
		if _, err := (&Proof{Format: Format, Consistency: &forged}).Check(known, before, after); err == nil {
			t.Errorf("entry %d was changed, and the old log's proof is taken for it", changed)
		}
		// Two checkpoints of one size are evidence.
		if changed == 3 {
			var fork *ForkError
			if _, err := p.Check(
				known,
				after,
				checkpoint(t, old, to, signer),
			); !errors.As(err, &fork) ||
				fork.Size != to {
				t.Errorf("two checkpoints of the same size: error %v", err)
			}
		}
	}
}

// alter calls f with every change of one byte of content: one bit flipped, and the byte removed.
func alter(content []byte, f func(what string, bad []byte)) {
	for i := range content {
		for bit := range 8 {
			bad := bytes.Clone(content)
			bad[i] ^= 1 << bit
			f(fmt.Sprintf("byte %d (%q) changed to %q", i, content[i], bad[i]), bad)
		}
		f(fmt.Sprintf("byte %d (%q) taken out", i, content[i]), append(bytes.Clone(content[:i]), content[i+1:]...))
	}
	f("a byte added", append(bytes.Clone(content), '\n'))
	f("nothing left", nil)
}

func TestEveryAlteredByteIsRefused(t *testing.T) {
	r := newRecords(t, 21, nil)
	signer, verifier, key := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	early, late := checkpoint(t, r, 9, signer), checkpoint(t, r, 21, signer)
	prover := Prover{Log: r}
	inclusion, err := prover.Inclusion(context.Background(), 5, 21)
	if err != nil {
		t.Fatal(err)
	}
	consistency, err := prover.Consistency(context.Background(), 9, 21)
	if err != nil {
		t.Fatal(err)
	}
	if err := consistency.Attach(early); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*Proof{"inclusion": inclusion, "consistency": consistency} {
		content, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Check(known, late); err != nil {
			t.Fatal(err)
		}
		alter(content, func(what string, bad []byte) {
			p, err := Decode(bad)
			if err == nil {
				_, err = p.Check(known, late)
			}
			if err == nil {
				t.Errorf("%s proof, %s: accepted", name, what)
			}
		})
		alter(late, func(what string, bad []byte) {
			if _, err := p.Check(known, bad); err == nil {
				t.Errorf("%s proof, checkpoint, %s: accepted", name, what)
			}
		})
	}
	alter([]byte(key.Public), func(what string, bad []byte) {
		v, err := ReadVerifier(bad)
		if err == nil && string(bad) != key.Public+"\n" {
			_, err = OpenCheckpoint(late, note.VerifierList(v))
			if err == nil {
				t.Errorf("public key, %s: accepted", what)
			}
		}
	})
	alter([]byte(key.Private), func(what string, bad []byte) {
		s, err := ReadSigner(bad)
		if err == nil && string(bad) != key.Private+"\n" && s.Name() == signer.Name() &&
			s.KeyHash() == signer.KeyHash() {
			t.Errorf("private key, %s: accepted", what)
		}
	})
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	r := newRecords(t, 20, nil)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	otherSigner, otherVerifier, _ := newKey(t, "log.example.org/b", 2)
	impostor, _, _ := newKey(t, "log.example.org/a", 3)
	prover := Prover{Log: r}
	p, err := prover.Inclusion(context.Background(), 5, 20)
	if err != nil {
		t.Fatal(err)
	}
	grown, err := prover.Consistency(context.Background(), 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	at10, at20 := checkpoint(t, r, 10, signer), checkpoint(t, r, 20, signer)
	cosigned := append(bytes.Clone(at20), bytes.SplitAfter(resigned(t, at20, otherSigner), []byte("\n\n"))[1]...)
	foreign, err := note.Sign(&note.Note{Text: "log.example.org/a\n20\nabc\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		proof *Proof
		given [][]byte
		want  string
	}{
		{"no checkpoint", p, nil, "rests on a checkpoint of 20 entries"},
		{"one of two", grown, [][]byte{at10}, "rests on a checkpoint of 20 entries"},
		{"of another size", p, [][]byte{at20, at10}, "a checkpoint of 10 entries, of which the proof does not speak"},
		{"of a key that is not known", p, [][]byte{checkpoint(t, r, 20, impostor)}, "no key that was given has " +
			"signed it"},
		{"of two logs", grown, [][]byte{at10, checkpoint(t, r, 20, otherSigner)}, "checkpoints of two logs"},
		{"of a log that the key does not name", p, [][]byte{resigned(t, at20, otherSigner)}, "the key with that name " +
			"has not signed it"},
		{"not a checkpoint", p, [][]byte{foreign}, "3 lines"},
		{"not a note", p, [][]byte{[]byte("hello\n")}, "malformed note"},
		{"too long", p, [][]byte{make([]byte, 1<<20)}, "too many"},
		{"given twice", p, [][]byte{at20, at20}, ""},
		{"signed by two", p, [][]byte{cosigned}, ""},
	} {
		_, err := tc.proof.Check(note.VerifierList(verifier, otherVerifier), tc.given...)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := p.Check(note.VerifierList(verifier), cosigned); err != nil {
		t.Errorf("a second signature of a key that is not known: %v", err)
	}
	for name, c := range map[string]Checkpoint{"another's": {Origin: "x", Size: 1},
		"of nothing": {Origin: signer.Name()}} {
		if _, err := c.Sign(signer); err == nil {
			t.Errorf("a checkpoint %s was signed", name)
		}
	}
}

// resigned is a checkpoint's text under another signature.
func resigned(t testing.TB, msg []byte, signer note.Signer) []byte {
	t.Helper()
	text, _, _ := strings.Cut(string(msg), "\n\n")
	out, err := note.Sign(&note.Note{Text: text + "\n"}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The signer of the checkpoints may have written a log that is invalid. Check finds that too.
func TestProofOfAWrongLog(t *testing.T) {
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	r := newRecords(t, 8, nil)
	r[4] = r[6] // entry 7 where entry 5 should be
	p, err := (&Prover{Log: r}).Inclusion(context.Background(), 5, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(
		known,
		checkpoint(t, r, 8, signer),
	); err == nil ||
		!strings.Contains(err.Error(), "the proof is of entry 5, but what it shows is entry 7") {
		t.Errorf("an entry in the place of another: %v", err)
	}
	if p, err = (&Prover{Log: r}).Inclusion(context.Background(), 8, 8); err != nil {
		t.Fatal(err)
	}
	c := Checkpoint{Origin: signer.Name(), Size: 8, Root: p.Inclusion.Root, Chain: [32]byte{1}}
	msg, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(known, msg); err == nil || !strings.Contains(err.Error(), "but the checkpoint says 01") {
		t.Errorf("a chain that does not end with the last entry: %v", err)
	}
}

func TestProverRefusesWhatIsNotThere(t *testing.T) {
	r := newRecords(t, 20, nil)
	prover := Prover{Log: r}
	for name, f := range map[string]func() error{
		"entry 0":          func() error { _, err := prover.Inclusion(context.Background(), 0, 20); return err },
		"beyond the size":  func() error { _, err := prover.Inclusion(context.Background(), 11, 10); return err },
		"beyond the log":   func() error { _, err := prover.Inclusion(context.Background(), 5, 21); return err },
		"from nothing":     func() error { _, err := prover.Consistency(context.Background(), 0, 20); return err },
		"backwards":        func() error { _, err := prover.Consistency(context.Background(), 11, 10); return err },
		"to more":          func() error { _, err := prover.Consistency(context.Background(), 11, 21); return err },
		"a checkpoint too": func() error { _, err := prover.Checkpoint(context.Background(), "a", 21); return err },
		"too large":        func() error { _, err := prover.Inclusion(context.Background(), 5, 1<<60); return err },
		"too large growth": func() error { _, err := prover.Consistency(context.Background(), 5, 1<<63); return err },
	} {
		if err := f(); err == nil {
			t.Errorf("%s: proven", name)
		}
	}
	p, err := prover.Inclusion(context.Background(), 5, 20)
	if err != nil {
		t.Fatal(err)
	}
	signer, _, _ := newKey(t, "a", 1)
	for _, bad := range [][]byte{checkpoint(t, r, 19, signer), []byte("x"), nil} {
		if p.Attach(bad) == nil {
			t.Errorf("%q was attached", bad)
		}
	}
}

func TestAPublicKeyDoesNotSignAndAPrivateKeyDoesNotVerify(t *testing.T) {
	_, _, key := newKey(t, "log.example.org/a", 1)
	if _, err := ReadSigner([]byte(key.Public)); err == nil || !strings.Contains(err.Error(), "it is a public key") {
		t.Errorf("signing with the public key: %v", err)
	}
	if _, err := ReadVerifier(
		[]byte(key.Private),
	); err == nil ||
		!strings.Contains(err.Error(), "it is a private key") {
		t.Errorf("checking with the private key: %v", err)
	}
	for _, name := range []string{"", "a b", "a+b", "a\nb", "\xff"} {
		if key, err := GenerateKey(seeded(1), name); err == nil {
			t.Errorf("a key with the name %q: %v", name, key)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := newRecords(f, 20, nil)
	signer, verifier, _ := newKey(f, "a", 1)
	known := note.VerifierList(verifier)
	prover := Prover{Log: r}
	msg := checkpoint(f, r, 20, signer)
	inclusion, err := prover.Inclusion(context.Background(), 5, 20)
	if err != nil {
		f.Fatal(err)
	}
	consistency, err := prover.Consistency(context.Background(), 7, 20)
	if err != nil {
		f.Fatal(err)
	}
	placed := newPlacementRecords(f)
	placement, err := (&Prover{Log: placed}).Placement(context.Background(), []uint64{5, 9, 12}, 21)
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(inclusion.Attach(msg), consistency.Attach(msg),
		placement.Attach(checkpoint(f, placed, 21, signer))); err != nil {
		f.Fatal(err)
	}
	genuine := map[string]bool{}
	for _, p := range []*Proof{inclusion, consistency, placement} {
		content, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
		genuine[string(content)] = true
	}
	f.Add([]byte(`{"format":1,"inclusion":{"seq":1,"size":281474976710656,"root":"","hashes":[],"record":""}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = measured(t, content, known)
		p, err := Decode(content)
		if err != nil {
			return
		}
		out, err := p.Encode()
		if err != nil || !bytes.Equal(out, content) {
			t.Fatalf("%q is written as %q, error %v", content, out, err)
		}
		if _, err := p.Check(known); err == nil && !genuine[string(content)] {
			t.Errorf("proven by what the log did not make: %q", content)
		}
	})
}

func FuzzOpenCheckpoint(f *testing.F) {
	signer, verifier, _ := newKey(f, "a", 1)
	msg := checkpoint(f, newRecords(f, 3, nil), 3, signer)
	f.Add(msg)
	f.Fuzz(func(t *testing.T, other []byte) {
		var c Checkpoint
		var err error
		got := alloc.Bytes(func() { c, err = OpenCheckpoint(other, note.VerifierList(verifier)) })
		if most := CheckpointMemory(len(other)); got > most {
			t.Errorf("%d bytes allocated for a checkpoint of %d, want at most %d", got, len(other), most)
		}
		if err == nil && !bytes.HasPrefix(other, msg) {
			t.Errorf("%q is accepted as %+v", other, c)
		}
	})
}
