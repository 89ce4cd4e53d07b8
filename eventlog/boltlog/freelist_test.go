package boltlog

import (
	"context"
	"encoding/binary"
	"os"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// TestAFreeListThatNamesUsedPagesForbidsAppending flips every bit of the list of free pages of the live segment: a
// writer that can open it must not overwrite an entry.
func TestAFreeListThatNamesUsedPagesForbidsAppending(t *testing.T) {
	path := newLog(t, 1)
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const last = 200
	for seq := uint64(2); seq <= last; seq++ { // each commit leaves free pages behind
		if err := l.Append(context.Background(), seq-1, logtest.Entries(seq, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file := segment(path, 1)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at, size := freelistOf(t, whole)
	refused, accepted := 0, 0
	for bit := at * 8; bit < (at+size)*8; bit++ {
		content := append([]byte{}, whole...)
		content[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path)
		if err != nil {
			if refused++; refused < 4 {
				t.Log(err)
			}
			continue
		}
		accepted++
		for seq := uint64(last + 1); seq <= last+20; seq++ {
			if err := l.Append(context.Background(), seq-1, logtest.Entries(seq, 1)); err != nil {
				t.Fatalf("bit %d: %v", bit, err)
			}
		}
		next := uint64(1)
		for e, err := range l.Read(context.Background(), 1) {
			if err != nil || e.Seq != next {
				t.Fatalf("bit %d of byte %d: entry %d: %v", bit%8, bit/8, next, err)
			}
			next++
		}
		if next != last+21 {
			t.Fatalf("bit %d: %d entries are left", bit, next-1)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d flips are refused, %d do no harm", refused, accepted)
	if refused == 0 || accepted == 0 {
		t.Error("the flips did not reach what they were to reach")
	}
}

// freelistOf returns where a bbolt file's list of free pages stands, as far as it is filled.
func freelistOf(t *testing.T, content []byte) (at, size int) {
	t.Helper()
	const page = 4096
	meta := 0
	if binary.NativeEndian.Uint64(content[page+16+48:]) > binary.NativeEndian.Uint64(content[16+48:]) {
		meta = 1 // the later transaction's
	}
	id := int(binary.NativeEndian.Uint64(content[meta*page+metaFreelistAt:]))
	count := int(binary.NativeEndian.Uint16(content[id*page+10:]))
	if count < 3 || count == 0xFFFF {
		t.Fatalf("the list has %d pages: want a few", count)
	}
	return id * page, pageHeaderSize + 8*count
}
