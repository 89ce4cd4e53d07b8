package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/logs/audit"
)

// TestOnlyABindThatSucceededIsAPlacement compares the first line of the output of log check: some users read no other.
func TestOnlyABindThatSucceededIsAPlacement(t *testing.T) {
	for outcome, want := range map[string]string{
		"Bound":   "place pod ns/p (UID u) on node n\n",
		"Failed":  "choose node n for pod ns/p (UID u); that it was bound there is not shown\n",
		"Unknown": "choose node n for pod ns/p (UID u); that it was bound there is not shown\n",
		"":        "choose node n for pod ns/p (UID u); that it was bound there is not shown\n",
	} {
		report := &audit.PlacementReport{Pod: "ns/p", UID: "u", Node: "n"}
		if outcome != "" {
			report.Bound = &audit.PlacementStep{Outcome: outcome}
		}
		var said strings.Builder
		writePlacement(&said, report, audit.CheckpointReport{})
		if first, _, _ := strings.Cut(said.String(), "  decided"); !strings.HasSuffix(first, " and "+want) {
			t.Errorf("with the bind %q: %s, want %s", outcome, first, want)
		}
	}
}

// TestADamagedLogIsNotSignedAsIfItWereWhole takes a segment out of the middle of a log, or the newest ones away.
func TestADamagedLogIsNotSignedAsIfItWereWhole(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	rollcall(t, "log", "keygen", "--name", "example.org/log", "--out", key)
	for name, spoil := range map[string]func(log string) (last uint64){
		"its end is lost": func(log string) uint64 { return cutBySegments(t, log) },
		"a segment is missing": func(log string) (last uint64) {
			segments, err := filepath.Glob(filepath.Join(log, "*.seg"))
			must(t, err)
			_, err = fmt.Sscanf(filepath.Base(segments[3]), "%d.seg", &last)
			must(t, err)
			must(t, os.Remove(segments[3]))
			return last - 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, _ := small(t)
			signed := rollcall(t, "log", "checkpoint", log, "--key", key, "--at", "100")
			last := spoil(log)
			place := fmt.Sprintf("at entry %d", last+1)
			for _, command := range [][]string{
				{"log", "checkpoint", log, "--key", key}, {"log", "checkpoint", log, "--key", key, "--at",
					fmt.Sprint(last + 1)},
				{"log", "prove", log, "--seq", "50"}, {"log", "prove", log, "--from", "50"},
				{"log", "prove", log, "--seq", "50", "--size", fmt.Sprint(last + 1)}, {"log", "prove", log, "--seq",
					fmt.Sprint(last + 1)},
				{"log", "prove", log, "--from", "50", "--to", fmt.Sprint(last + 1)},
			} {
				if stdout := wants(t, exitDamaged, []string{place}, command...); stdout != "" {
					t.Errorf("%q prints %q", command, stdout)
				}
			}
			note := []string{"this is of the first 100 entries; behind entry " + fmt.Sprint(last), place}
			if again := wants(
				t,
				exitDone,
				note,
				"log",
				"checkpoint",
				log,
				"--key",
				key,
				"--at",
				"100",
			); !bytes.Equal(
				[]byte(again),
				signed,
			) {
				t.Errorf("the checkpoint is %q, and was %q", again, signed)
			}
			wants(t, exitDone, note, "log", "prove", log, "--seq", "50", "--size", "100")
			wants(t, exitDone, note, "log", "prove", log, "--from", "50", "--to", "100")
		})
	}
}
