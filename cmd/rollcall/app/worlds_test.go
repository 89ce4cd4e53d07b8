package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rollcall-sched/rollcall/test/worlds"
	"github.com/rollcall-sched/rollcall/test/worlds/auditor"
)

// firstWorld is the seed of the first of the worlds that are tried; the others have the seeds behind it.
const firstWorld = 1

// TestAnAuditorFindsNothingInRandomWorlds simulates random worlds. A package that shares no code with the program
// audits the logs. Every log must also be verified and replayed as identical, and every fourth one, cut somewhere and
// resumed, must continue as it did before. Each log is also tampered with, and the auditor must find that. "make soak"
// tries 300 worlds, and make test 20. ROLLCALL_WORLD=SEED tries one.
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
	wantTamperingFound(t, &world, log+".cat")
	if seed%4 == 0 && report.Entries > 1 {
		cut := resumeCut(t, dir, args, log, 1+int(seed*7919)%(report.Entries-1))
		auditLog(t, &world, cut)
		wantSameEntries(t, log, cut)
	}
	return report
}

// auditLog has a log verified, replayed and audited.
func auditLog(t *testing.T, world *worlds.World, log string) auditor.Report {
	t.Helper()
	succeeds(t, []string{"log", "verify", log})
	succeeds(t, []string{"replay", log})
	succeeds(t, []string{"audit", "order", log, "--show", "0"})
	cat := rollcall(t, "log", "cat", log)
	must(t, os.WriteFile(log+".cat", cat, 0o600))
	report, err := auditor.Audit(bytes.NewReader(cat),
		auditor.Inputs{Workload: world.Workload, Nodes: world.Nodes, Until: world.Until})
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

// wantSameEntries compares two logs, except the beginnings of epochs and the numbers that count them.
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

// bareEntries are the entries of a log without their numbers and epochs, and without beginnings of epochs. A result
// names its decision by its place among them.
func bareEntries(t *testing.T, log string) (entries []string) {
	t.Helper()
	place := map[string]int{}
	for _, line := range catLines(t, rollcall(t, "log", "cat", log)) {
		if line["kind"] == "EpochStarted" {
			continue
		}
		place[fmt.Sprint(line["seq"])] = len(entries)
		if decision, ok := line["decisionSeq"]; ok {
			line["decisionSeq"] = place[fmt.Sprint(decision)]
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

// worldTamperings are changes of a log that an auditor always finds. Each changes an entry and reports whether it
// could. With drop the entry is left out, and the entries behind it are numbered again.
var worldTamperings = []struct {
	name   string
	change func(line map[string]any) (changed, drop bool)
}{
	{"the node of a placement is another", func(line map[string]any) (changed, drop bool) {
		outcome := text(line, "decision", "outcome")
		if outcome != "Scheduled" && outcome != "Waiting" {
			return false, false
		}
		line["decision"].(map[string]any)["node"] = "another"
		return true, false
	}},
	{"a member is not released", func(line map[string]any) (changed, drop bool) {
		return shorten(line, "rejected"), false
	}},
	{"a member is not allowed", func(line map[string]any) (changed, drop bool) {
		return shorten(line, "allowed"), false
	}},
	{"the node of a bind is another", func(line map[string]any) (changed, drop bool) {
		if line["kind"] != "BindResult" {
			return false, false
		}
		line["node"] = "another"
		return true, false
	}},
	{"a placement is left out", func(line map[string]any) (changed, drop bool) {
		is := text(line, "decision", "outcome") == "Scheduled"
		return is, is
	}},
	{"an entry is of an hour before", func(line map[string]any) (changed, drop bool) {
		if line["seq"].(float64) < 2 {
			return false, false
		}
		line["time"] = "2025-12-31T23:00:00Z"
		return true, false
	}},
}

// shorten takes the first UID off a list of a Decision.
func shorten(line map[string]any, field string) bool {
	uids := list(line, "decision", field)
	if len(uids) == 0 {
		return false
	}
	line["decision"].(map[string]any)[field] = uids[1:]
	return true
}

// wantTamperingFound tampers with a log in each of the ways, in its middle if it can, and audits it.
func wantTamperingFound(t *testing.T, world *worlds.World, cat string) {
	t.Helper()
	original, err := os.ReadFile(cat)
	must(t, err)
	for _, tampering := range worldTamperings {
		lines := catLines(t, original)
		for k := range lines {
			i := (k + len(lines)/2) % len(lines)
			changed, drop := tampering.change(lines[i])
			if !changed {
				continue
			}
			seq := lines[i]["seq"]
			if drop {
				lines = slices.Delete(lines, i, i+1)
				for j := i; j < len(lines); j++ {
					lines[j]["seq"] = j + 1
				}
			}
			report := auditLines(t, world, lines)
			if len(report.Findings) == 0 {
				t.Errorf("%s: %s at entry %v: nothing is found", cat, tampering.name, seq)
			}
			break
		}
	}
}

// auditLines audits entries that were parsed.
func auditLines(t *testing.T, world *worlds.World, lines []map[string]any) auditor.Report {
	t.Helper()
	var log bytes.Buffer
	encoder := json.NewEncoder(&log)
	for _, line := range lines {
		must(t, encoder.Encode(line))
	}
	report, err := auditor.Audit(&log, auditor.Inputs{Workload: world.Workload, Nodes: world.Nodes, Until: world.Until})
	must(t, err)
	return report
}
