package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/localapi"
)

// toldLog is a log that this process writes to and serves, changed on the way as change does it.
type toldLog struct {
	localapi.Log
	change func(seq uint64, rec []byte) []byte // nil for a record that is left out
}

func (l toldLog) Records(from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range l.Log.Records(from) {
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
	path := segmented(t, entries, size)
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
			path := servedLog(t, wellFormed(tc.entries), tc.size, nil)
			facts, stderr, code := verified(t, path)
			if code != exitDone || !facts.Whole || !facts.Live || facts.Unread != "" || facts.Entries != uint64(tc.entries) {
				t.Fatalf("exit code %d, %+v, stderr %q", code, facts, stderr)
			}
			if want := fmt.Sprintf("rollcall: the log is being written to: read up to entry %d\n", tc.entries); stderr != want {
				t.Errorf("stderr %q, want %q", stderr, want)
			}
			want := &tailFacts{First: tc.sealed + 1, Last: uint64(tc.entries), PID: os.Getpid(), Version: "v1.2.3"}
			if got := facts.Tail; tc.entries == 0 && got != nil || tc.entries > 0 && (got == nil || *got != *want) {
				t.Errorf("the tail is %+v, want %+v", got, want)
			}
			text := rollcall(t, "log", "verify", path)
			if !strings.HasSuffix(string(text), fmt.Sprintf("\nwhole up to entry %d\n", tc.entries)) ||
				tc.entries > 0 && !strings.Contains(string(text), fmt.Sprintf("entries %d to %d were told by process %d (v1.2.3)", want.First, want.Last, want.PID)) {
				t.Errorf("as text:\n%s", text)
			}
			// The chain and the tree are those of the same log when nobody writes to it.
			still, _, _ := verified(t, segmented(t, wellFormed(tc.entries), tc.size))
			if facts.Hash != still.Hash || facts.Root != still.Root && tc.entries > 0 {
				t.Errorf("hash %s and root %s, want %s and %s", facts.Hash, facts.Root, still.Hash, still.Root)
			}
		})
	}
}

