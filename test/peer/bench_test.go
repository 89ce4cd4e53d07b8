package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/bench/throughput"
)

// A run is a process of its own, which begins with the arguments "run": this program, when it is a test, is that too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		main()
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "bench" { // the other program of TestAnotherProgramTakesTurns
		os.Args = slices.DeleteFunc(os.Args, func(arg string) bool { return arg == "-o" || arg == "json" })
		os.Args[1] = "run"
		main()
		return
	}
	os.Exit(m.Run())
}

const page = "# Page\n\n<!-- bench peer -->\nold\n<!-- end bench peer -->\n\n<!-- bench curve -->\n<!-- end bench " +
	"curve -->\n\nEnd.\n"

func TestAComparisonIsPrintedDrawnAndPutIntoItsPage(t *testing.T) {
	dir := t.TempDir()
	into, chart, facts := filepath.Join(dir, "page.md"), filepath.Join(dir, "peer.svg"),
		filepath.Join(dir, "facts.json")
	write(t, into, page)
	c := comparison{rounds: 2, limit: time.Minute, only: []string{"gangs"}, nodes: 70, pods: 520, dir: dir, into: into,
		chart: chart, facts: facts, note: "A note."}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	got := read(t, into)
	before, rest, _ := strings.Cut(got, out.String())
	if before != "# Page\n\n<!-- bench peer -->\n" ||
		rest != "<!-- end bench peer -->\n\n<!-- bench curve -->\n<!-- end bench curve -->\n\nEnd.\n" {
		t.Errorf("the page is\n%s\nand what was printed\n%s", got, out.String())
	}
	for _, want := range []string{"A note.", "medians of 2 rounds", "\n| gangs of 512 | "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	checkSVG(t, read(t, chart), ">gangs of 512<", ">Rollcall, all nodes<")
	var outcomes []outcome
	if err := json.Unmarshal([]byte(read(t, facts)), &outcomes); err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		for who, results := range o.Results {
			for _, r := range results {
				if len(results) != 2 || !r.Complete || r.Placed != 520 || r.Nodes != 70 {
					t.Errorf("%s, %s: %d rounds, %+v", o.Scenario, contestants[who].Name, len(results), r)
				}
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAnotherProgramTakesTurns(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := comparison{rounds: 2, limit: time.Minute, only: []string{"shape"}, nodes: 70, pods: 52, dir: t.TempDir(),
		skipAllNodes: true, against: self, chart: filepath.Join(t.TempDir(), "peer.svg")}
	for round, want := range [][]int{{sampled, rollcall, against}, {sampled, against, rollcall}} {
		if got := c.turns(round); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(out.String(), "beside the other program")
	if _, row, found := strings.Cut(table, "| one shape |"); !ok || !found || strings.Contains(row, "–  ") ||
		strings.Contains(row, " 0.000 ") || len(strings.Split(row, "|")) != 10 {
		t.Errorf("the table of both is wrong in\n%s", out.String())
	}
	if svg := read(t, c.chart); strings.Contains(svg, contestants[against].Name) {
		t.Errorf("the chart has the other program:\n%s", svg)
	}
}

func TestAnotherNumberOfPodsKeepsThemAllDifferent(t *testing.T) {
	c := comparison{rounds: 1, only: []string{"different", "shapes20"}, nodes: 70, pods: 30}
	got, err := c.choose()
	if err != nil || len(got) != 2 || got[0].Pods != 30 || got[0].Shapes != 30 || got[1].Shapes != 20 ||
		got[1].Nodes != 70 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestACurveIsPrintedDrawnAndPutIntoItsPage(t *testing.T) {
	dir := t.TempDir()
	into, chart := filepath.Join(dir, "page.md"), filepath.Join(dir, "curve.svg")
	write(t, into, page)
	g := growth{rounds: 1, pods: 40, nodes: []int{10, 20}, shapes: []int{1, 2}, dir: dir, into: into, chart: chart}
	var out bytes.Buffer
	if err := g.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(read(t, into), out.String()) || !strings.Contains(out.String(), "| 2 shapes | ") ||
		!strings.Contains(out.String(), "| 10 nodes | 20 nodes |") {
		t.Errorf("the page is\n%s\nand what was printed\n%s", read(t, into), out.String())
	}
	checkSVG(t, read(t, chart), ">1 shape<", ">nodes<")
}

func TestWhatCannotBeMeasuredIsSaid(t *testing.T) {
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent") // where nothing is measured
	bare := filepath.Join(dir, "bare.md")
	write(t, bare, "<!-- bench peer -->\n")
	for name, c := range map[string]struct {
		comparison
		want string
	}{
		"rounds":   {comparison{only: []string{"shape"}}, "--rounds is 0"},
		"scenario": {comparison{rounds: 1, only: []string{"shop"}}, `no scenario "shop"`},
		"spec":     {comparison{rounds: 1, only: []string{"gangs"}, nodes: 3, pods: 512}, "gangs of 512"},
		"no place": {comparison{rounds: 1, into: bare, dir: absent, only: []string{"shape"}},
			"between which the table would stand"},
		"no program": {comparison{rounds: 1, only: []string{"shape"}, dir: absent, against: absent}, "--against: "},
		"no page": {comparison{rounds: 1, into: filepath.Join(dir, "none.md"), dir: absent, only: []string{"shape"}},
			"none.md"},
		"a run": {comparison{rounds: 1, nodes: 1, pods: 9, dir: dir, only: []string{"shape"}, limit: time.Minute},
			"9 pods: all 1 nodes together take 8"},
	} {
		if err := c.run(context.Background(), io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestATableHasMediansAndTheBoundsOfTheRatios(t *testing.T) {
	result := func(rate, score float64, complete bool) *throughput.Result {
		return &throughput.Result{PodsPerSecond: rate, RunningScores: []float64{score, score - 1, score - 2},
			Placed: 100, CPUSeconds: 2, PeakRSS: 3 << 20, Complete: complete}
	}
	o := outcome{name: "one shape"}
	for i, rate := range []float64{100, 50, 200} {
		o.Results[sampled] = append(o.Results[sampled], result(rate, 150, true))
		o.Results[allNodes] = append(o.Results[allNodes], result(10, 160, i != 1))
		o.Results[allNodes][i].RunningScores = []float64{160, 159}
		o.Results[rollcall] = append(o.Results[rollcall], result(2000, 170, true))
	}
	c := comparison{limit: time.Minute}
	table := c.table([]outcome{o}, 3)
	for _, want := range []string{
		`| one shape | 100 | 10\* | 2000 | 20.0 (10.0–40.0) | 200.0 (200.0–200.0) |`,
		`| one shape | 50 | 50 | 50 | 1.0 (1.0–1.0) | 1.0 (1.0–1.0) |`,
		`| one shape | 1000 | 149.00 | 159.00 | 169.00 | 3 | 3 | 3 |`,
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestEvictionsHaveATableWhereThereAreAny(t *testing.T) {
	o := outcome{name: "preempt"}
	for who, evicted := range []int{4, 2, 400} {
		o.Results[who] = []*throughput.Result{{Evicted: evicted, CPUSeconds: 2}}
	}
	c := &comparison{}
	o.Results[allNodes][0].DevicesTwice = 3
	want := "preempt, kube-scheduler, all nodes: 3 pods got a device that another pod had."
	if table := c.table([]outcome{o}, 1); !strings.Contains(table, want) {
		t.Errorf("no %q in\n%s", want, table)
	}
	if table, want := c.table([]outcome{{name: "gangs"}, o}, 1),
		"| preempt | 2.0 | 1.0 | 200.0 | 100.0 (100.0–100.0) | 200.0 (200.0–200.0) |"; !strings.Contains(table, want) {
		t.Errorf("no %q in\n%s", want, table)
	}
	if table := c.table([]outcome{{name: "gangs"}}, 1); strings.Contains(table, "evictions") {
		t.Errorf("evictions in\n%s", table)
	}
}

func TestKubeSchedulerWithAllNodesMayBeLeftOut(t *testing.T) {
	c := comparison{rounds: 1, limit: time.Minute, only: []string{"shape"}, nodes: 70, pods: 52, dir: t.TempDir(),
		skipAllNodes: true, chart: filepath.Join(t.TempDir(), "peer.svg")}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	of := [][]int{{3, 6}, {3, 6}, {4, 7}} // by table, where the cells of kube-scheduler with all nodes are
	for row := range strings.Lines(out.String()) {
		if !strings.HasPrefix(row, "| one shape |") || len(of) == 0 {
			continue
		}
		cells := strings.Split(row, "|")
		for _, i := range of[0] {
			if cells[i] != " – " {
				t.Errorf("%q in cell %d of %s", cells[i], i, row)
			}
		}
		of = of[1:]
	}
	if len(of) != 0 {
		t.Errorf("%d tables are missing in\n%s", len(of), out.String())
	}
	if svg := read(t, c.chart); strings.Contains(svg, contestants[allNodes].Name) {
		t.Errorf("the chart has who did not run:\n%s", svg)
	}
}

func TestPreemptionHasTimeToPlaceAPod(t *testing.T) {
	for _, s := range scenarios {
		want := time.Second
		if s.Key == "preempt" {
			want = preemptLimit
		}
		if got := s.limit(time.Second); got != want {
			t.Errorf("%s: %s, want %s", s.Key, got, want)
		}
		if s.limit(0) != 0 || s.limit(time.Hour) != time.Hour {
			t.Errorf("%s: a limit that is longer, or none, is not kept", s.Key)
		}
	}
	table := (&comparison{limit: time.Minute}).table([]outcome{{Scenario: "preempt", name: "evict"}}, 1)
	if want := "stopped after 1m0s (evict: 2m10s):"; !strings.Contains(table, want) {
		t.Errorf("no %q in\n%s", want, table)
	}
}

func TestWhoPlacedNothingHasNoScoreAndNoRatio(t *testing.T) {
	o := outcome{name: "gangs"}
	o.Results[sampled] = []*throughput.Result{{PodsPerSecond: 10, RunningScores: []float64{150}}}
	o.Results[allNodes] = []*throughput.Result{{}}
	o.Results[rollcall] = []*throughput.Result{{PodsPerSecond: 20, RunningScores: []float64{170, 160}}}
	table := (&comparison{}).table([]outcome{o}, 1)
	for _, want := range []string{"| gangs | 10\\* | 0\\* | 20\\* | 2.0 (2.0–2.0) | – |",
		"| gangs | 500 | 150.00 | – | 170.00 |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func checkSVG(t *testing.T, svg string, want ...string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	for _, w := range want {
		if !strings.Contains(svg, w) {
			t.Errorf("no %q in\n%s", w, svg)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
