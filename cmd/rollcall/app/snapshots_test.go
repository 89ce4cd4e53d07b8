package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/archive"
	"github.com/rollcall-sched/rollcall/logs/bundles"
	"github.com/rollcall-sched/rollcall/logs/survey"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// stepByStep makes a simulation wait for the disk at each step. Ahead of the disk, a short simulation is over before
// there are many snapshots, because it writes one at a time. It also has few appends, and none of them is divided to
// end a segment.
var stepByStep = []string{"--effects", os.DevNull}

// snapshotted simulates the beginnings of real workloads, and a small one, with a snapshot every few entries and
// many segments, and hands each log to f.
func snapshotted(t *testing.T, f func(t *testing.T, log string)) {
	t.Helper()
	demo := filepath.Join(t.TempDir(), "demo.db")
	rollcall(t, "demo", "--keep", demo)
	jsonl := filepath.Join(t.TempDir(), "demo.jsonl")
	if err := os.WriteFile(jsonl, rollcall(t, "log", "cat", demo), 0o600); err != nil {
		t.Fatal(err)
	}
	workloads := append(
		realWorkloads(t),
		realWorkload{name: "demo", nodes: "12x96cpu,768Gi,8gpu", workload: jsonl, header: 1 << 20},
	)
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			if w.nodes == "" || w.workload == "" {
				t.Skip(noSharedData)
			}
			log := filepath.Join(t.TempDir(), "log.db")
			rollcall(
				t,
				append(
					[]string{
						"simulate",
						"--nodes",
						w.nodes,
						"--workload",
						head(t, w.workload, w.header+40),
						"--log",
						log,
						"--snapshot-every",
						"7",
						"--segment-size",
						"40000",
					},
					stepByStep...)...)
			f(t, log)
		})
	}
}

// factsOf runs a command with -o json.
func factsOf[T any](t testing.TB, args ...string) (facts T, stderr string) {
	t.Helper()
	stdout, stderr, code := ran(t, append(args, "-o", "json")...)
	if code != exitDone {
		t.Fatalf("rollcall %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &facts); err != nil {
		t.Fatalf("rollcall %s prints %q: %v", strings.Join(args, " "), stdout, err)
	}
	return facts, stderr
}

func snapshotSeqs(t testing.TB, log string) []uint64 {
	t.Helper()
	seqs, err := logs.SnapshotsOf(log).List()
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

func TestEverySnapshotOfALogAndItsTailAreTheWholeLog(t *testing.T) {
	snapshotted(t, func(t *testing.T, log string) {
		whole, _ := factsOf[replayFacts](t, "replay", log)
		seqs := snapshotSeqs(t, log)
		if len(seqs) < 3 || !whole.Identical || whole.Start != 0 {
			t.Fatalf("snapshots of entries %d, %+v", seqs, whole)
		}
		for _, seq := range seqs {
			part, stderr := factsOf[replayFacts](t, "replay", log, "--from", fmt.Sprint(seq))
			if !part.Identical || part.Start != seq || part.Hash != whole.Hash || part.Entries != whole.Entries-seq ||
				stderr != "" {
				t.Errorf("from the snapshot of entry %d: %+v, stderr %q; the whole log: %+v", seq, part, stderr, whole)
			}
		}
		info, _ := factsOf[survey.Report](t, "log", "info", log)
		if fmt.Sprint(info.Snapshots) != fmt.Sprint(seqs) {
			t.Errorf("log info says that there are snapshots of entries %d, want %d", info.Snapshots, seqs)
		}
	})
}

// TestASnapshotThatCannotBeTrustedIsNotUsedAndSaid spoils the newest one in every way that has a name; then all.
func TestASnapshotThatCannotBeTrustedIsNotUsedAndSaid(t *testing.T) {
	snapshotted(t, func(t *testing.T, log string) {
		whole, _ := factsOf[replayFacts](t, "replay", log)
		seqs := snapshotSeqs(t, log)
		newest, before := seqs[len(seqs)-1], seqs[len(seqs)-2]
		dir := logs.SnapshotsOf(log)
		good, err := dir.Get(newest)
		if err != nil {
			t.Fatal(err)
		}
		older, err := dir.Get(before)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)/2] ^= 1
		newer := resealedAs(good, snapshot.FormatVersion+1)
		for what, data := range map[string][]byte{
			"its checksum is wrong": flipped,
			"its length is wrong":   good[:50],
			fmt.Sprintf("the snapshot is of format %d", snapshot.FormatVersion+1): newer,
			"it is not of this log: it says that it is of entry":                  older,
		} {
			if err := os.WriteFile(dir.File(newest), data, 0o600); err != nil {
				t.Fatal(err)
			}
			part, stderr := factsOf[replayFacts](t, "replay", log, "--from", fmt.Sprint(newest))
			if part.Start != before || part.Hash != whole.Hash || !part.Identical {
				t.Errorf("%s: %+v, want the snapshot of entry %d", what, part, before)
			}
			if want := fmt.Sprintf(
				"rollcall: not used: snapshot at entry %d: ",
				newest,
			); !strings.HasPrefix(stderr, want) ||
				!strings.Contains(stderr, what) {
				t.Errorf("stderr %q, want %q and %q", stderr, want, what)
			}
		}
		for _, seq := range seqs {
			if err := os.Truncate(dir.File(seq), 10); err != nil {
				t.Fatal(err)
			}
		}
		part, stderr := factsOf[replayFacts](t, "replay", log, "--from", fmt.Sprint(newest))
		if part.Start != 0 || part.Hash != whole.Hash || strings.Count(stderr, "not used") != len(seqs) {
			t.Errorf("with no snapshot left: %+v, stderr %q", part, stderr)
		}
	})
}

