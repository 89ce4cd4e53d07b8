package proof

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// placement has the entries of a log of 21 that place pod ns/a, of a gang, and some similar ones that do not.
var placement = map[uint64]eventlog.Payload{
	4: &eventlog.Decision{Cycle: 1, Namespace: "ns", Name: "x", UID: "x", Outcome: eventlog.Unschedulable},
	5: &eventlog.Decision{Cycle: 2, Namespace: "ns", Name: "a", UID: "a", Group: "g", Outcome: eventlog.Waiting,
		Node: "n1"},
	7: &eventlog.Decision{Cycle: 3, Namespace: "ns", Name: "a", UID: "a", Group: "g", Outcome: eventlog.Waiting,
		Node: "n2"},
	9: &eventlog.Decision{Cycle: 4, Namespace: "ns", Name: "b", UID: "b", Group: "g", Outcome: eventlog.Scheduled,
		Node:    "n3",
		Allowed: []types.UID{"a"}},
	10: &eventlog.Decision{Cycle: 5, Namespace: "ns", Name: "c", UID: "c", Outcome: eventlog.Scheduled, Node: "n1"},
	12: &eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindBound},
	13: &eventlog.BindResult{UID: "b", Node: "n1", Outcome: eventlog.BindBound},
	14: &eventlog.BindResult{UID: "c", Node: "n1", Outcome: eventlog.BindBound},
	16: &eventlog.BindResult{UID: "a", Node: "n1", Outcome: eventlog.BindBound, Decision: 15},
	15: &eventlog.Decision{Cycle: 6, Namespace: "ns", Name: "a", UID: "a", Group: "g", Outcome: eventlog.Scheduled,
		Node: "n1"},
}

func newPlacementRecords(t testing.TB) records {
	t.Helper()
	return newRecords(t, 21, func(e *eventlog.Entry) {
		if p := placement[e.Seq]; p != nil {
			e.Payload = p
		}
	})
}

func TestAPlacementIsProvenByItsEntriesAlone(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	prover := Prover{Log: r}
	for _, tc := range []struct {
		seqs []uint64
		want string // the error; "" for none
	}{
		{[]uint64{5, 9, 12}, ""},
		{[]uint64{5, 9}, ""},
		{[]uint64{5, 15}, ""},
		{[]uint64{5, 15, 17}, "not the result of binding"},
		{[]uint64{5, 15, 16}, ""},
		{[]uint64{15, 16}, ""},
		{[]uint64{5, 9, 16}, "entry 16 is the result of the bind that entry 15 asked for, not entry 9"},
		{[]uint64{10, 14}, ""},
		{[]uint64{10}, ""},
		{[]uint64{7, 9}, ""},
		{[]uint64{7, 9, 12}, "entry 12 is not the result of binding pod ns/a to node n2"},
		{[]uint64{5, 9, 13}, "entry 13 is not the result of binding pod ns/a"},
		{[]uint64{5, 9, 14}, "entry 14 is not the result of binding pod ns/a"},
		{[]uint64{5}, "does not release it"},
		{[]uint64{5, 12}, "does not release it"},
		{[]uint64{5, 10, 12}, "does not release it"},
		{[]uint64{7, 15}, "does not release it"}, // it continues from another node
		{[]uint64{4}, "no Decision that places a pod"},
		{[]uint64{12}, "no Decision that places a pod"},
		{[]uint64{10, 14, 15}, "more entries than a placement has"},
		{[]uint64{9, 5, 12}, "behind entry 9"},
		{[]uint64{5, 9, 12, 13}, "4 entries"},
		{nil, "0 entries"},
		{[]uint64{22}, "entry 22 of a log of 21 entries"},
	} {
		p, err := prover.Placement(context.Background(), tc.seqs, 21)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("entries %d: want an error with %q, got %v", tc.seqs, tc.want, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("entries %d: %v", tc.seqs, err)
			continue
		}
		got, err := again(t, p).Check(known, checkpoint(t, r, 21, signer))
		if err != nil || got.Placed == nil || got.Entry != nil {
			t.Errorf("entries %d: %+v, error %v", tc.seqs, got, err)
			continue
		}
		first := placement[tc.seqs[0]].(*eventlog.Decision)
		if p := got.Placed; p.Name != first.Name || p.UID != first.UID || p.Node != first.Node ||
			p.Group != first.Group || (p.Released != nil) != (first.Outcome == eventlog.Waiting) {
			t.Errorf("entries %d: proven is %+v", tc.seqs, p)
		}
	}
}

