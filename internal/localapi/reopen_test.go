package localapi_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
)

const (
	// many entries do not fit into the buffers between a server and a reader: the server is still sending when the
	// reader has the first.
	many = 8000
	// whole is the size of a segment that is never sealed.
	whole = 1 << 30
)

// end ends the scheduler, as it does itself: first it stops sending, then it lets go of the log.
func (s *served) end() {
	s.t.Helper()
	s.stop()
	if err := s.log.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// takeOver has another scheduler continue with the log, with n more entries, in small segments from then on.
func (s *served) takeOver(n uint64) {
	s.t.Helper()
	var err error
	if s.log, err = (boltlog.Options{SegmentBytes: 64 << 10}).Open(s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.append(n)
	if s.server, err = localapi.Serve(s.dir, s.log, "v2", noTrouble(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

func TestAReaderWhoseSchedulerEndsReadsOn(t *testing.T) {
	for name, then := range map[string]func(s *served){
		"and nobody goes on with the log":           (*served).end,
		"and another one goes on with it":           func(s *served) { s.end(); s.takeOver(0) },
		"and another one goes on and appends to it": func(s *served) { s.end(); s.takeOver(700) },
		"and lets go of the log later": func(s *served) {
			s.stop()
			go func() {
				time.Sleep(200 * time.Millisecond)
				_ = s.log.Close()
			}()
		},
		"and another one does, and ends": func(s *served) {
			s.end()
			s.takeOver(10)
			s.end()
		},
	} {
		for _, at := range []uint64{0, 1, many / 2, many} { // 0: before the first is asked for
			t.Run(fmt.Sprintf("%s, at %d", name, at), func(t *testing.T) {
				s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
				j := s.mustJoin()
				defer j.Close()
				if at == 0 {
					then(s)
				}
				next := uint64(1)
				for e, err := range j.Read(context.Background(), 1) {
					if err != nil {
						t.Fatalf("entry %d: %v", next, err)
					}
					if want := entry(next); !reflect.DeepEqual(e, want) {
						t.Fatalf("entry %d is %+v, want %+v", next, e, want)
					}
					if e.Seq == at {
						then(s)
					}
					next++
				}
				if next != many+1 {
					t.Fatalf("read up to entry %d, want %d", next-1, many)
				}
				if last, err := j.Last(); last != many || err != nil {
					t.Errorf("the last is %d, %v", last, err)
				}
				wantEntries(t, j, many-3, many) // once more, all in the new place
				if o, err := eventlog.OriginAt(
					context.Background(),
					j,
					many-2,
				); err != nil || o.Seq != many-2 ||
					o.Tree.Size != many-2 {
					t.Errorf("place behind entry %d: %+v, %v", many-2, o, err)
				}
				if _, err := j.RecordHash(context.Background(), many+1); err == nil {
					t.Error("an entry was found that is behind the last")
				}
			})
		}
	}
}

func TestReadersWhoseSchedulerEndsAllReadOn(t *testing.T) {
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
	j := s.mustJoin()
	defer j.Close()
	var readers sync.WaitGroup
	ready := make(chan bool)
	for range 4 {
		readers.Go(func() {
			n := uint64(0)
			for r, err := range j.Records(context.Background(), 1) {
				if n++; n == 10 {
					ready <- true
				}
				if err != nil || r.Seq != n {
					t.Errorf("record %d: %d, %v", n, r.Seq, err)
					return
				}
			}
			if n != many {
				t.Errorf("%d entries, want %d", n, many)
			}
		})
	}
	for range 4 {
		<-ready
	}
	s.end()
	readers.Wait()
}

// A reader must not continue in a log that is not the one that it was in.
func TestAReaderDoesNotGoOnInAnotherLog(t *testing.T) {
	for name, tc := range map[string]struct {
		n    uint64 // of entries in the other log
		seq  uint64 // where that shows
		said string
	}{
		"another past": {many, many / 2, "it is another entry than its scheduler had told"},
		"a shorter one": {many/2 - 1, many / 2, "the log ends with entry 3999, but its scheduler said that it had " +
			"8000"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := serveIn(t, filepath.Join(dir, "log"), many, whole)
			j := s.mustJoin()
			defer j.Close()
			var failed error
			for e, err := range j.Read(context.Background(), 1) {
				if failed = err; err == nil && e.Seq == many/2 {
					s.end()
					other, err := boltlog.Options{SegmentBytes: whole}.Create(filepath.Join(dir, "other"))
					if err != nil {
						t.Fatal(err)
					}
					if err := other.Append(
						context.Background(),
						0,
						otherEntries(tc.n, name == "another past"),
					); err != nil {
						t.Fatal(err)
					}
					if err := errors.Join(
						other.Close(),
						os.Rename(s.dir, s.dir+".away"),
						os.Rename(filepath.Join(dir, "other"), s.dir),
					); err != nil {
						t.Fatal(err)
					}
				}
			}
			var damaged *eventlog.DamagedError
			if !errors.As(failed, &damaged) || damaged.Seq < tc.seq || !strings.Contains(failed.Error(), tc.said) {
				t.Errorf("reading ends with %v, want %q", failed, tc.said)
			}
		})
	}
}

func otherEntries(n uint64, unlike bool) []eventlog.Entry {
	var list []eventlog.Entry
	for seq := uint64(1); seq <= n; seq++ {
		list = append(list, entry(seq))
	}
	if unlike {
		list[1].Time++
	}
	return list
}

// failing serves a log that cannot be read from entry seq on.
type failing struct {
	localapi.Log
	seq uint64
	err error
}

func (f failing) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range f.Log.Records(ctx, from) {
			if r.Seq == f.seq {
				yield(eventlog.Record{}, f.err)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestWhatKeepsASchedulerFromReadingItsLogIsSaidOnBothSides(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"damage": {&eventlog.DamagedError{Path: "/x/1.seg", Seq: 995,
			Err: errors.New("checksum is 1, want 2")}, ""},
		"another error": {errors.New("too many open files"), "the scheduler cannot read its log: too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, filepath.Join(t.TempDir(), "log"), 1000)
			s.stop()
			told := make(chan error, 1)
			server, err := localapi.Serve(s.dir, failing{s.log, 995, tc.err}, "", func(err error) { told <- err })
			if err != nil {
				t.Fatal(err)
			}
			last := uint64(0)
			var failed error
			for e, err := range s.mustJoin().Read(context.Background(), 1) {
				if failed = err; err == nil {
					last = e.Seq
				}
			}
			var got, want *eventlog.DamagedError
			switch {
			case last != 994 || failed == nil:
				t.Errorf("read up to entry %d, then %v", last, failed)
			case !errors.As(tc.err, &want):
				if failed.Error() != tc.want {
					t.Errorf("the reader is told %q, want %q", failed, tc.want)
				}
			case !errors.As(failed, &got) || got.Error() != want.Error():
				t.Errorf("the reader is told %v, want %v", failed, want)
			}
			select { // it has received it before the reader
			case err := <-told:
				if !errors.Is(err, tc.err) {
					t.Errorf("the scheduler is told %v, want %v", err, tc.err)
				}
			default:
				t.Error("the scheduler is not told")
			}
			if err := server.Close(s.dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// If there is nobody to read from, the error says what to do.
func TestAReaderThatCannotGoOnSaysWhatToDo(t *testing.T) {
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
	j := s.mustJoin()
	defer j.Close()
	s.stop() // and keeps the log
	var failed error
	for _, err := range j.Read(context.Background(), 1) {
		failed = err
	}
	if !errors.Is(failed, localapi.ErrNotServed) || !strings.Contains(failed.Error(), "run the command again") {
		t.Errorf("error %v", failed)
	}
	if _, err := s.join(); !errors.Is(err, localapi.ErrNotServed) {
		t.Errorf("nobody serves the log: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "api.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}
