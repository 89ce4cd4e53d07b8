package proof

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/alloc"
)

// measured reads and checks a proof, and measures the memory that this takes.
func measured(t testing.TB, content []byte, known note.Verifiers) (err error) {
	t.Helper()
	got := alloc.Bytes(func() {
		var p *Proof
		if p, err = Decode(content); err == nil {
			_, err = p.Check(known)
		}
	})
	t.Logf("%d bytes allocated for a proof of %d: %.200v", got, len(content), err)
	if most := CheckMemory(len(content)); got > most {
		t.Errorf("%d bytes allocated for a proof of %d, want at most %d (error %v)", got, len(content), most, err)
	}
	return err
}

// A proof of 2.7 MB, with a genuine checkpoint, made its reader allocate 1.5 GB before it found that it proves
// nothing.
func TestAHostileProofTakesLittleMemory(t *testing.T) {
	r := newRecords(t, 20, nil)
	signer, verifier, _ := newKey(t, "a", 1)
	prover := Prover{Log: r}
	p, err := prover.Inclusion(context.Background(), 5, 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Attach(checkpoint(t, r, 20, signer)); err != nil {
		t.Fatal(err)
	}
	p.Inclusion.Record = emptyContainers(t, 5, 1<<20)
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := measured(t, content, note.VerifierList(verifier)); err == nil ||
		!strings.Contains(err.Error(), errProof.Error()) {
		t.Errorf("error %v", err)
	}
}

// A proof's values are counted before they are decoded.
func TestAProofOfManyValuesTakesLittleMemory(t *testing.T) {
	for name, content := range map[string]string{
		"hashes": `{"format":1,"inclusion":{"seq":1,"size":2,"root":"","hashes":[` +
			strings.TrimSuffix(strings.Repeat(`null,`, 1<<20), ",") + `],"record":""}}`,
		"checkpoints": `{"format":1,"checkpoints":[` + strings.TrimSuffix(strings.Repeat(`"",`, 1<<20), ",") + `]}`,
		"roots":       `{"format":1,"inclusion":{` + strings.TrimSuffix(strings.Repeat(`"root":0,`, 1<<20), ",") + `}}`,
		"proofs": `{"format":1,` + strings.TrimSuffix(strings.Repeat(`"inclusion":null,"inclusion":{},`, 1<<20), ",") +
			`}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := measured(t, []byte(content), note.VerifierList()); err == nil {
				t.Error("it is accepted")
			}
		})
	}
}

// emptyContainers returns the record of an entry with a pod that has n containers of two bytes.
func emptyContainers(t testing.TB, seq uint64, n int) []byte {
	t.Helper()
	rec, err := eventlog.AppendRecord(nil, eventlog.Entry{Seq: seq, Epoch: 1, Time: 1, Payload: &eventlog.Upserted{
		Resource: eventlog.Pods, Object: eventlog.NewObject(eventlog.Pods)}}, [32]byte{})
	if err != nil {
		t.Fatal(err)
	}
	spec := bytes.Repeat([]byte{0x12, 0}, n) // spec.containers
	rec = append(binary.AppendUvarint(append(rec[:60:60], 0x12), uint64(len(spec))), spec...)
	return binary.BigEndian.AppendUint32(rec, crc32.Checksum(rec, crc32.MakeTable(crc32.Castagnoli)))
}
