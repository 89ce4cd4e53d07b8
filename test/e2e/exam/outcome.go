package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test names a test of Kubernetes.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + " " + t.name }

// peerRow is kube-scheduler's result as another process.
type peerRow struct {
	test
	result         string
	passed, failed int
	ownPlugins     bool
}

// outcome is the result of a test with Rollcall.
type outcome struct {
	test
	ok         bool
	passed     int
	failed     []string // the cases, as TestX/case; of a case that has cases only these
	hookFailed bool     // an API server did not start
	second     bool     // it was the second run
	identical  int      // logs whose replay made the same decisions
	diverged   []string // what is to be said about the others
	took       time.Duration
}

func (o outcome) String() string {
	word := "ok"
	if !o.ok {
		word = "FAILED"
	}
	s := fmt.Sprintf("%-44s %-56s %-6s %3d cases passed %2d failed  %3d logs identical  %v",
		o.pkg, o.name, word, o.passed, len(o.failed), o.identical, o.took.Round(time.Second))
	for _, f := range o.failed {
		s += "\n    failed: " + f
	}
	for _, d := range o.diverged {
		s += "\n    replay: " + d
	}
	return s
}

var (
	resultLine = regexp.MustCompile(`(?m)^(\S+) +(\S+) +(ok|FAIL\(\d+\)) pass=(\d+) fail=(\d+) .* (\d+)s$`)
	caseLine   = regexp.MustCompile(`(?m)^ +--- (PASS|FAIL): (\S+) `)
)

// parseOutcome reads the script's line and the test's output.
func parseOutcome(line, log string) (outcome, error) {
	m := resultLine.FindStringSubmatch(line)
	if m == nil {
		return outcome{}, fmt.Errorf("no line of a result in %q", line)
	}
	o := outcome{test: test{m[1], m[2]}, ok: m[3] == "ok", hookFailed: m[3] != "ok" && hookFails.MatchString(log)}
	seconds, err := strconv.Atoi(m[6])
	if err != nil {
		return outcome{}, fmt.Errorf("the seconds of %s: %w", o.test, err)
	}
	o.took = time.Duration(seconds) * time.Second
	for _, c := range caseLine.FindAllStringSubmatch(log, -1) {
		if c[1] == "PASS" {
			o.passed++
		} else {
			o.failed = append(o.failed, c[2])
		}
	}
	all := slices.Clone(o.failed)
	o.failed = slices.DeleteFunc(o.failed, func(f string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(other, f+"/") })
	})
	return o, nil
}

// readPeerTable reads the table of `STANDIN.md`.
func readPeerTable(file string) ([]peerRow, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("what kube-scheduler passes: %w", err)
	}
	var rows []peerRow
	for _, cells := range tableRows(string(text), 7) {
		passed, perr := strconv.Atoi(cells[3])
		failed, ferr := strconv.Atoi(cells[4])
		if perr != nil || ferr != nil {
			continue // the head
		}
		rows = append(rows, peerRow{
			test{packagePath(cells[0]), cells[1]}, cells[2], passed, failed, cells[5] == "yes",
		})
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no table of tests", file)
	}
	return rows, nil
}

// tableRows are the cells of a Markdown text's tables with so many columns.
func tableRows(text string, columns int) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// packagePath is the path of a package whose slashes are hyphens in `STANDIN.md`. No folder has a hyphen in its name.
func packagePath(name string) string { return strings.ReplaceAll(name, "-", "/") }