// TestAPlacementIsNotProvenByEntriesThatDoNotMakeOne has a prover that lies: it skips the checks of Prover.
func TestAPlacementIsNotProvenByEntriesThatDoNotMakeOne(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	msg := checkpoint(t, r, 21, signer)
	prover := Prover{Log: r}
	included := func(seq uint64) Included {
		p, err := prover.Inclusion(context.Background(), seq, 21)
		if err != nil {
			t.Fatal(err)
		}
		return Included{Seq: seq, Hashes: p.Inclusion.Hashes, Record: p.Inclusion.Record}
	}
	honest, err := prover.Placement(context.Background(), []uint64{5, 9, 12}, 21)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		entries []Included
		want    string
	}{
		{"no release", []Included{included(5), included(12)}, "does not release it"},
		{"another's bind", []Included{included(5), included(9), included(13)}, "not the result of binding"},
		{"another's record", []Included{included(5), {9, included(9).Hashes, included(10).Record}}, "does not hold"},
		{"another's number", []Included{included(5), {10, included(9).Hashes, included(9).Record}}, "does not hold"},
		{"not in order", []Included{included(9), included(5)}, "behind entry 9"},
		{"too many", slices.Repeat([]Included{included(5)}, 4), "4 entries"},
		{"no hashes", []Included{{Seq: 10, Record: included(10).Record}}, "0 hashes"},
	} {
		bad := &Proof{Format: FormatPlacement, Placement: &Placement{
			Size: 21, Root: honest.Placement.Root, Entries: tc.entries}}
		if _, err := bad.Check(known, msg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: want an error with %q, got %v", tc.name, tc.want, err)
		}
	}
	for _, format := range []int{0, Format, 3} {
		bad := *honest
		bad.Format = format
		if _, err := bad.Check(known, msg); err == nil {
			t.Errorf("a placement of format %d is proven", format)
		}
	}
}

// The entry at the checkpoint's end is compared with its chain, too: a checkpoint may be made up of two logs.
func TestAPlacementAtTheEndIsComparedWithTheChain(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	prover := Prover{Log: r}
	p, err := prover.Placement(context.Background(), []uint64{5, 9, 12}, 12)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Check(known, checkpoint(t, r, 12, signer)); err != nil {
		t.Errorf("with the right checkpoint: %v", err)
	}
	c, err := prover.Checkpoint(context.Background(), signer.Name(), 12)
	if err != nil {
		t.Fatal(err)
	}
	c.Chain[3] ^= 1
	msg, err := c.Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Check(known, msg)
	if err == nil || !strings.Contains(err.Error(), "entry 12 has the hash ") {
		t.Errorf("with another chain: %v", err)
	}
}

// A log may have an entry in the place of another one, and be signed with it.
func TestAPlacementIsOfTheEntriesThatItNames(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	r[11] = r[15-1] // releases the pod, in the place of its bind
	p, err := (&Prover{Log: r}).Placement(context.Background(), []uint64{5, 9}, 21)
	if err != nil {
		t.Fatal(err)
	}
	record := r[11]
	included, err := (&Prover{Log: r}).Inclusion(context.Background(), 12, 21)
	if err != nil {
		t.Fatal(err)
	}
	p.Placement.Entries[1] = Included{Seq: 12, Hashes: included.Inclusion.Hashes, Record: record}
	_, err = p.Check(note.VerifierList(verifier), checkpoint(t, r, 21, signer))
	if err == nil || !strings.Contains(err.Error(), "the proof is of entry 12, but what it shows is entry 15") {
		t.Errorf("an entry in the place of another: %v", err)
	}
}

func TestEveryAlteredByteOfAPlacementIsRefused(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	known := note.VerifierList(verifier)
	late := checkpoint(t, r, 21, signer)
	p, err := (&Prover{Log: r}).Placement(context.Background(), []uint64{5, 9, 12}, 21)
	if err != nil {
		t.Fatal(err)
	}
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	alter(content, func(what string, bad []byte) {
		p, err := Decode(bad)
		if err == nil {
			_, err = p.Check(known, late)
		}
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	})
}

// TestAHostilePlacementTakesLittleMemory puts records that are costly to decode in place of a placement's records, with
// a genuine checkpoint.
func TestAHostilePlacementTakesLittleMemory(t *testing.T) {
	r := newPlacementRecords(t)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	p, err := (&Prover{Log: r}).Placement(context.Background(), []uint64{5, 9, 12}, 21)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Attach(checkpoint(t, r, 21, signer)); err != nil {
		t.Fatal(err)
	}
	for i := range p.Placement.Entries {
		p.Placement.Entries[i].Record = emptyContainers(t, p.Placement.Entries[i].Seq, 1<<20)
	}
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	err = measured(t, content, note.VerifierList(verifier))
	if err == nil || !strings.Contains(err.Error(), errProof.Error()) {
		t.Errorf("want that it does not hold, got %v", err)
	}
}

// TestThreeLongPathsAreNotTooManyValues has the largest number of hashes of any proof of a placement.
func TestThreeLongPathsAreNotTooManyValues(t *testing.T) {
	p := &Proof{Format: FormatPlacement, Placement: &Placement{Size: 3}}
	for seq := range uint64(maxEntries) {
		p.Placement.Entries = append(p.Placement.Entries, Included{Seq: seq + 1, Hashes: make([]tlog.Hash, maxHashes)})
	}
	p.Checkpoints = []string{"a", "b"}
	again(t, p)
}
