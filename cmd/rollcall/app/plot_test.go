package app

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/internal/svgplot/svgtest"
	"github.com/rollcall-sched/rollcall/replay/ledger"
	"github.com/rollcall-sched/rollcall/replay/plot"
	"github.com/rollcall-sched/rollcall/test/incident"
)

// toldPlot is the part of the JSON form of a plot that is compared.
type toldPlot struct {
	StepSeconds float64
	Times       []string
	Series      []plot.Series
	Events      []struct{ Kind string }
}

// incidentLog simulates the incident, and returns its log.
func incidentLog(t *testing.T) string {
	t.Helper()
	world, log := t.TempDir(), filepath.Join(t.TempDir(), "incident.db")
	must(t, incident.Write(world))
	rollcall(t, "simulate", "--nodes", filepath.Join(world, "nodes.yaml"), "--workload",
		filepath.Join(world, "workload.yaml"), "--log", log, "--snapshot-every", "500")
	return log
}

// TestThePlotsAreaIsWhatTheReportSays compares the series of plots of the incident with reports of the same ranges:
// each group's held time, the capacity, and each column of time that no pod held, exactly. The time of all groups
// without a series is in the others.
func TestThePlotsAreaIsWhatTheReportSays(t *testing.T) {
	log := incidentLog(t)
	for _, of := range [][]string{nil, {"--from", "13:20", "--until", "14:30"}, {"--from", "2000", "--until", "3000"}} {
		for _, by := range []string{"namespace", "label:team", "gang", "node", "priority"} {
			name := strings.Join(append(of, by), " ")
			args := append([]string{log, "--by", by, "-o", "json"}, of...)
			var drawn toldPlot
			var told ledger.Facts
			must(t, json.Unmarshal(rollcall(t, append([]string{"plot"}, args...)...), &drawn))
			must(t, json.Unmarshal(rollcall(t, append([]string{"report"}, args...)...), &told))
			wantAreas(t, name, &drawn, &told)
		}
	}
}

func wantAreas(t *testing.T, name string, drawn *toldPlot, told *ledger.Facts) {
	t.Helper()
	others := map[string]*big.Int{} // by resource: what groups without a series of their own held
	heldBy := map[string]*big.Int{}
	for _, g := range told.Groups {
		for res, columns := range g.Resources {
			sum := new(big.Int)
			for _, c := range ledger.Held() {
				sum.Add(sum, exact(t, columns[c.String()].Exact))
			}
			heldBy[string(res)+" "+g.Group] = sum
			if others[string(res)] == nil {
				others[string(res)] = new(big.Int)
			}
			others[string(res)].Add(others[string(res)], sum)
		}
	}
	compared := map[string]int{}
	for _, s := range drawn.Series {
		if len(s.Exact) != len(drawn.Times) || len(s.Mean) != len(drawn.Times) {
			t.Fatalf("%s: %d times, and a series has %d sums and %d means", name, len(drawn.Times), len(s.Exact),
				len(s.Mean))
		}
		area := new(big.Int)
		for _, text := range s.Exact {
			area.Add(area, exact(t, text))
		}
		if s.Resource == "" {
			continue
		}
		compared[s.Column]++
		res := string(s.Resource)
		var want *big.Int
		switch {
		case s.Column != "held":
			want = exact(t, told.Total.Resources[s.Resource][s.Column].Exact)
		case s.Groups > 0:
			want = others[res]
		default:
			if want = heldBy[res+" "+s.Group]; want == nil {
				want = new(big.Int)
			}
			others[res].Sub(others[res], want)
		}
		if area.Cmp(want) != 0 {
			t.Errorf("%s: the area of %s %s of %s is %s, and the report has %s", name, s.Group, s.Column, res, area,
				want)
		}
	}
	if compared["held"] < 4 || compared["capacity"] < 2 || compared["idleUsable"]+compared["idleFragmented"] == 0 {
		t.Errorf("%s: only %v were compared", name, compared)
	}
}

func exact(t *testing.T, text string) *big.Int {
	t.Helper()
	if text == "" {
		return new(big.Int)
	}
	sum, ok := new(big.Int).SetString(text, 10)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return sum
}

