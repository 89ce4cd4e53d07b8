package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// reason says why a test, or a case of one, fails.
type reason struct {
	pkg, of, why string
	used         bool
}

// readReasons reads the table of reasons: package, test or case (with * for any text), reason.
func readReasons(file string) ([]reason, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the reasons of what fails: %w", err)
	}
	var reasons []reason
	for _, cells := range tableRows(string(text), 3) {
		of := strings.Trim(cells[1], "`")
		if strings.HasPrefix(of, "Test") {
			reasons = append(reasons, reason{pkg: cells[0], of: of, why: cells[2]})
		}
	}
	return reasons, nil
}

// explains reports whether the reason belongs to a test or a case.
func (r *reason) explains(t test, of string) bool {
	if r.pkg != t.pkg {
		return false
	}
	if r.of == of {
		return true
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(r.of), `\*`, ".*")
	matches, err := regexp.MatchString("^"+pattern+"$", of)
	return err == nil && matches
}

// judge says what fails without a reason, what does not fail although there is one, and which logs diverged. The first
// and the last are errors; a reason that is not needed is one as soon as all of its test was run.
func judge(w io.Writer, outcomes []outcome, peerTable []peerRow, reasons []reason) error {
	var passed, cases, bad int
	for _, o := range outcomes {
		cases += o.passed
		if o.ok {
			passed++
		}
		bad += len(o.diverged)
		failed := o.failed
		if !o.ok && len(failed) == 0 {
			failed = []string{o.name}
		}
		for _, of := range failed {
			i := slices.IndexFunc(reasons, func(r reason) bool { return r.explains(o.test, of) })
			if i >= 0 {
				reasons[i].used = true
				continue
			}
			bad++
			fmt.Fprintf(w, "%s %s failed, and docs/CONFORMANCE.md gives no reason%s\n",
				o.pkg, of, inPeerTable(peerTable, o))
		}
	}
	for _, r := range reasons {
		name, _, _ := strings.Cut(r.of, "/")
		ran := slices.ContainsFunc(outcomes, func(o outcome) bool { return o.test == test{r.pkg, name} })
		if ran && !r.used {
			fmt.Fprintf(w, "%s %s did not fail: take its reason out of docs/CONFORMANCE.md\n", r.pkg, r.of)
		}
	}
	fmt.Fprintf(w, "%d of %d tests passed, with %d cases\n", passed, len(outcomes), cases)
	if bad > 0 {
		return fmt.Errorf("%d failures without a reason", bad)
	}
	return nil
}

// inPeerTable says what kube-scheduler did with a test.
func inPeerTable(peerTable []peerRow, o outcome) string {
	i := slices.IndexFunc(peerTable, func(r peerRow) bool { return r.test == o.test })
	if i < 0 {
		return "; kube-scheduler was not tried with it"
	}
	return fmt.Sprintf("; kube-scheduler: %s, %d cases passed, %d failed",
		peerTable[i].result, peerTable[i].passed, peerTable[i].failed)
}

// The marks in the file between which the table stands.
const (
	beginMark = "<!-- exam: the table below is written by \"make exam\" -->\n"
	endMark   = "<!-- exam: end -->\n"
)

// writeTable writes the results between the marks of a file.
func writeTable(file string, outcomes []outcome, peerTable []peerRow) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	before, rest, ok := bytes.Cut(text, []byte(beginMark))
	_, after, closed := bytes.Cut(rest, []byte(endMark))
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table: put %q and %q into it", file, beginMark, endMark)
	}
	out := string(before) + beginMark + "\n" + tableOf(outcomes, peerTable) + "\n" + endMark + string(after)
	return os.WriteFile(file, []byte(out), 0o644)
}

// tableOf is the table of results.
func tableOf(outcomes []outcome, peerTable []peerRow) string {
	var b strings.Builder
	var passed, cases, failed, logs, diverged int
	b.WriteString("| Package | Test | Rollcall | Cases passed | Failed | kube-scheduler | Logs replayed | s |\n" +
		"|---|---|---|--:|--:|---|--:|--:|\n")
	for _, o := range outcomes {
		word := "passes"
		switch {
		case !o.ok && o.passed > 0:
			word = "in part"
		case !o.ok:
			word = "fails"
		}
		peer := "not run"
		if i := slices.IndexFunc(peerTable, func(r peerRow) bool { return r.test == o.test }); i >= 0 {
			peer = peerWord(peerTable[i])
		}
		if o.ok {
			passed++
		}
		cases, failed = cases+o.passed, failed+len(o.failed)
		logs, diverged = logs+o.identical, diverged+len(o.diverged)
		fmt.Fprintf(&b, "| %s | `%s` | %s | %d | %d | %s | %d | %d |\n", o.pkg, o.name, word, o.passed, len(o.failed),
			peer, o.identical, int(o.took/time.Second))
	}
	for _, r := range peerTable {
		if r.ownPlugins {
			fmt.Fprintf(&b, "| %s | `%s` | not run: brings plugins of its own | | | %s | | |\n",
				r.pkg, r.name, peerWord(r))
		}
	}
	fmt.Fprintf(&b, "\n%d of %d tests pass. Of their cases %d pass and %d fail. ", passed, len(outcomes), cases, failed)
	fmt.Fprintf(&b, "The replays of %d logs were identical, of %d not.\n", logs, diverged)
	return b.String()
}

// peerWord is kube-scheduler's result in a word.
func peerWord(r peerRow) string {
	switch {
	case r.result == "ok":
		return "passes"
	case r.passed > 0:
		return fmt.Sprintf("%d of %d", r.passed, r.passed+r.failed)
	case r.result == "no":
		return "fails"
	}
	return "out of time"
}
