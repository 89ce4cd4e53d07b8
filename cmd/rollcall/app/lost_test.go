package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/logs"
)

// small simulates forty gangs, with a segment for about each hundred entries and a snapshot for each hundred. It
// returns the log and the arguments that it was made with, except more.
func small(t testing.TB, more ...string) (log string, args []string) {
	t.Helper()
	dir := t.TempDir()
	var jobs strings.Builder
	for i := range 40 {
		fmt.Fprintf(&jobs, "%d %d -1 %d %d -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", i+1, 20*i, 60+i%7, 1+i*5%16)
	}
	workload := filepath.Join(dir, "jobs.swf")
	if err := os.WriteFile(workload, []byte(jobs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "jobs.log")
	args = []string{
		"simulate",
		"--nodes",
		"8x4cpu",
		"--workload",
		workload,
		"--log",
		log,
		"--segment-size",
		"65536",
		"--snapshot-every",
		"100",
	}
	args = append(args, stepByStep...)
	rollcall(t, slices.Concat(args, more)...)
	return log, args
}

// cutBySegments removes the newest segments of a log until there is a snapshot of an entry later than the log's last
// one. It returns that last entry.
func cutBySegments(t testing.TB, log string) (last uint64) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(log, "*.seg"))
	if err != nil || len(segments) < 4 {
		t.Fatalf("segments %q, %v", segments, err)
	}
	seqs := snapshotSeqs(t, log)
	for slices.Reverse(segments); len(segments) > 1; segments = segments[1:] {
		if _, err := fmt.Sscanf(filepath.Base(segments[0]), "%d.seg", &last); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(segments[0]); err != nil {
			t.Fatal(err)
		}
		if last--; last < seqs[len(seqs)-2] {
			return last
		}
	}
	t.Fatalf("no two snapshots of %d are behind a segment", seqs)
	return 0
}

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants runs the command. It requires that exit code, and each of the texts in the output.
func wants(t testing.TB, code int, texts []string, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, got := ran(t, args...)
	if got != code {
		t.Errorf("rollcall %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	for _, text := range texts {
		if !strings.Contains(stdout+stderr, text) {
			t.Errorf("rollcall %s does not say %q:\n%s%s", strings.Join(args, " "), text, stdout, stderr)
		}
	}
	return stdout
}

func TestALogThatLostItsNewestSegmentsIsDamagedAndNotWrittenOver(t *testing.T) {
	log, args := small(t)
	wants(t, exitDone, []string{"\nwhole\n"}, "log", "verify", log)
	cat := rollcall(t, "log", "cat", log)
	last := cutBySegments(t, log)
	seqs := snapshotSeqs(t, log)
	newest := seqs[len(seqs)-1]
	place := fmt.Sprintf("at entry %d", last+1)
	why := fmt.Sprintf(
		"the log ends with entry %d, but there is a snapshot of entry %d: entries %d to %d were acknowledged, and "+
			"are missing",
		last,
		newest,
		last+1,
		newest,
	)
	advice := fmt.Sprintf("--give-up-after %d", last)

	for _, command := range [][]string{{"log", "verify", log}, {"log", "info", log}, {"replay", log}, {"log",
		"archive", log, "--before", "500", "--to", log + ".archive"}, append(args, "--resume")} {
		wants(t, exitDamaged, []string{place, why, advice, "Bring the missing segments"}, command...)
	}
	facts, _, _ := verified(t, log)
	if facts.Whole || facts.Damage == nil || facts.Damage.Seq != last+1 || facts.Entries != last {
		t.Errorf("log verify: %+v", facts)
	}
	if got := wants(
		t,
		exitDamaged,
		[]string{why},
		"log",
		"cat",
		log,
	); !strings.HasPrefix(string(cat), got) ||
		strings.Count(got, "\n") != int(last) {
		t.Errorf("log cat prints %d entries, want the first %d", strings.Count(got, "\n"), last)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	wants(t, exitDone, nil, "log", "export", log, "--up-to", fmt.Sprint(last), "--out", saved+".bundle")
	wants(t, exitDone, nil, "log", "import", saved+".bundle", "--log", saved)
	wants(t, exitDone, []string{"\nwhole\n"}, "log", "verify", saved)

	// The user has to name the entries that are given up, and then they are.
	wants(
		t,
		exitUsage,
		[]string{fmt.Sprintf("the log ends with entry %d", last)},
		append(args, "--resume", "--give-up-after", fmt.Sprint(last-1))...)
	wants(t, exitUsage, []string{"needs --resume"}, append(args, "--give-up-after", fmt.Sprint(last))...)
	if got := snapshotSeqs(t, log); !slices.Equal(got, seqs) {
		t.Fatalf("there are snapshots of entries %d, want %d: nothing was given up yet", got, seqs)
	}
	wants(
		t,
		exitDone,
		[]string{fmt.Sprintf("entries %d to %d are given up", last+1, newest)},
		append(args, "--resume", "--give-up-after", fmt.Sprint(last))...)
	wants(t, exitDone, []string{"\nwhole\n"}, "log", "verify", log)
	wants(t, exitDone, []string{"\nidentical\n"}, "replay", log)
}

// TestWhatCannotBeReadOfSnapshotsIsNotTakenForNothing removes the newest segments. Each thing that could show the loss
// exists but is not readable, in ways that root cannot read either.
func TestWhatCannotBeReadOfSnapshotsIsNotTakenForNothing(t *testing.T) {
	log, args := small(t)
	last := cutBySegments(t, log)
	dir := filepath.Join(log, logs.SnapshotDir)
	later := slices.DeleteFunc(snapshotSeqs(t, log), func(seq uint64) bool { return seq <= last })
	inTheirPlace := func(target string) func() {
		return func() {
			for _, seq := range later {
				must(t, os.Rename(logs.SnapshotsOf(log).File(seq), filepath.Join(log, fmt.Sprint(seq))))
				must(t, os.Symlink(target, logs.SnapshotsOf(log).File(seq)))
			}
		}
	}
	ofAll := func(target string) func() {
		return func() {
			must(t, os.Rename(dir, dir+".away"))
			must(t, os.Symlink(target, dir))
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func()
	}{
		{"files that are links to themselves", inTheirPlace(filepath.Base(logs.SnapshotsOf(log).File(later[0])))},
		{"files that are links to nothing", inTheirPlace("nowhere")},
		{"a directory that is a link to itself", ofAll(logs.SnapshotDir)},
		{"a directory that is a link to nothing", ofAll("nowhere")},
		{"a file for a directory", ofAll("LOCK")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spoil()
			why := []string{
				fmt.Sprintf("the log ends with entry %d, and whether it had more is not known", last),
				"it cannot be read",
				"See that everything in " + dir + " can be read",
			}
			facts, stderr, code := verified(t, log)
			if code != exitFailed || facts.Whole || facts.Damage != nil || facts.EndUnknown == "" ||
				facts.Entries != last || strings.Contains(strings.ToLower(stderr), "remove") {
				t.Errorf("log verify: exit code %d, %+v\n%s", code, facts, stderr)
			}
			wants(
				t,
				exitFailed,
				append(why, fmt.Sprintf("NOT KNOWN to be whole; entries 1 to %d are good", last)),
				"log",
				"verify",
				log,
			)
			if got := wants(t, exitFailed, why, "log", "cat", log); strings.Count(got, "\n") != int(last) {
				t.Errorf("log cat prints %d entries, want %d", strings.Count(got, "\n"), last)
			}
			for _, command := range [][]string{{"log", "info", log}, {"replay", log}} {
				wants(t, exitFailed, nil, command...)
			}
			for _, command := range [][]string{{"log", "archive", log, "--before", "500", "--to", log + ".archive"},
				{"log", "export", log, "--out", log + ".bundle"}, append(args, "--resume")} {
				wants(t, exitFailed, why[1:2], command...)
			}
			if facts, _, _ := verified(t, log); facts.Entries != last {
				t.Errorf("the log has %d entries, had %d", facts.Entries, last)
			}
			must(t, os.RemoveAll(log+".bundle"))
			wants(
				t,
				exitDone,
				[]string{"exported what is good"},
				"log",
				"export",
				log,
				"--up-to",
				fmt.Sprint(last+1),
				"--out",
				log+".bundle",
			)
			must(t, os.RemoveAll(log+".bundle"))
			if _, err := os.Lstat(dir + ".away"); err == nil {
				must(t, os.Remove(dir))
				must(t, os.Rename(dir+".away", dir))
				return
			}
			for _, seq := range later {
				must(t, os.Rename(filepath.Join(log, fmt.Sprint(seq)), logs.SnapshotsOf(log).File(seq)))
			}
		})
	}
}

// TestASnapshotThatIsAskedForComesAfterItsEntry checks the order of the system calls of log snapshot. The log may come
// from a writer that died before it had synced, and its end must not be lost when there is a snapshot of it.
func TestASnapshotThatIsAskedForComesAfterItsEntry(t *testing.T) {
	if out, err := exec.Command("strace", "-f", "-qq", "-y", "-e", "trace=fsync", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: it takes strace, and the right to trace: %v %s", err, out)
	}
	log, _ := small(t)
	calls := filepath.Join(t.TempDir(), "calls")
	cmd := exec.Command(
		"strace",
		"-f",
		"-qq",
		"-y",
		"-o",
		calls,
		"-e",
		"trace=fsync,fdatasync,rename,renameat,renameat2",
		"rollcall",
		"log",
		"snapshot",
		log,
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	before, renamed := string(content), false
	if at := regexp.MustCompile(`rename.*\.snapshot\.[0-9a-z]*\.tmp"`).FindStringIndex(before); at != nil {
		before, renamed = before[:at[0]], true
	}
	segments, _ := filepath.Glob(filepath.Join(log, "*.seg"))
	for _, path := range []string{log, segments[len(segments)-1]} {
		if !renamed || !strings.Contains(before, "<"+path+">") {
			t.Errorf("%s is not synced before there is a snapshot:\n%s", path, content)
		}
	}
}

func TestALogThatLostAllItsSegmentsIsDamaged(t *testing.T) {
	log, args := small(t)
	segments, _ := filepath.Glob(filepath.Join(log, "*.seg"))
	for _, path := range segments {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	want := func(code int, texts ...string) {
		t.Helper()
		for _, command := range [][]string{{"log", "verify", log}, {"log", "cat", log}, {"replay", log}, append(args,
			"--resume")} {
			wants(t, code, texts, command...)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(log, name)); err != nil {
			t.Fatal(err)
		}
	}
	want(exitDamaged, "all its entries are missing", "bring its .seg files back")
	remove("LOCK") // as copies may
	want(exitDamaged, "all its entries are missing", "bring its .seg files back")
	remove("snapshots")
	want(exitFailed, "a directory without segments")
}

// TestOneBadFileIsNotTakenForALogWithoutAny has a log with snapshots. One of its segments is emptied, or a file is
// beside them with a name that no segment has.
func TestOneBadFileIsNotTakenForALogWithoutAny(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   func(segments int) int
	}{{"first", func(int) int { return 0 }}, {"middle", func(n int) int { return n / 2 }}, {"last",
		func(n int) int { return n - 1 }}} {
		t.Run(tc.name, func(t *testing.T) {
			log, args := small(t)
			segments, _ := filepath.Glob(filepath.Join(log, "*.seg"))
			file := segments[tc.at(len(segments))]
			var first uint64
			_, err := fmt.Sscanf(filepath.Base(file), "%d.seg", &first)
			must(t, err)
			must(t, os.Truncate(file, 0))
			texts := []string{fmt.Sprintf("%s: log damaged at entry %d", file, first), "it has only 0 bytes"}
			if first > 1 {
				texts = append(
					texts,
					fmt.Sprintf(
						"Entries 1 to %d are good: save them with rollcall log export %s --up-to %d --out FILE",
						first-1,
						log,
						first-1,
					),
				)
			}
			for _, command := range [][]string{{"log", "verify", log}, {"log", "cat", log}, {"log", "info", log},
				{"replay", log},
				append(args, "--resume")} {
				wants(t, exitDamaged, texts, command...)
			}
		})
	}
	log, args := small(t)
	stray := filepath.Join(log, "foo.seg")
	must(t, os.WriteFile(stray, nil, 0o600))
	for _, command := range [][]string{{"log", "verify", log}, {"log", "cat", log}, {"log", "info", log},
		{"replay", log},
		append(args, "--resume")} {
		wants(t, exitFailed, []string{stray, "no segment has this name"}, command...)
	}
}