// TestAPlotsMeanIsItsSumOverTheStep checks the hours of a plot with steps of an hour.
func TestAPlotsMeanIsItsSumOverTheStep(t *testing.T) {
	log := incidentLog(t)
	var drawn toldPlot
	text := rollcall(t, "plot", log, "--step", "1h", "--from", "2026-01-01T00:30:00Z", "-o", "json")
	must(t, json.Unmarshal(text, &drawn))
	if drawn.StepSeconds != 3600 || drawn.Times[0] != "2026-01-01T00:30:00.000000000Z" ||
		drawn.Times[1] != "2026-01-01T01:00:00.000000000Z" {
		t.Errorf("steps of %g s, at %v", drawn.StepSeconds, drawn.Times[:2])
	}
	i := slices.IndexFunc(drawn.Series, func(s plot.Series) bool { return s.Resource == gpu && s.Column == "capacity" })
	capacity := drawn.Series[i]
	if capacity.Mean[0] != 480 || capacity.Mean[1] != 480 || capacity.Mean[18] != 476 {
		t.Errorf("480 GPUs, without gpu-33 from 18:00 to 18:30: the plot has %v", capacity.Mean)
	}
	kinds := map[string]int{}
	for _, e := range drawn.Events {
		kinds[e.Kind]++
	}
	if kinds["NodeUnreachable"] != 1 || kinds["NodeReady"] != 1 || kinds["NodeDeleted"] != 1 ||
		kinds["NodeJoined"] != 1 || kinds["NodeCordoned"] != 2 || kinds["Preempted"] == 0 || kinds["Lost"] == 0 {
		t.Errorf("the events are %v", kinds)
	}
}

// TestThePicturesOfTheIncidentAreWhole draws the incident by all groups and in ranges of all lengths.
func TestThePicturesOfTheIncidentAreWhole(t *testing.T) {
	log := incidentLog(t)
	var pictures []string
	for _, args := range [][]string{
		nil, {"--by", "gang"}, {"--by", "node", "--resource", "memory,nvidia.com/gpu"}, {"--by", "label:nobody-has-it"},
		{"--by", "priority", "--from", "13:25", "--until", "13:25:03"}, {"--from", "13:29:59.999", "--until", "13:30"},
		{"--until", "00:05", "--step", "1m"}, {"--from", "4500"},
	} {
		text := string(rollcall(t, append([]string{"plot", log}, args...)...))
		if again := string(rollcall(t, append([]string{"plot", log}, args...)...)); text != again {
			t.Errorf("%v: the same command draws something else", args)
		}
		pictures = append(pictures, text)
	}
	for _, name := range []string{"demo.svg", "peer.svg", "curve.svg"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
		must(t, err)
		pictures = append(pictures, string(text))
	}
	for _, text := range pictures {
		svgtest.Check(t, text, svgplot.TextWidth)
	}
	for _, want := range []string{">incident.db, by namespace</text>", ">nvidia.com/gpu: GPUs held</text>",
		">idle, fragmented</text>", ">Gangs that wait for nodes</text>", ">nodes lost</text>",
		">8 nodes lost: 64 pods of ml/train lost, gang below its minimum</text>", ">time, UTC</text>",
		">node gpu-33 deleted</text>"} {
		if !strings.Contains(pictures[0], want) {
			t.Errorf("no %s in\n%s", want, pictures[0])
		}
	}
	if !strings.Contains(pictures[1], " others</text>") || strings.Contains(pictures[0], " others</text>") {
		t.Error("eight groups have a colour, and the others are drawn together")
	}
}

// TestNamesOfManyGroupsFitAPicture draws forty teams with the longest names that there are.
func TestNamesOfManyGroupsFitAPicture(t *testing.T) {
	dir := t.TempDir()
	var work strings.Builder
	for i := range 40 {
		fmt.Fprintf(&work, `---
apiVersion: v1
kind: Pod
metadata:
  name: %s-%03d
  labels: {team: %s-%03d}
  annotations: {rollcall.dev/duration: 400d}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
`, strings.Repeat("x", 249), i, strings.Repeat("y", 59), i)
	}
	path, log := filepath.Join(dir, strings.Repeat("w", 200)+".yaml"), filepath.Join(dir, strings.Repeat("l", 200))
	must(t, os.WriteFile(path, []byte(work.String()), 0o666))
	simulated := filepath.Join(dir, "simulated.svg")
	rollcall(t, "simulate", "--nodes", "3x8cpu", "--workload", path, "--log", log, "--plot", simulated)
	text, err := os.ReadFile(simulated)
	must(t, err)
	svgtest.Check(t, string(text), svgplot.TextWidth)
	for _, by := range []string{"label:team", "gang"} {
		text := string(rollcall(t, "plot", log, "--by", by))
		svgtest.Check(t, text, svgplot.TextWidth)
		if by == "label:team" && !strings.Contains(text, ">32 others</text>") {
			t.Errorf("no 32 others in\n%s", text)
		}
	}
}
