package proof

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// A proof of growth rests on two checkpoints, the older one first. Exchanged ones are refused, in the proof and beside.
func TestExchangedCheckpointsAreRefused(t *testing.T) {
	r := newRecords(t, 20, nil)
	signer, verifier, _ := newKey(t, "log.example.org/a", 1)
	grown, err := (&Prover{Log: r}).Consistency(context.Background(), 10, 20)
	if err != nil {
		t.Fatal(err)
	}
	at10, at20 := checkpoint(t, r, 10, signer), checkpoint(t, r, 20, signer)
	carrying := func(checkpoints ...[]byte) *Proof {
		p := *grown
		for _, c := range checkpoints {
			if err := p.Attach(c); err != nil {
				t.Fatal(err)
			}
		}
		return &p
	}
	for _, tc := range []struct {
		name  string
		proof *Proof
		given [][]byte
		want  string
	}{
		{"the older one first", grown, [][]byte{at10, at20}, ""},
		{"the older one last", grown, [][]byte{at20, at10}, "the checkpoints are exchanged: the first one is of 20 " +
			"entries, and the second one of 10"},
		{"the older one first in the proof", carrying(at10, at20), nil, ""},
		{"the older one last in the proof", carrying(at20, at10), nil, "in the proof: the checkpoints are exchanged"},
		{"one in the proof, and the older one beside it", carrying(at20), [][]byte{at10}, ""},
	} {
		_, err := tc.proof.Check(note.VerifierList(verifier), tc.given...)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
}
