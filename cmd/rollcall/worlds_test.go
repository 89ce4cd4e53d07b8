package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rollcall-sched/rollcall/worlds"
	"github.com/rollcall-sched/rollcall/worlds/auditor"
)

// firstWorld is the seed of the first of the worlds that are tried; the others have the seeds behind it.
const firstWorld = 1

// TestAnAuditorFindsNothingInRandomWorlds simulates random worlds, and has the logs audited by a package that shares no
// code with the program. Every log must also be verified and replayed as identical, and every fourth one, cut somewhere
// and resumed, must go on as it did before. "make soak" tries 300 worlds, and make test 20. ROLLCALL_WORLD=SEED tries
// one.
func TestAnAuditorFindsNothingInRandomWorlds(t *testing.T) {
	first, count := uint64(firstWorld), uint64(20)
	if os.Getenv("ROLLCALL_SOAK") == "1" {
		count = 300
	}
	if text := os.Getenv("ROLLCALL_WORLD"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		must(t, err)
		first, count = seed, 1
	}
	var mu sync.Mutex
	asked := map[string]int{}
	entries, placements, releases := 0, 0, 0
	t.Run("worlds", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				report := tryWorld(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for check, n := range report.Asked {
					asked[check] += n
				}
				entries += report.Entries
				placements += report.Placements
				releases += report.Releases
			})
		}
	})
	var table strings.Builder
	for _, c := range auditor.Checks() {
		fmt.Fprintf(&table, "\n%-16s %6d  %s", c.Name, asked[c.Name], c.Holds)
		if asked[c.Name] == 0 && count >= 300 {
			t.Errorf("the check %s had nothing to look at in any world", c.Name)
		}
	}
	t.Logf("%d worlds, %d entries, %d placements, %d releases; how often each check had something to look at:%s", count,
		entries, placements, releases, &table)
}

// tryWorld simulates the world of a seed in a directory that is left if something is wrong.
func tryWorld(t *testing.T, seed uint64) auditor.Report {
	t.Helper()
	dir, err := os.MkdirTemp("", fmt.Sprintf("rollcall-world-%d-", seed))
	must(t, err)
	defer func() {
		if t.Failed() {
			t.Logf("world %d: its files are in %s; ROLLCALL_WORLD=%d tries it alone", seed, dir, seed)
			return
		}
		must(t, os.RemoveAll(dir))
	}()
	world := worlds.Generate(seed)
	args, err := world.Write(dir)
	must(t, err)
	args = append([]string{"simulate"}, args...)
	log := filepath.Join(dir, "log.db")
	if !succeeds(t, slices.Concat(args, []string{"--log", log})) {
		return auditor.Report{}
	}
	report := auditLog(t, &world, log)
	if seed%4 == 0 && report.Entries > 1 {
		cut := resumeCut(t, dir, args, log, 1+int(seed*7919)%(report.Entries-1))
		auditLog(t, &world, cut)
		wantSameEntries(t, log, cut)
	}
	return report
}

// succeeds reports whether a command ended well.
func succeeds(t *testing.T, args []string) bool {
	t.Helper()
	out, err := exec.Command("rollcall", args...).CombinedOutput()
	if err != nil {
		t.Errorf("rollcall %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return err == nil
}

// auditLog has a log verified, replayed and audited.
func auditLog(t *testing.T, world *worlds.World, log string) auditor.Report {
	t.Helper()
	succeeds(t, []string{"log", "verify", log})
	succeeds(t, []string{"replay", log})
	cat := rollcall(t, "log", "cat", log)
	must(t, os.WriteFile(log+".cat", cat, 0o600))
	report, err := auditor.Audit(bytes.NewReader(cat), auditor.Inputs{Workload: world.Workload, Until: world.Until})
	if err != nil {
		t.Errorf("%s: %v", log, err)
	}
	for i, f := range report.Findings {
		if i == 10 {
			t.Errorf("%s: and %d more", log, len(report.Findings)-i)
			break
		}
		t.Errorf("%s: %v", log, f)
	}
	return report
}

// resumeCut makes a log of the first entries of a log, and has the simulation resumed behind them.
func resumeCut(t *testing.T, dir string, args []string, log string, last int) string {
	t.Helper()
	bundle, cut := filepath.Join(dir, "cut.bundle"), filepath.Join(dir, "cut.db")
	rollcall(t, "log", "export", log, "--to", fmt.Sprint(last), "--out", bundle)
	rollcall(t, "log", "import", bundle, "--log", cut)
	succeeds(t, slices.Concat(args, []string{"--log", cut, "--resume"}))
	return cut
}

// wantSameEntries compares two logs, but for the beginnings of epochs and what counts them in.
func wantSameEntries(t *testing.T, log, resumed string) {
	t.Helper()
	want, got := bareEntries(t, log), bareEntries(t, resumed)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("%s goes on otherwise than %s behind %d entries:\n%s\nwant\n%s", resumed, log, i,
				slices.Concat(got, []string{""})[min(i, len(got))], want[i])
			return
		}
	}
	if len(got) > len(want) {
		t.Errorf("%s has %d entries more than %s: %s", resumed, len(got)-len(want), log, got[len(want)])
	}
}

// bareEntries are the entries of a log without their numbers and epochs, and without beginnings of epochs.
func bareEntries(t *testing.T, log string) (entries []string) {
	t.Helper()
	for _, line := range catLines(t, rollcall(t, "log", "cat", log)) {
		if line["kind"] == "EpochStarted" {
			continue
		}
		for _, field := range []string{"seq", "epoch", "settled"} {
			delete(line, field)
		}
		text, err := json.Marshal(line)
		must(t, err)
		entries = append(entries, string(text))
	}
	return entries
}
