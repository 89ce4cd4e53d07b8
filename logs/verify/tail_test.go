package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// toldLog is a log that this process writes to and serves, changed on the way as change does it.
type toldLog struct {
	localapi.Log
	change func(seq uint64, rec []byte) []byte // nil for a record that is left out
}

func (l toldLog) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range l.Log.Records(ctx, from) {
			if err == nil && l.change != nil {
				if r.Bytes = l.change(r.Seq, bytes.Clone(r.Bytes)); r.Bytes == nil {
					continue
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// servedLog makes a log of entries, size of them in each segment, and writes to it and serves it until the test ends.
func servedLog(t *testing.T, entries []eventlog.Entry, size int, change func(seq uint64, rec []byte) []byte) string {
	t.Helper()
	path := logstest.Segmented(t, entries, size)
	log, err := boltlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	server, err := localapi.Serve(path, toldLog{log, change}, "v1.2.3", func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Close(path), log.Close()); err != nil {
			t.Error(err)
		}
	})
	return path
}

func TestVerifyReadsOnInWhatTheWriterTells(t *testing.T) {
	for name, tc := range map[string]struct {
		entries, size int
		sealed        uint64
	}{
		"nothing sealed yet":       {25, 25, 0},
		"segments and a tail":      {40, 10, 30},
		"a tail of several parts":  {20000, 100, 19900},
		"one entry":                {1, 1, 0},
		"no entry":                 {0, 1, 0},
		"a tail that is not small": {3 * partSize, partSize, 2 * partSize},
	} {
		t.Run(name, func(t *testing.T) {
			path := servedLog(t, logstest.WellFormed(tc.entries), tc.size, nil)
			facts, complaint, end := verified(t, path)
			if end != whole || !facts.Whole || !facts.Live || facts.Unread != "" ||
				facts.Entries != uint64(tc.entries) {
				t.Fatalf("it ends %s, %+v, complaint %q", end, facts, complaint)
			}
			if want := fmt.Sprintf(
				"the log is being written to: read up to entry %d\n",
				tc.entries,
			); complaint != want {
				t.Errorf("complaint %q, want %q", complaint, want)
			}
			want := &Tail{First: tc.sealed + 1, Last: uint64(tc.entries), PID: os.Getpid(), Version: "v1.2.3"}
			if got := facts.Tail; tc.entries == 0 && got != nil || tc.entries > 0 && (got == nil || *got != *want) {
				t.Errorf("the tail is %+v, want %+v", got, want)
			}
			// The chain and the tree equal the ones of the same log without a writer.
			still, _, _ := verified(t, logstest.Segmented(t, logstest.WellFormed(tc.entries), tc.size))
			if facts.Hash != still.Hash || facts.Root != still.Root && tc.entries > 0 {
				t.Errorf("hash %s and root %s, want %s and %s", facts.Hash, facts.Root, still.Hash, still.Root)
			}
		})
	}
}

// The writer ends after verify has asked it what there is.
func TestVerifySaysThatTheWriterHasEnded(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(40), 10)
	log, err := boltlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	server, err := localapi.Serve(path, log, "v1.2.3", func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	v := verifier{report: &Report{Path: path}}
	defer v.close()
	files, err := v.list(t.Context())
	if err != nil || !files.Live {
		t.Fatalf("live is %t, %v", files.Live, err)
	}
	defer files.Close()
	if err := errors.Join(server.Close(path), log.Close()); err != nil {
		t.Fatal(err)
	}
	// As if the segments had been checked.
	sealed := logstest.WellFormed(40)[29]
	v.report.First, v.report.Entries, v.report.Live = 1, 30, true
	v.prev.Last = sealed.Header()
	if v.prev.Hash, err = v.log.RecordHash(context.Background(), 30); err != nil {
		t.Fatal(err)
	}
	if err := v.tail(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.report.found(nil)
	if v.report.Tail == nil ||
		*v.report.Tail != (Tail{First: 31, Last: 40, PID: os.Getpid(), Version: "v1.2.3", Ended: true}) ||
		!v.report.Whole {
		t.Errorf("%+v, tail %+v", v.report, v.report.Tail)
	}
}

func TestVerifyFindsDamageInWhatTheWriterTells(t *testing.T) {
	late := logstest.WellFormed(40)
	late[34].Time -= 2
	unlike := logstest.WellFormed(40)
	unlike[30].Epoch++
	for name, tc := range map[string]struct {
		entries []eventlog.Entry
		change  func(seq uint64, rec []byte) []byte
		seq     uint64
		want    string
	}{
		"a flipped bit": {logstest.WellFormed(40), func(seq uint64, rec []byte) []byte {
			if seq == 35 {
				rec[len(rec)/2] ^= 1
			}
			return rec
		}, 35, "checksum"},
		"an entry left out": {logstest.WellFormed(40), func(seq uint64, rec []byte) []byte {
			if seq == 35 {
				return nil
			}
			return rec
		}, 35, "its record is that of entry 36"},
		"another past": {logstest.WellFormed(40), func(seq uint64, rec []byte) []byte {
			if seq == 31 {
				e, _, err := eventlog.DecodeRecord(rec)
				if err == nil {
					rec, err = eventlog.AppendRecord(nil, e, [32]byte{1})
				}
				if err != nil {
					panic(err)
				}
			}
			return rec
		}, 31, "it follows a record of hash 01"},
		"time that goes back":        {late, nil, 35, "before that of the entry before it"},
		"an epoch that cannot begin": {unlike, nil, 31, "its epoch is"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, _, end := verified(t, servedLog(t, tc.entries, 10, tc.change))
			if end != damaged || facts.Whole || facts.Damage == nil || facts.Damage.Seq != tc.seq ||
				!strings.Contains(facts.Damage.Reason, tc.want) {
				t.Errorf(
					"it ends %s, %+v, damage %+v, want it at entry %d with %q",
					end,
					facts,
					facts.Damage,
					tc.seq,
					tc.want,
				)
			}
			if facts.Entries != tc.seq-1 || facts.Tail == nil || facts.Tail.Last != tc.seq-1 {
				t.Errorf("%d entries are said to be good, tail %+v", facts.Entries, facts.Tail)
			}
		})
	}
}

// If a scheduler does not serve its log, only the sealed entries are called good.
func TestVerifyDoesNotCallWholeWhatItCannotRead(t *testing.T) {
	for sealed, size := range map[uint64]int{30: 10, 0: 40} { // any order: tests of their own
		t.Run(fmt.Sprint(sealed), func(t *testing.T) {
			path := logstest.Segmented(t, logstest.WellFormed(40), size)
			log, err := boltlog.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			facts, complaint, end := verified(t, path)
			if end != failed || facts.Whole || facts.Damage != nil || facts.Entries != sealed ||
				!strings.Contains(facts.Unread, "its writer does not serve it") {
				t.Errorf("it ends %s, %+v", end, facts)
			}
			if !strings.Contains(complaint, "only a part of "+path+" was checked") ||
				!strings.Contains(complaint, "verify it again") {
				t.Errorf("complaint %q", complaint)
			}
		})
	}
}

func TestACheckpointIsComparedWithWhatTheWriterTells(t *testing.T) {
	another := logstest.WellFormed(40)
	another[32].Time++ // and those behind it are at the same time or later
	for name, tc := range map[string]struct {
		of   []eventlog.Entry // what the checkpoint was made of
		at   uint64
		want string
		seq  uint64
	}{
		"one of the sealed part":               {logstest.WellFormed(40), 20, whole, 0},
		"one of the end":                       {logstest.WellFormed(40), 40, whole, 0},
		"one in the tail":                      {logstest.WellFormed(40), 36, whole, 0},
		"another tail":                         {another, 36, damaged, 1},
		"a later one than was read":            {logstest.WellFormed(41), 41, failed, 0},
		"one of the tail before it is another": {another, 32, whole, 0},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), servedLog(t, logstest.WellFormed(40), 10, nil),
				signedAt(t, tc.of, tc.at))
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == failed {
				err := report.Err()
				if err == nil || !strings.Contains(err.Error(), "can be read up to entry 40: it is being written to") ||
					report.Whole || len(report.NotCompared) != 1 {
					t.Errorf("error %v, report %+v", err, report)
				}
				return
			}
			if tc.want == whole && (!report.Whole || report.Err() != nil || len(report.Checkpoints) != 1) {
				t.Errorf("%+v", report)
			}
			var mismatch *audit.MismatchError
			if tc.want == damaged && (report.Whole || report.Damage != nil || !errors.As(report.Err(), &mismatch) ||
				mismatch.Mismatches[0].From != tc.seq) {
				t.Errorf("%+v, damage %+v, error %v", report, report.Damage, report.Err())
			}
		})
	}
}
