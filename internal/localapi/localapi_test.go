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
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// entry returns the log's entry seq.
func entry(seq uint64) eventlog.Entry {
	e := eventlog.Entry{
		Seq:     seq,
		Epoch:   1,
		Time:    eventlog.TimeOf(began.Add(time.Duration(seq) * time.Second)),
		Payload: &eventlog.Tick{},
	}
	switch {
	case seq == 1:
		e.Payload = &eventlog.EpochStarted{
			ID:      "11111111-2222-4333-8444-555555555555",
			Version: "v",
			Format:  eventlog.FormatVersion,
			Config:  []byte("{}"),
		}
	case seq%3 == 0:
		e.Payload = &eventlog.Deleted{
			Resource: eventlog.Nodes,
			Name:     fmt.Sprintf("node-%d-%s", seq, strings.Repeat("x", 200)),
		}
	}
	return e
}

// served is a log that this process writes to and serves.
type served struct {
	t      *testing.T
	dir    string
	log    *boltlog.Log
	server *localapi.Server
}

func serve(t *testing.T, dir string, n uint64) *served {
	t.Helper()
	return serveIn(t, dir, n, 64<<10)
}

// serveIn is serve with segments of a size.
func serveIn(t *testing.T, dir string, n uint64, size int64) *served {
	t.Helper()
	log, err := boltlog.Options{SegmentBytes: size}.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, dir: dir, log: log}
	s.append(n)
	if s.server, err = localapi.Serve(dir, log, "v1.2.3", noTrouble(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return s
}

// noTrouble is for a server that can read its log.
func noTrouble(t *testing.T) func(error) { return func(err error) { t.Error(err) } }

func (s *served) append(n uint64) {
	s.t.Helper()
	last, err := s.log.Last()
	if err != nil {
		s.t.Fatal(err)
	}
	for n > 0 {
		var batch []eventlog.Entry
		for ; n > 0 && len(batch) < 50; n-- {
			batch = append(batch, entry(last+uint64(len(batch))+1))
		}
		if err := s.log.Append(context.Background(), last, batch); err != nil {
			s.t.Fatal(err)
		}
		last += uint64(len(batch))
	}
}

func (s *served) stop() {
	s.t.Helper()
	if err := s.server.Close(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) join() (*localapi.Joined, error) {
	s.t.Helper()
	sealed, err := boltlog.OpenReadOnly(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = sealed.Close() })
	if !sealed.Live() {
		s.t.Fatal("the log is not being written to")
	}
	return localapi.Join(s.t.Context(), s.dir, sealed, s.open)
}

// open opens the log once more.
func (s *served) open() (localapi.Sealed, error) { return boltlog.OpenReadOnly(s.dir) }

func (s *served) mustJoin() *localapi.Joined {
	s.t.Helper()
	j, err := s.join()
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func wantEntries(t *testing.T, log eventlog.Reader, from, to uint64) {
	t.Helper()
	next := from
	for e, err := range log.Read(context.Background(), from) {
		if err != nil {
			t.Fatalf("entry %d: %v", next, err)
		}
		if want := entry(next); !reflect.DeepEqual(e, want) {
			t.Fatalf("entry %d is %+v, want %+v", next, e, want)
		}
		next++
	}
	if next != to+1 {
		t.Fatalf("entries %d to %d were read, want up to %d", from, next-1, to)
	}
}

func TestALogIsReadWhileItIsWrittenTo(t *testing.T) {
	for _, n := range []uint64{1, 10, 400, 1501} { // nothing sealed, and several segments
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := serve(t, filepath.Join(t.TempDir(), "log"), n)
			j := s.mustJoin()
			i := j.Info()
			want := localapi.Info{First: 1, Last: n, Version: "v1.2.3", PID: os.Getpid(), Instance: i.Instance}
			if i != want || i.Instance == "" {
				t.Errorf("info %+v", i)
			}
			s.append(700) // which are not this reader's any more, and seal what was live
			if last, err := j.Last(); last != n || err != nil {
				t.Fatalf("the last is %d (%v), want %d", last, err, n)
			}
			for _, from := range []uint64{1, n/2 + 1, n} {
				wantEntries(t, j, from, n)
			}
			for _, seq := range []uint64{1, n/2 + 1, n} {
				got, err := eventlog.OriginAt(context.Background(), j, seq)
				want, werr := eventlog.OriginAt(context.Background(), s.log, seq)
				if err != nil || werr != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("behind entry %d: %+v (%v), want %+v (%v)", seq, got, err, want, werr)
				}
				if hash, err := j.RecordHash(context.Background(), seq); hash != want.Hash || err != nil {
					t.Errorf("hash of entry %d: %x (%v), want %x", seq, hash, err, want.Hash)
				}
			}
			if _, err := j.RecordHash(context.Background(), n+1); err == nil {
				t.Error("an entry was found that is behind the last")
			}
			wantEntries(t, s.mustJoin(), 1, n+700)
		})
	}
}

