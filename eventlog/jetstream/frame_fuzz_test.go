package jetstream

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/merkle"
)

// FuzzAMessage gives the reader of a stream any bytes as a message: it says what is wrong, or takes a frame that has
// the same bytes again when it is written.
func FuzzAMessage(f *testing.F) {
	tree := merkle.Tree{}
	for i := range 5 {
		tree.Add([32]byte{byte(i)})
	}
	for _, seed := range []frame{
		{kind: kindOrigin, part: 1, parts: 1, treeAt: 1, tree: &merkle.Tree{}},
		{kind: kindAppend, part: 1, parts: 1, before: 5, last: 7, hash: [32]byte{1}, treeAt: 3, tree: &tree},
		{kind: kindAppend, part: 2, parts: 3, before: 5, last: 7, treeAt: 1},
	} {
		f.Add(seed.append(nil), uint64(3))
		f.Add(append(seed.append(nil), 3, 'a', 'b', 'c'), uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		got, rest, err := parseFrame(data, at)
		if err != nil {
			return
		}
		again := got.append(nil)
		isWhole := got.tree != nil || data[offsetNodes] == 0 // nodes of no tree are skipped
		if isWhole && !bytes.Equal(append(again, rest...), data) {
			t.Errorf("%x is written as %x", data, again)
		}
		var a assembly
		complete, err := a.take(message{seq: at, data: data})
		if err != nil || !complete {
			return
		}
		chain := eventlog.Chain{Seq: got.before}
		_ = a.records(&chain, func(rec []byte) error {
			_, err := chain.Record(rec)
			return err
		})
	})
}

// The parts of an append that no writer made are not gathered without end.
func TestAnAppendThatIsTooLargeIsNotGathered(t *testing.T) {
	var a assembly
	f := frame{kind: kindAppend, parts: maxParts, before: 1, last: 9, treeAt: 1}
	body := make([]byte, mostPiece)
	for part := 1; part <= maxParts; part++ {
		f.part = part
		if _, err := a.take(message{seq: uint64(part) + 1, data: append(f.append(nil), body...)}); err != nil {
			if !strings.Contains(err.Error(), "more than") || len(a.body) > mostBody+mostPiece {
				t.Errorf("after %d bytes: %v", len(a.body), err)
			}
			return
		}
	}
	t.Error("it takes all parts")
}
