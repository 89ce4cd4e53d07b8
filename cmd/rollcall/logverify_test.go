package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// wellFormed returns n entries from 1 on, of every kind, whose epochs are right too.
func wellFormed(n int) []eventlog.Entry {
	entries := logtest.Entries(1, n)
	epoch := uint64(0)
	for i := range entries {
		if entries[i].Kind() == eventlog.KindEpochStarted {
			epoch++
		}
		entries[i].Epoch = epoch
	}
	return entries
}

// segmented makes a log of entries, size of them in each segment.
func segmented(t testing.TB, entries []eventlog.Entry, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.log")
	log, err := boltlog.Options{SegmentBytes: 1}.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(entries); at += size {
		if err := log.Append(uint64(at), entries[at:min(at+size, len(entries))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func segmentOf(log string, first int) string {
	return filepath.Join(log, fmt.Sprintf("%020d.seg", first))
}

// verified runs log verify.
func verified(t testing.TB, path string, more ...string) (facts verifyFacts, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("rollcall", append([]string{"log", "verify", path, "-o", "json"}, more...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &facts); err != nil {
		t.Fatalf("log verify prints %q, %v\n%s", out, err, complaint.Bytes())
	}
	return facts, complaint.String(), cmd.ProcessState.ExitCode()
}

func TestVerifyFindsALogWhole(t *testing.T) {
	for name, path := range map[string]string{
		"no entries":                      segmented(t, nil, 1),
		"one segment":                     segmented(t, wellFormed(100), 100),
		"many segments":                   segmented(t, wellFormed(100), 11),
		"a segment checked in many parts": segmented(t, wellFormed(3*partSize+1), 4*partSize),
	} {
		t.Run(name, func(t *testing.T) {
			log, err := boltlog.OpenReadOnly(path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			last, _ := log.Last()
			facts, stderr, code := verified(t, path)
			if code != exitDone || !facts.Whole || facts.Live || facts.Entries != last || stderr != "" {
				t.Errorf("exit code %d, %+v, stderr %q", code, facts, stderr)
			}
		})
	}
}

func TestVerifyFindsDamage(t *testing.T) {
	flip := func(file, text string) error {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		at := bytes.Index(content, []byte(text))
		if at < 0 || bytes.Contains(content[at+1:], []byte(text)) {
			return fmt.Errorf("%q is not there once", text)
		}
		content[at] ^= 4
		return os.WriteFile(file, content, 0o600)
	}
	grow := func(file string, by int) error {
		content, err := os.ReadFile(file)
		return errors.Join(err, os.WriteFile(file, append(content, bytes.Repeat([]byte{7}, by)...), 0o600))
	}
	for _, tc := range []struct {
		name   string
		damage func(log string) error
		first  int // of the segment that is named
		seq    uint64
		want   string
	}{
		{"a byte of a sealed segment", func(log string) error { return flip(segmentOf(log, 11), "uid-p16") }, 11, 16, "checksum"},
		{"a byte of the live segment", func(log string) error { return flip(segmentOf(log, 31), "uid-p34") }, 31, 34, "checksum"},
		{"a sealed segment cut short", func(log string) error { return os.Truncate(segmentOf(log, 11), 20480) }, 11, 11, "cut short"},
		{"the live segment cut short", func(log string) error { return os.Truncate(segmentOf(log, 31), 16384) }, 31, 31, "cut short"},
		{"the live segment empty", func(log string) error { return os.Truncate(segmentOf(log, 31), 0) }, 31, 31, "only 0 bytes"},
		{"a segment missing", func(log string) error { return os.Remove(segmentOf(log, 21)) }, 21, 21, "the segment is missing"},
		{"the first segment missing", func(log string) error { return os.Remove(segmentOf(log, 1)) }, 1, 1, "the segment is missing"},
		{"two segments swapped", func(log string) error {
			return errors.Join(os.Rename(segmentOf(log, 11), log+".x"), os.Rename(segmentOf(log, 21), segmentOf(log, 11)),
				os.Rename(log+".x", segmentOf(log, 21)))
		}, 11, 11, "begins with entry 21"},
		{"garbage behind a sealed segment", func(log string) error { return grow(segmentOf(log, 11), 4096) }, 11, 21, "4096 bytes stand behind"},
		{"a little garbage behind a sealed segment", func(log string) error { return grow(segmentOf(log, 11), 5) }, 11, 21, "whole number of pages"},
		{"a little garbage behind the live segment", func(log string) error { return grow(segmentOf(log, 31), 5) }, 31, 41, "whole number of pages"},
		{"another file in a segment's place", func(log string) error {
			return os.WriteFile(segmentOf(log, 21), make([]byte, 1<<16), 0o600)
		}, 21, 21, "not a Rollcall log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := segmented(t, wellFormed(40), 10)
			if err := tc.damage(path); err != nil {
				t.Fatal(err)
			}
			facts, stderr, code := verified(t, path)
			if code != exitDamaged || facts.Whole || facts.Damage == nil {
				t.Fatalf("exit code %d, %+v", code, facts)
			}
			if d := facts.Damage; d.Path != segmentOf(path, tc.first) || d.Seq != tc.seq || !strings.Contains(d.Reason, tc.want) {
				t.Errorf("found %+v, want %s at entry %d with %q", d, segmentOf(path, tc.first), tc.seq, tc.want)
			}
			if facts.Entries != tc.seq-1 || !strings.Contains(stderr, fmt.Sprintf("log damaged at entry %d", tc.seq)) {
				t.Errorf("%d entries are said to be good; stderr %q", facts.Entries, stderr)
			}
			cat := exec.Command("rollcall", "log", "cat", path)
			out, _ := cat.Output()
			if n := bytes.Count(out, []byte("\n")); n != int(tc.seq)-1 || cat.ProcessState.ExitCode() != exitDamaged {
				t.Errorf("log cat prints %d entries and exits with %d", n, cat.ProcessState.ExitCode())
			}
		})
	}
}

// What is wrong with entries that are written correctly: within a part of a segment, where two parts meet, and
// where two segments do.
func TestVerifyFindsEntriesThatCannotFollow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int // of segments
		seq    int
		change func(e *eventlog.Entry)
		want   string
	}{
		{"time", 20000, 50, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the entry before it"},
		{"time where parts meet", 20000, partSize + 1, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the entry before it"},
		{"time where segments meet", 10000, 10001, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the entry before it"},
		{"epoch", 20000, 50, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"epoch where parts meet", 20000, partSize + 1, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"epoch where segments meet", 10000, 10001, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"the beginning", 20000, 1, func(e *eventlog.Entry) { e.Payload = &eventlog.Tick{} }, "the log begins with Tick"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entries := wellFormed(20000)
			tc.change(&entries[tc.seq-1])
			facts, _, code := verified(t, segmented(t, entries, tc.size))
			if code != exitDamaged || facts.Damage == nil || facts.Damage.Seq != uint64(tc.seq) || !strings.Contains(facts.Damage.Reason, tc.want) {
				t.Errorf("exit code %d, %+v, damage %+v, want it at entry %d with %q", code, facts, facts.Damage, tc.seq, tc.want)
			}
		})
	}
}

// Whatever page is overwritten, log verify says that the log is damaged or, of a page that no one reads, whole.
func TestVerifySurvivesOverwrittenPages(t *testing.T) {
	path := segmented(t, wellFormed(300), 100)
	file := segmentOf(path, 101)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page := range len(whole) / 4096 {
		bad := bytes.Clone(whole)
		copy(bad[page*4096:], bytes.Repeat([]byte{byte(0xff >> (page % 3))}, 4096))
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		facts, stderr, code := verified(t, path)
		switch {
		case code == exitDamaged && facts.Damage.Path == file && facts.Entries >= 100:
			found++
		case code != exitDone || !facts.Whole:
			t.Errorf("page %d: exit code %d, %+v, %+v, stderr %q", page, code, facts, facts.Damage, stderr)
		}
	}
	if found < len(whole)/4096/2 {
		t.Errorf("of %d pages overwritten %d were found", len(whole)/4096, found)
	}
}

// That the process that checks a segment crashes is damage of the segment, behind what it found good.
func TestCrashOfACheckIsDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		last segmentLine
		want uint64
	}{
		"at once":           {segmentLine{}, 101},
		"after some time":   {segmentLine{At: 150, First: 101, Last: 200}, 151},
		"in its last check": {segmentLine{At: 200, First: 101, Last: 200}, 201},
	} {
		path := segmentOf("a.log", 101)
		_, err := tc.last.result(path, errors.New("exit status 2"), []byte("fatal error: fault\n[signal SIGBUS]\n"))
		var damaged *eventlog.DamagedError
		if !errors.As(err, &damaged) || damaged.Path != path || damaged.Seq != tc.want || !strings.Contains(err.Error(), "fatal error: fault") {
			t.Errorf("%s: error %v, want damage at entry %d", name, err, tc.want)
		}
	}
}

func TestCommandsReadALogThatIsWrittenTo(t *testing.T) {
	path := segmented(t, wellFormed(40), 10)
	log, err := boltlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const sealed = "rollcall: the log is being written to: read up to entry 30, which is the last that is sealed\n"
	for _, command := range []string{"cat", "info"} {
		cmd := exec.Command("rollcall", "log", command, path)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		if out, err := cmd.Output(); err != nil || len(out) == 0 || complaint.String() != sealed {
			t.Errorf("log %s: error %v, %d bytes, stderr %q", command, err, len(out), complaint.Bytes())
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	const total = 400_000
	path := segmented(b, wellFormed(total), total/2)
	for b.Loop() {
		if facts, _, code := verified(b, path); code != exitDone || facts.Entries != total {
			b.Fatalf("exit code %d, %+v", code, facts)
		}
	}
	b.ReportMetric(total*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