// The writer ends after verify has asked it what there is.
func TestVerifySaysThatTheWriterHasEnded(t *testing.T) {
	path := segmented(t, wellFormed(40), 10)
	log, err := boltlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	server, err := localapi.Serve(path, log, "v1.2.3", func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	v := verifier{facts: verifyFacts{Path: path}}
	defer v.close()
	files, err := v.list()
	if err != nil || !files.Live {
		t.Fatalf("live is %t, %v", files.Live, err)
	}
	defer files.Close()
	if err := errors.Join(server.Close(path), log.Close()); err != nil {
		t.Fatal(err)
	}
	// As if the segments had been checked.
	sealed := wellFormed(40)[29]
	v.shown, v.facts.First, v.facts.Entries, v.facts.Live = newProgress(), 1, 30, true
	v.prev.Last = sealed.Header()
	if v.prev.Hash, err = v.live.RecordHash(30); err != nil {
		t.Fatal(err)
	}
	if err := v.tail(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.found(nil)
	if v.facts.Tail == nil || *v.facts.Tail != (tailFacts{First: 31, Last: 40, PID: os.Getpid(), Version: "v1.2.3", Ended: true}) || !v.facts.Whole {
		t.Errorf("%+v, tail %+v", v.facts, v.facts.Tail)
	}
	var text bytes.Buffer
	if err := v.facts.writeText(&text); err != nil || !strings.Contains(text.String(), "has ended before it had told them all") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestVerifyFindsDamageInWhatTheWriterTells(t *testing.T) {
	late := wellFormed(40)
	late[34].Time -= 2
	unlike := wellFormed(40)
	unlike[30].Epoch++
	for name, tc := range map[string]struct {
		entries []eventlog.Entry
		change  func(seq uint64, rec []byte) []byte
		seq     uint64
		want    string
	}{
		"a flipped bit": {wellFormed(40), func(seq uint64, rec []byte) []byte {
			if seq == 35 {
				rec[len(rec)/2] ^= 1
			}
			return rec
		}, 35, "checksum"},
		"an entry left out": {wellFormed(40), func(seq uint64, rec []byte) []byte {
			if seq == 35 {
				return nil
			}
			return rec
		}, 35, "its record is that of entry 36"},
		"another past": {wellFormed(40), func(seq uint64, rec []byte) []byte {
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
			facts, _, code := verified(t, servedLog(t, tc.entries, 10, tc.change))
			if code != exitDamaged || facts.Whole || facts.Damage == nil || facts.Damage.Seq != tc.seq || !strings.Contains(facts.Damage.Reason, tc.want) {
				t.Errorf("exit code %d, %+v, damage %+v, want it at entry %d with %q", code, facts, facts.Damage, tc.seq, tc.want)
			}
			if facts.Entries != tc.seq-1 || facts.Tail == nil || facts.Tail.Last != tc.seq-1 {
				t.Errorf("%d entries are said to be good, tail %+v", facts.Entries, facts.Tail)
			}
		})
	}
}

// Of a scheduler that does not tell what it has, nothing but what is sealed is called good.
func TestVerifyDoesNotCallWholeWhatItCannotRead(t *testing.T) {
	for sealed, size := range map[uint64]int{30: 10, 0: 40} { // any order: tests of their own
		t.Run(fmt.Sprint(sealed), func(t *testing.T) {
			path := segmented(t, wellFormed(40), size)
			log, err := boltlog.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			facts, stderr, code := verified(t, path)
			if code != exitFailed || facts.Whole || facts.Damage != nil || facts.Entries != sealed || !strings.Contains(facts.Unread, "its writer does not serve it") {
				t.Errorf("exit code %d, %+v", code, facts)
			}
			if !strings.Contains(stderr, "only a part of "+path+" was checked") || !strings.Contains(stderr, "verify it again") {
				t.Errorf("stderr %q", stderr)
			}
			text, _ := exec.Command("rollcall", "log", "verify", path).Output()
			if strings.Contains(string(text), "whole") || !strings.Contains(string(text), "NOT CHECKED") {
				t.Errorf("as text:\n%s", text)
			}
		})
	}
}

func TestACheckpointIsComparedWithWhatTheWriterTells(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "k")
	rollcall(t, "log", "keygen", "--name", "example.org", "--out", key)
	another := wellFormed(40)
	another[32].Time++ // and those behind it are at the same time or later
	for name, tc := range map[string]struct {
		of   []eventlog.Entry // what the checkpoint was made of
		at   int
		want int
		seq  uint64
	}{
		"one of the sealed part":               {wellFormed(40), 20, exitDone, 0},
		"one of the end":                       {wellFormed(40), 40, exitDone, 0},
		"one in the tail":                      {wellFormed(40), 36, exitDone, 0},
		"another tail":                         {another, 36, exitDamaged, 1},
		"a later one than was read":            {wellFormed(41), 41, exitFailed, 0},
		"one of the tail before it is another": {another, 32, exitDone, 0},
	} {
		t.Run(name, func(t *testing.T) {
			signed := rollcall(t, "log", "checkpoint", segmented(t, tc.of, 10), "--key", key, "--at", fmt.Sprint(tc.at))
			file := filepath.Join(t.TempDir(), "signed")
			if err := os.WriteFile(file, signed, 0o600); err != nil {
				t.Fatal(err)
			}
			path := servedLog(t, wellFormed(40), 10, nil)
			cmd := exec.Command("rollcall", "log", "verify", path, "--checkpoint", file, "--key", key+".pub", "-o", "json")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, _ := cmd.Output()
			if code := cmd.ProcessState.ExitCode(); code != tc.want {
				t.Fatalf("exit code %d, want %d\n%s%s", code, tc.want, out, stderr.Bytes())
			}
			if tc.want == exitFailed {
				if !strings.Contains(stderr.String(), "can be read up to entry 40") {
					t.Errorf("stderr %q", stderr.Bytes())
				}
				return
			}
			var facts verifyFacts
			if err := json.Unmarshal(out, &facts); err != nil {
				t.Fatal(err)
			}
			if tc.want == exitDone && (!facts.Whole || len(facts.Checkpoints) != 1) {
				t.Errorf("%+v", facts)
			}
			if tc.want == exitDamaged && (facts.Damage.Seq != tc.seq || facts.Whole) {
				t.Errorf("%+v, damage %+v", facts, facts.Damage)
			}
		})
	}
}