// resealedAs returns a snapshot as one of that format.
func resealedAs(good []byte, format byte) []byte {
	newer := bytes.Clone(good)
	newer[11] = format
	sum := sha256.Sum256(newer[:len(newer)-32])
	copy(newer[len(newer)-32:], sum[:])
	return newer
}

// TestABundleIsThatPartOfTheLog exports a range, and reads it in every way that a log is read.
func TestABundleIsThatPartOfTheLog(t *testing.T) {
	snapshotted(t, func(t *testing.T, log string) {
		seqs := snapshotSeqs(t, log)
		whole, _ := factsOf[replayFacts](t, "replay", log)
		for name, from := range map[string]uint64{"behind a snapshot": seqs[0] + 3, "from the first entry": 1} {
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "incident")
				to := whole.LastSeq - 1
				facts, _ := factsOf[bundles.Exported](
					t,
					"log",
					"export",
					log,
					"--out",
					file,
					"--from",
					fmt.Sprint(from),
					"--to",
					fmt.Sprint(to),
				)
				if facts.From != from || facts.Last != to || facts.First > from || (from == 1) != (facts.First == 1) {
					t.Fatalf("exported %+v", facts)
				}
				span := []string{"--from", fmt.Sprint(facts.First), "--to", fmt.Sprint(to)}
				want := rollcall(t, append([]string{"log", "cat", log}, span...)...)
				if got := rollcall(t, "log", "cat", file); !bytes.Equal(got, want) {
					t.Error("log cat of the bundle prints something else than of the log")
				}
				imported := filepath.Join(t.TempDir(), "imported.db")
				rollcall(t, "log", "import", file, "--log", imported)
				if got := rollcall(t, "log", "cat", imported); !bytes.Equal(got, want) {
					t.Error("log cat of the imported log prints something else")
				}
				if v, _, code := verified(t, imported); code != exitDone || !v.Whole || v.Hash != facts.LastHash {
					t.Errorf(
						"log verify of the imported log: exit code %d, %+v, want the hash %s",
						code,
						v,
						facts.LastHash,
					)
				}
				replayed, _ := factsOf[replayFacts](t, "replay", file)
				again, _ := factsOf[replayFacts](t, "replay", imported)
				if !replayed.Identical || replayed.Entries != facts.Entries || replayed.Hash != again.Hash ||
					replayed.Start != facts.First-1 {
					t.Errorf("replay of the bundle: %+v, of the imported log: %+v", replayed, again)
				}
				wantSameExplanations(t, log, file, to, want)
			})
		}
	})
}

// wantSameExplanations asks for all pods whose first entry is in the range that log cat printed.
func wantSameExplanations(t *testing.T, log, file string, at uint64, cat []byte) {
	t.Helper()
	seen := map[string]bool{}
	asked := 0
	for _, line := range catLines(t, cat) {
		if text(line, "resource") != "pods" || text(line, "kind") != "Upserted" {
			continue
		}
		name := text(line, "object", "metadata", "namespace") + "/" + text(line, "object", "metadata", "name")
		if seen[name] || asked == 3 {
			continue
		}
		seen[name] = true
		whole, _ := factsOf[map[string]any](t, "explain", log, "pod", name, "--at", fmt.Sprint(at))
		if created, _ := whole["created"].(map[string]any); created["seq"] != line["seq"] {
			continue // an older pod that changed
		}
		asked++
		part, _ := factsOf[map[string]any](t, "explain", file, "pod", name, "--at", fmt.Sprint(at))
		delete(part, "knownFrom")
		if fmt.Sprint(part) != fmt.Sprint(whole) {
			t.Errorf("pod %s: the bundle says\n%v\nthe log says\n%v", name, part, whole)
		}
	}
	if asked == 0 {
		t.Error("no pod was explained")
	}
}

