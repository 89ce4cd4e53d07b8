package boltlog

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Picked entries equal the entries that reading finds, in any place, and each is checked against the record before it.
func TestPickYieldsWhatReadDoes(t *testing.T) {
	path := newSegments(t, 6, 5)
	l, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all []eventlog.Entry
	for e, err := range l.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	rapid.Check(t, func(rt *rapid.T) {
		seqs := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 30), 0, 30, rapid.ID).Draw(rt, "seqs")
		slices.Sort(seqs)
		i := 0
		for e, err := range l.Pick(t.Context(), seqs) {
			if err != nil {
				rt.Fatal(err)
			}
			if !reflect.DeepEqual(e, all[seqs[i]-1]) {
				rt.Fatalf("entry %d is %+v, want %+v", seqs[i], e, all[seqs[i]-1])
			}
			i++
		}
		if i != len(seqs) {
			rt.Fatalf("%d entries of %d", i, len(seqs))
		}
		hashes, err := l.PickHashes(t.Context(), seqs)
		if err != nil {
			rt.Fatal(err)
		}
		for i, seq := range seqs {
			if want, err := l.RecordHash(t.Context(), seq); err != nil || hashes[i] != want {
				rt.Fatalf("the hash of entry %d is %x, want %x (%v)", seq, hashes[i], want, err)
			}
		}
	})
	for _, err := range l.Pick(t.Context(), []uint64{30, 31}) {
		if err != nil {
			return
		}
	}
	t.Error("entry 31 is not there, and nothing is said of it")
}

func TestPickFindsDamageOfWhatItPicks(t *testing.T) {
	path := newSegments(t, 3, 5)
	tamper(t, segment(path, 6), func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketLog)
		rec := bytes.Clone(b.Get(key(7)))
		rec[len(rec)/2] ^= 1
		return b.Put(key(7), rec)
	})
	l, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, seq := range []uint64{7, 8} { // the one behind it does not follow it any more
		var damaged *eventlog.DamagedError
		for _, err := range l.Pick(t.Context(), []uint64{seq}) {
			if !errors.As(err, &damaged) || damaged.Seq != seq {
				t.Errorf("entry %d of a log in which entry 7 was altered: %v", seq, err)
			}
		}
	}
	for e, err := range l.Pick(t.Context(), []uint64{6, 9}) {
		if err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
