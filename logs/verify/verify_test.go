package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// checksSegments tells the test's executable to be the process that checks segments.
const checksSegments = "checks-segments"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == checksSegments {
		if err := CheckSegments(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// How a verification ends.
const (
	whole   = "whole"   // nothing is wrong
	failed  = "failed"  // something is wrong that is no damage
	damaged = "damaged" // the log is damaged
)

// optionsOf returns options that check segments in other processes, and put notes behind each other, a line each.
func optionsOf(notes *strings.Builder) Options {
	return Options{
		Options: logs.Options{Report: func(message string) { fmt.Fprintln(notes, message) }},
		Checker: func(ctx context.Context) (*exec.Cmd, error) {
			self, err := os.Executable()
			return exec.CommandContext(ctx, self, checksSegments), err
		},
	}
}

// verified verifies a log. complaint has the notes and the faults.
func verified(t testing.TB, path string) (report *Report, complaint, end string) {
	t.Helper()
	var notes strings.Builder
	report, err := Run(t.Context(), path, optionsOf(&notes))
	if err != nil {
		t.Fatal(err)
	}
	err = report.Err()
	var damage *eventlog.DamagedError
	switch {
	case err == nil:
		return report, notes.String(), whole
	case errors.As(err, &damage):
		return report, notes.String() + err.Error(), damaged
	}
	return report, notes.String() + err.Error(), failed
}

func TestVerifyFindsALogWhole(t *testing.T) {
	for name, path := range map[string]string{
		"no entries":                      logstest.Segmented(t, nil, 1),
		"one segment":                     logstest.Segmented(t, logstest.WellFormed(100), 100),
		"many segments":                   logstest.Segmented(t, logstest.WellFormed(100), 11),
		"a segment checked in many parts": logstest.Segmented(t, logstest.WellFormed(3*partSize+1), 4*partSize),
	} {
		t.Run(name, func(t *testing.T) {
			log, err := boltlog.OpenReadOnly(path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			last, _ := log.Last()
			facts, complaint, end := verified(t, path)
			if end != whole || !facts.Whole || facts.Live || facts.Entries != last || complaint != "" {
				t.Errorf("it ends %s, %+v, complaint %q", end, facts, complaint)
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
		{"a byte of a sealed segment", func(log string) error { return flip(logstest.SegmentOf(log, 11), "uid-p16") },
			11, 16, "checksum"},
		{"a byte of the live segment", func(log string) error { return flip(logstest.SegmentOf(log, 31), "uid-p34") },
			31, 34, "checksum"},
		{"a sealed segment cut short", func(log string) error {
			return os.Truncate(logstest.SegmentOf(log, 11),
				20480)
		}, 11, 11, "cut short"},
		{"the live segment cut short", func(log string) error {
			return os.Truncate(logstest.SegmentOf(log, 31),
				16384)
		}, 31, 31, "cut short"},
		{"the live segment empty", func(log string) error { return os.Truncate(logstest.SegmentOf(log, 31), 0) }, 31,
			31, "only 0 bytes"},
		{"a segment missing", func(log string) error { return os.Remove(logstest.SegmentOf(log, 21)) }, 21, 21,
			"the segment is missing"},
		{"the first segment missing", func(log string) error { return os.Remove(logstest.SegmentOf(log, 1)) }, 1, 1,
			"the segment is missing"},
		{"two segments swapped", func(log string) error {
			return errors.Join(os.Rename(logstest.SegmentOf(log, 11), log+".x"), os.Rename(logstest.SegmentOf(log,
				21), logstest.SegmentOf(log, 11)),
				os.Rename(log+".x", logstest.SegmentOf(log, 21)))
		}, 11, 11, "begins with entry 21"},
		{"garbage behind a sealed segment", func(log string) error { return grow(logstest.SegmentOf(log, 11), 4096) },
			11, 21, "4096 bytes stand behind"},
		{"a little garbage behind a sealed segment", func(log string) error {
			return grow(logstest.SegmentOf(log, 11),
				5)
		}, 11, 21, "whole number of pages"},
		{"a little garbage behind the live segment", func(log string) error {
			return grow(logstest.SegmentOf(log, 31),
				5)
		}, 31, 41, "whole number of pages"},
		{"another file in a segment's place", func(log string) error {
			return os.WriteFile(logstest.SegmentOf(log, 21), make([]byte, 1<<16), 0o600)
		}, 21, 21, "not a Rollcall log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := logstest.Segmented(t, logstest.WellFormed(40), 10)
			if err := tc.damage(path); err != nil {
				t.Fatal(err)
			}
			facts, complaint, end := verified(t, path)
			if end != damaged || facts.Whole || facts.Damage == nil {
				t.Fatalf("it ends %s, %+v", end, facts)
			}
			if d := facts.Damage; d.Path != logstest.SegmentOf(path, tc.first) || d.Seq != tc.seq ||
				!strings.Contains(d.Reason, tc.want) {
				t.Errorf(
					"found %+v, want %s at entry %d with %q",
					d,
					logstest.SegmentOf(path, tc.first),
					tc.seq,
					tc.want,
				)
			}
			if facts.Entries != tc.seq-1 ||
				!strings.Contains(complaint, fmt.Sprintf("log damaged at entry %d", tc.seq)) {
				t.Errorf("%d entries are said to be good; complaint %q", facts.Entries, complaint)
			}
			var damage *eventlog.DamagedError
			if n, err := readAll(t, path); n != int(tc.seq)-1 || !errors.As(err, &damage) || damage.Seq != tc.seq {
				t.Errorf("%d entries are read, and then %v", n, err)
			}
		})
	}
}

// readAll returns how many entries of a log can be read, and the error behind them.
func readAll(t testing.TB, path string) (n int, err error) {
	t.Helper()
	log, err := logs.Options{}.Open(t.Context(), path)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	for _, err := range log.Read(context.Background(), 1) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Faults of entries that are written correctly: within a part of a segment, between two parts, and between two
// segments.
func TestVerifyFindsEntriesThatCannotFollow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int // of segments
		seq    int
		change func(e *eventlog.Entry)
		want   string
	}{
		{"time", 20000, 50, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the entry before it"},
		{"time where parts meet", 20000, partSize + 1, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the " +
			"entry before it"},
		{"time where segments meet", 10000, 10001, func(e *eventlog.Entry) { e.Time -= 2 }, "before that of the " +
			"entry before it"},
		{"epoch", 20000, 50, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"epoch where parts meet", 20000, partSize + 1, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"epoch where segments meet", 10000, 10001, func(e *eventlog.Entry) { e.Epoch++ }, "its epoch is"},
		{"the beginning", 20000, 1, func(e *eventlog.Entry) { e.Payload = &eventlog.Tick{} }, "the log begins with " +
			"Tick"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entries := logstest.WellFormed(20000)
			tc.change(&entries[tc.seq-1])
			facts, _, end := verified(t, logstest.Segmented(t, entries, tc.size))
			if end != damaged || facts.Damage == nil || facts.Damage.Seq != uint64(tc.seq) ||
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
		})
	}
}

// Whatever page is overwritten, log verify says that the log is damaged or, of a page that no one reads, whole.
func TestVerifySurvivesOverwrittenPages(t *testing.T) {
	path := logstest.Segmented(t, logstest.WellFormed(300), 100)
	file := logstest.SegmentOf(path, 101)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for page := range len(good) / 4096 {
		bad := bytes.Clone(good)
		copy(bad[page*4096:], bytes.Repeat([]byte{byte(0xff >> (page % 3))}, 4096))
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		facts, complaint, end := verified(t, path)
		switch {
		case end == damaged && facts.Damage.Path == file && facts.Entries >= 100:
			found++
		case end != whole || !facts.Whole:
			t.Errorf("page %d: it ends %s, %+v, %+v, complaint %q", page, end, facts, facts.Damage, complaint)
		}
	}
	if found < len(good)/4096/2 {
		t.Errorf("of %d pages overwritten %d were found", len(good)/4096, found)
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
		path := logstest.SegmentOf("a.log", 101)
		_, err := tc.last.result(path, errors.New("exit status 2"), []byte("fatal error: fault\n[signal SIGBUS]\n"))
		var damaged *eventlog.DamagedError
		if !errors.As(err, &damaged) || damaged.Path != path || damaged.Seq != tc.want ||
			!strings.Contains(err.Error(), "fatal error: fault") {
			t.Errorf("%s: error %v, want damage at entry %d", name, err, tc.want)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	const total = 400_000
	path := logstest.Segmented(b, logstest.WellFormed(total), total/2)
	for b.Loop() {
		if facts, _, end := verified(b, path); end != whole || facts.Entries != total {
			b.Fatalf("it ends %s, %+v", end, facts)
		}
	}
	b.ReportMetric(total*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}