// altered serves a log with one byte of one record changed.
type altered struct {
	localapi.Log
	seq uint64
	at  int
}

func (a altered) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range a.Log.Records(ctx, from) {
			if r.Seq == a.seq {
				r.Bytes = append([]byte{}, r.Bytes...)
				r.Bytes[a.at%len(r.Bytes)] ^= 1
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestWhatDoesNotContinueTheChainIsRefused(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "log"), 1000)
	s.stop()
	for at := range 100 {
		server, err := localapi.Serve(s.dir, altered{s.log, 995, at}, "", noTrouble(t))
		if err != nil {
			t.Fatal(err)
		}
		j := s.mustJoin()
		last := uint64(0)
		var damaged *eventlog.DamagedError
		for e, err := range j.Read(context.Background(), 1) {
			if err == nil {
				last = e.Seq
			} else if !errors.As(err, &damaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
		if damaged == nil || damaged.Seq != 995 || last != 994 {
			t.Fatalf("byte %d: read up to entry %d, then %v", at, last, damaged)
		}
		if err := server.Close(s.dir); err != nil {
			t.Fatal(err)
		}
	}
}

// rewritten serves a log in which one entry was made again, in its place in the chain and with a checksum that fits.
type rewritten struct {
	localapi.Log
	seq uint64
}

func (w rewritten) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range w.Log.Records(ctx, from) {
			if err == nil && r.Seq == w.seq {
				var e eventlog.Entry
				var prev [32]byte
				if e, prev, err = eventlog.DecodeRecord(r.Bytes); err == nil {
					e.Time--
					r.Bytes, err = eventlog.AppendRecord(nil, e, prev)
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestAnEntryThatWasMadeAnewIsRefused(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "log"), 1000)
	s.stop()
	server, err := localapi.Serve(s.dir, rewritten{s.log, 995}, "", noTrouble(t))
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
	var damaged *eventlog.DamagedError
	if !errors.As(failed, &damaged) || damaged.Seq != 996 || last != 995 ||
		!strings.Contains(failed.Error(), "it follows a record of hash") {
		t.Errorf("read up to entry %d, then %v; want damage at entry 996", last, failed)
	}
	if err := server.Close(s.dir); err != nil {
		t.Error(err)
	}
}

func TestASocketCanLieDeepAndMayBeLeftBehind(t *testing.T) {
	dir := t.TempDir()
	for range 8 {
		dir = filepath.Join(dir, strings.Repeat("d", 50))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "log")
	s := serve(t, dir, 10)
	wantEntries(t, s.mustJoin(), 1, 10)
	info, err := os.Stat(filepath.Join(dir, "api.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	// A process that was killed leaves its socket: the next one serves in its place.
	again, err := localapi.Serve(dir, s.log, "", noTrouble(t))
	if err != nil {
		t.Fatal(err)
	}
	wantEntries(t, s.mustJoin(), 1, 10)
	if err := again.Close(dir); err != nil {
		t.Error(err)
	}
}