// TestTheEntriesBeforeTheDamageAreExported flips a bit in the middle of a log. The error says what to do; that is done.
func TestTheEntriesBeforeTheDamageAreExported(t *testing.T) {
	snapshotted(t, func(t *testing.T, log string) {
		segments, err := filepath.Glob(filepath.Join(log, "*.seg"))
		if err != nil || len(segments) < 3 {
			t.Fatalf("segments %q, %v", segments, err)
		}
		flipInLog(t, segments[len(segments)/2], []byte("default"))
		_, complaint, code := ran(t, "replay", log)
		_, advice, found := strings.Cut(complaint, "save them with rollcall ")
		if code != exitDamaged || !found {
			t.Fatalf("replay: exit code %d, stderr %q", code, complaint)
		}
		damage, _, _ := verified(t, log)
		if damage.Damage == nil {
			t.Fatal("log verify finds no damage")
		}
		verifying, _, _ := ran(t, "log", "verify", log)
		if !strings.Contains(verifying, "rollcall "+advice) {
			t.Errorf("log verify says %q, without %q", verifying, advice)
		}
		file := filepath.Join(t.TempDir(), "good")
		if _, complaint, code := ran(
			t,
			"log",
			"export",
			log,
			"--out",
			file,
		); code != exitDamaged ||
			!strings.Contains(complaint, advice) {
			t.Errorf("an export of all: exit code %d, stderr %q", code, complaint)
		}
		args := strings.Fields(strings.Replace(advice, "FILE", file, 1))
		facts, _ := factsOf[bundles.Exported](t, args...)
		if facts.Last != damage.Damage.Seq-1 || facts.Damage != "" {
			t.Errorf("exported %+v, want entries up to %d", facts, damage.Damage.Seq-1)
		}
		if replayed, _ := factsOf[replayFacts](
			t,
			"replay",
			file,
		); !replayed.Identical ||
			replayed.LastSeq != facts.Last {
			t.Errorf("replay of what was saved: %+v", replayed)
		}
		further := filepath.Join(t.TempDir(), "further")
		more, complaint := factsOf[bundles.Exported](t, "log", "export", log, "--up-to", "1000000", "--out", further)
		if more.Last != facts.Last || more.Damage == "" ||
			!strings.Contains(complaint, "exported what is good before that") {
			t.Errorf("exported up to more than there is: %+v, stderr %q", more, complaint)
		}
	})
}

// flipInLog flips a bit of the last place of text in a file, behind its pages' heads.
func flipInLog(t testing.TB, file string, text []byte) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(content, text)
	if at < 0 {
		t.Fatalf("%s has no %q", file, text)
	}
	content[at] ^= 4
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// addedNames are the members of a line of log cat that are no part of the entry: names beside UIDs.
var addedNames = regexp.MustCompile(`,"(allowedPods|rejectedPods|victimPods)":\[[^]]*\]|,"pod":"[^"]*"(})`)

// withoutNames returns lines of log cat without the names beside UIDs.
func withoutNames(lines string) string { return addedNames.ReplaceAllString(lines, "$2") }

// isEndOf reports whether log cat printed the tail as the end of all. A line may lack names of pods: the entries with
// the names are archived, and there may be no snapshot of just that place.
func isEndOf(all, tail string) bool {
	lines, last := strings.Split(all, "\n"), strings.Split(tail, "\n")
	if len(last) > len(lines) {
		return false
	}
	lines = lines[len(lines)-len(last):]
	for i := range last {
		if last[i] != lines[i] && last[i] != withoutNames(lines[i]) {
			return false
		}
	}
	return true
}

