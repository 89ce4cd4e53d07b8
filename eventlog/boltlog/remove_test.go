package boltlog

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func TestRemovedSegmentsAreGoneAndTheLogGoesOn(t *testing.T) {
	path := newSegments(t, 4, 10)
	before, err := OpenReadOnly(path)
	must(t, err)
	got, err := Remove(path, 21)
	must(t, err)
	if got.First != 1 || got.Last != 20 || got.Segments != 2 || got.Dir != "" || got.Bytes == 0 {
		t.Fatalf("removed %+v", got)
	}
	wantArchived(t, onlyError(before.Read(context.Background(), 5)), 5, 21)
	must(t, before.Close())
	files, err := OwnFiles(path)
	if must(t, err); len(files) != 2 || files[0].First != 21 || files[1].First != 31 || files[1].Bytes == 0 {
		t.Errorf("the segments are %+v", files)
	}
	for _, name := range []string{segmentName(1), segmentName(11)} {
		if _, err := os.Stat(filepath.Join(path, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 21, 40) })
	w, err := everyAppend.Open(path)
	must(t, err)
	must(t, w.Append(context.Background(), 40, logtest.Entries(41, 10)))
	must(t, w.Close())
	if got, err = Remove(path, 100); err != nil || got.First != 21 || got.Last != 40 {
		t.Errorf("removed %+v, error %v", got, err)
	}
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 41, 50) })
	if got, err = Remove(path, 100); err != nil || got.Segments != 0 {
		t.Errorf("the last segment: removed %+v, error %v", got, err)
	}
}

// TestRemovingThatWasInterruptedIsFinished has files left that ORIGIN says were removed.
func TestRemovingThatWasInterruptedIsFinished(t *testing.T) {
	path := newSegments(t, 4, 10)
	kept := filepath.Join(t.TempDir(), "kept")
	must(t, os.Mkdir(kept, 0o700))
	for _, name := range []string{segmentName(1), segmentName(11)} {
		must(t, os.Link(filepath.Join(path, name), filepath.Join(kept, name)))
	}
	_, err := Remove(path, 21)
	must(t, err)
	for _, left := range [][]string{{segmentName(1), segmentName(11)}, {segmentName(11)}} {
		for _, name := range left {
			must(t, os.Link(filepath.Join(kept, name), filepath.Join(path, name)))
		}
		first := uint64(1 + 10*(2-len(left)))
		openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, first, 40) })
		got, err := Remove(path, 11)
		must(t, err)
		if len(left) == 2 && got.Last != 10 {
			t.Errorf("removed %+v", got)
		}
		_, err = Remove(path, 21)
		must(t, err)
		openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 21, 40) })
	}
}

func TestWhatWasArchivedBeforeIsLeftAlone(t *testing.T) {
	path, dir := archivedLog(t)
	_, err := Remove(path, 31)
	must(t, err)
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 31, 40) })
	if _, err := os.Stat(filepath.Join(dir, segmentName(11))); err != nil {
		t.Error(err)
	}
	again := filepath.Join(t.TempDir(), "again")
	w, err := everyAppend.Open(path)
	must(t, err)
	must(t, w.Append(context.Background(), 40, logtest.Entries(41, 10)))
	must(t, w.Close())
	_, err = Archive(path, 41, again, nil)
	must(t, err)
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 31, 50) })
}

// TestSegmentsAreRemovedBesideTheirWriter has readers come and go meanwhile: each reads to the end, from where it can.
func TestSegmentsAreRemovedBesideTheirWriter(t *testing.T) {
	path := newSegments(t, 2, 10)
	w, err := everyAppend.Open(path)
	must(t, err)
	var group sync.WaitGroup
	stop := make(chan struct{})
	read := func(l *Log) {
		next := l.First()
		var entries int
		for e, err := range l.Read(context.Background(), next) {
			if _, archived := err.(*eventlog.ArchivedError); archived { //nolint:errorlint // as it is
				return // removed between the two calls
			}
			if err != nil || e.Seq != next {
				t.Errorf("entry %d, error %v, want %d", e.Seq, err, next)
				return
			}
			next++
			entries++
		}
	}
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			l, err := OpenReadOnly(path)
			if err != nil {
				t.Error(err)
				return
			}
			read(l)
			must(t, l.Close())
		}
	})
	for i := range uint64(20) {
		must(t, w.Append(context.Background(), 20+10*i, logtest.Entries(21+10*i, 10)))
		if i%3 == 0 {
			_, err := Remove(path, 10*i)
			must(t, err)
		}
	}
	close(stop)
	group.Wait()
	must(t, w.Close())
	openBoth(t, everyAppend, path, func(t *testing.T, l *Log) { wantEntries(t, l, 171, 220) })
}
