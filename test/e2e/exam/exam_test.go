package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const peerTableText = `
| package | test | result | subtests passed | failed | plugins of its own | s |
|---|---|---|--:|--:|---|--:|
| scheduler-filters | TestA | ok | 2 | 0 | no | 190 |
| scheduler-filters | TestB | no | 4 | 2 | no | 90 |
| scheduler | TestReScheduling | out of time or ended | 0 | 0 | yes | 397 |
`

const failedLog = `=== RUN   TestB
    --- PASS: TestB/first_case (1.00s)
    --- FAIL: TestB/second_[1] (30.00s)
    --- FAIL: TestB/third (0.20s)
        --- PASS: TestB/third/inner (0.10s)
        --- FAIL: TestB/third/other (0.10s)
--- FAIL: TestB (40.00s)
`

const failedLine = "scheduler/filters                TestB                                                        " +
	"FAIL(1) pass=2 fail=1 in-process=0 own-plugins=no 41s\n"

func peerTableFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "STANDIN.md")
	if err := os.WriteFile(file, []byte(peerTableText), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func readTestPeerTable(t *testing.T) []peerRow {
	t.Helper()
	rows, err := readPeerTable(peerTableFile(t))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestTheStandinsTableIsRead(t *testing.T) {
	want := []peerRow{
		{test{"scheduler/filters", "TestA"}, "ok", 2, 0, false},
		{test{"scheduler/filters", "TestB"}, "no", 4, 2, false},
		{test{"scheduler", "TestReScheduling"}, "out of time or ended", 0, 0, true},
	}
	if got := readTestPeerTable(t); !slices.Equal(got, want) {
		t.Errorf("got %v, wanted %v", got, want)
	}
}

func TestAnOutcomeHasTheCasesOfTheTestsOutput(t *testing.T) {
	o, err := parseOutcome(failedLine, failedLog)
	if err != nil {
		t.Fatal(err)
	}
	if o.test != (test{"scheduler/filters", "TestB"}) || o.ok || o.passed != 2 || o.took != 41*time.Second ||
		!slices.Equal(o.failed, []string{"TestB/second_[1]", "TestB/third/other"}) || o.hookFailed {
		t.Errorf("got %+v", o)
	}
	o, err = parseOutcome(failedLine, failedLog+`F1122 hooks.go: PostStartHook "rbac/bootstrap-roles" failed: no`)
	if err != nil || !o.hookFailed {
		t.Errorf("an API server that did not start: %+v, %v", o, err)
	}
	if _, err := parseOutcome("nothing was run", failedLog); err == nil {
		t.Error("no error for output without a result")
	}
}

func TestAFailureNeedsAReason(t *testing.T) {
	o := outcome{test: test{"scheduler/filters", "TestB"}, passed: 2, failed: []string{"TestB/second_[1]"}}
	peerTable := readTestPeerTable(t)
	for name, c := range map[string]struct {
		reasons        []reason
		diverged, said string
		bad            bool
	}{
		"none":              {nil, "", "second_[1] failed, and docs/CONFORMANCE.md gives no reason; kube", true},
		"the case's":        {[]reason{{pkg: o.pkg, of: "TestB/second_[1]"}}, "", "0 of 1 tests passed, with 2", false},
		"a pattern":         {[]reason{{pkg: o.pkg, of: "TestB/second_*"}}, "", "0 of 1", false},
		"another package's": {[]reason{{pkg: "scheduler", of: "TestB/second_*"}}, "", "gives no reason", true},
		"one too many": {
			[]reason{{pkg: o.pkg, of: "TestB/*"}, {pkg: o.pkg, of: "TestB/first_case"}}, "",
			"TestB/first_case did not fail: take its reason out", false,
		},
		"a log diverged": {[]reason{{pkg: o.pkg, of: "TestB/*"}}, "exit status 3", "0 of 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			of := o
			if c.diverged != "" {
				of.diverged = []string{c.diverged}
			}
			var out strings.Builder
			err := judge(&out, []outcome{of}, peerTable, c.reasons)
			if (err != nil) != c.bad || !strings.Contains(out.String(), c.said) {
				t.Errorf("error %v, wanted one: %v; %q is to stand in:\n%s", err, c.bad, c.said, out.String())
			}
		})
	}
}

func TestReasonsAndTheTableStandInOneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "CONFORMANCE.md")
	before := "# Conformance\n\n| Package | Case | Why |\n|---|---|---|\n" +
		"| scheduler/filters | `TestB/second_*` | it asks for what there is not |\n\n"
	if err := os.WriteFile(file, []byte(before+beginMark+"old\n"+endMark+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o, err := parseOutcome(failedLine, failedLog)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time finds what the first has written
		if err := writeTable(file, []outcome{o}, readTestPeerTable(t)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "| scheduler/filters | `TestB` | in part | 2 | 2 | 4 of 6 | 0 | 41 |\n"
	if s := string(text); !strings.HasPrefix(s, before+beginMark) || !strings.HasSuffix(s, endMark+"after\n") ||
		!strings.Contains(s, want) || strings.Contains(s, "old") {
		t.Errorf("got:\n%s\nwanted the row %s", s, want)
	}
	reasons, err := readReasons(file)
	if err != nil || len(reasons) != 1 || reasons[0].of != "TestB/second_*" ||
		reasons[0].why != "it asks for what there is not" {
		t.Errorf("reasons: %+v, %v", reasons, err)
	}
}

func TestWordsChooseTests(t *testing.T) {
	peerTable := readTestPeerTable(t)
	for _, c := range []struct {
		words []string
		want  int
	}{
		{nil, 2}, {[]string{"scheduler/filters"}, 2}, {[]string{"scheduler", "TestOther", "TestMore"}, 2},
	} {
		if got, err := choose(peerTable, false, c.words); err != nil || len(got) != c.want {
			t.Errorf("%v: got %v, %v; wanted %d tests", c.words, got, err, c.want)
		}
	}
	if got, err := choose(peerTable, false, []string{"filters"}); err == nil {
		t.Errorf("a package that there is not: got %v, wanted an error", got)
	}
	if got, err := choose(peerTable, true, nil); err != nil || !slices.Equal(got, part) {
		t.Errorf("the part: got %v, %v", got, err)
	}
}