// dropNewer removes the newest snapshots, so that a sealed segment lies above the newest one that is left, if one
// can that has another below.
func dropNewer(t testing.TB, log string, seqs []uint64) []uint64 {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(log, "*.seg"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("segments %q, %v", segments, err)
	}
	first := func(segment string) (n uint64) {
		if _, err := fmt.Sscanf(filepath.Base(segment), "%d.seg", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	below, above := first(segments[1])-1, first(segments[len(segments)-1])-1
	keep := len(seqs)
	for keep > 0 && seqs[keep-1] >= above {
		keep--
	}
	if keep == 0 || seqs[keep-1] < below {
		return seqs
	}
	for _, seq := range seqs[keep:] {
		if err := os.Remove(logs.SnapshotsOf(log).File(seq)); err != nil {
			t.Fatal(err)
		}
	}
	return seqs[:keep]
}

// TestAnArchivedLogIsReadWholeOrNamesWhatIsMissing archives, takes the archive away, and says where it is.
func TestAnArchivedLogIsReadWholeOrNamesWhatIsMissing(t *testing.T) {
	snapshotted(t, func(t *testing.T, log string) {
		whole, _ := factsOf[replayFacts](t, "replay", log)
		cat := rollcall(t, "log", "cat", log)
		seqs := snapshotSeqs(t, log)
		before := whole.LastSeq
		seqs = dropNewer(t, log, seqs)
		to := filepath.Join(t.TempDir(), "archive")
		if out, complaint, code := ran(
			t,
			"log",
			"archive",
			log,
			"--before",
			fmt.Sprint(seqs[0]-1),
			"--to",
			to,
		); code != exitFailed ||
			!strings.Contains(complaint, "rollcall log snapshot "+log+" --at") {
			t.Errorf("without a snapshot: exit code %d, %s%s", code, out, complaint)
		}
		facts, _ := factsOf[archive.Report](t, "log", "archive", log, "--before", fmt.Sprint(before), "--to", to)
		if facts.Segments == 0 || facts.Snapshot != seqs[len(seqs)-1] || facts.First != 1 ||
			facts.Last > facts.Snapshot {
			t.Fatalf("archived %+v", facts)
		}
		wantWhole := func(where string, args ...string) {
			t.Helper()
			got, _ := factsOf[replayFacts](t, append([]string{"replay", log}, args...)...)
			if got.Hash != whole.Hash || got.Entries != whole.Entries || got.KnownFrom != 0 {
				t.Errorf("with the archive %s: %+v", where, got)
			}
			if got := rollcall(t, append([]string{"log", "cat", log}, args...)...); !bytes.Equal(got, cat) {
				t.Errorf("with the archive %s, log cat prints something else", where)
			}
		}
		wantWhole("in its place")
		moved := to + ".moved"
		if err := os.Rename(to, moved); err != nil {
			t.Fatal(err)
		}
		wantWhole("where it is said to be", "--archive", moved)
		got, stderr := factsOf[replayFacts](t, "replay", log)
		if got.Hash != whole.Hash || !got.Identical || got.Start < facts.Last || got.KnownFrom != got.Start+1 ||
			!strings.Contains(stderr, to) {
			t.Errorf("without the archive: %+v, stderr %q", got, stderr)
		}
		if _, stderr, code := ran(
			t,
			"log",
			"cat",
			log,
			"--from",
			"1",
		); code != exitFailed || !strings.Contains(stderr, to) ||
			!strings.Contains(stderr, "--archive") {
			t.Errorf("log cat from entry 1: exit code %d, stderr %q", code, stderr)
		}
		first := facts.Last + 1
		tail, stderr, _ := ran(t, "log", "cat", log)
		if lines := catLines(
			t,
			[]byte(tail),
		); lines[0]["seq"] != float64(first) || !isEndOf(string(cat), tail) || !strings.Contains(stderr, to) {
			t.Errorf("log cat begins with %v, want entry %d; stderr %q", lines[0]["seq"], first, stderr)
		}
		// Without a snapshot the scheduler cannot continue either.
		if err := os.RemoveAll(filepath.Join(log, logs.SnapshotDir)); err != nil {
			t.Fatal(err)
		}
		if _, stderr, code := ran(
			t,
			"replay",
			log,
		); code != exitFailed || !strings.Contains(stderr, to) ||
			!strings.Contains(stderr, fmt.Sprintf("nor is there a snapshot of entry %d", first-1)) {
			t.Errorf("without the archive and snapshots: exit code %d, stderr %q", code, stderr)
		}
	})
}

// TestASnapshotThatIsAskedForLetsEverythingBeArchived writes one where none was.
func TestASnapshotThatIsAskedForLetsEverythingBeArchived(t *testing.T) {
	log := filepath.Join(t.TempDir(), "demo.db")
	rollcall(t, "demo", "--keep", log)
	if seqs := snapshotSeqs(t, log); len(seqs) != 0 {
		t.Fatalf("the demo has snapshots of entries %d", seqs)
	}
	whole, _ := factsOf[replayFacts](t, "replay", log)
	made, _ := factsOf[logs.Taken](t, "log", "snapshot", log)
	if made.Seq != whole.LastSeq || made.Hash != whole.Hash {
		t.Errorf("%+v, want the state %s", made, whole.Hash)
	}
	info, err := os.Stat(made.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the snapshot's file is %v, %v", info, err)
	}
	if part, _ := factsOf[replayFacts](
		t,
		"replay",
		log,
		"--from",
		fmt.Sprint(made.Seq),
	); part.Start != made.Seq || part.Hash != whole.Hash ||
		part.Entries != 0 {
		t.Errorf("%+v", part)
	}
}
