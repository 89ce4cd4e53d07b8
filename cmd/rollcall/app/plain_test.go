package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/logs/audit"
)

func TestDataCannotLookLikeTheProgramsOutput(t *testing.T) {
	var b bytes.Buffer
	_, err := plainf(&b, "pod %s on %s: %v\n", "a\nbound on node-1", types.UID("\x1b[2J\u202e"), errors.New("x\r"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `pod a\nbound on node-1 on \x1b[2J\u202e: x\r` + "\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if got := plainLines("one\ntwo\x1b"); got != "one\ntwo\\x1b" {
		t.Errorf("%q", got)
	}
}

// TestAProofCannotClaimABindThatItDoesNotShow has a proof of a pod whose UID says that it was bound.
func TestAProofCannotClaimABindThatItDoesNotShow(t *testing.T) {
	var b bytes.Buffer
	report := &audit.PlacementReport{Pod: "ml/a", UID: "u)\n  bound     entry 9: on node-1\x1b[8m", Node: "n1"}
	writePlacement(&b, report, audit.CheckpointReport{Origin: "jobs", Size: 9})
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "  bound     entry") || strings.Contains(line, "\x1b") {
			t.Errorf("%q", line)
		}
	}
}

// TestAllTextForPeopleIsEscaped finds prints that do not go through plainf.
func TestAllTextForPeopleIsEscaped(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	raw := regexp.MustCompile(`fmt\.(Fprintf|Printf|Print|Println)\(`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "plain.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if raw.MatchString(line) {
				t.Errorf("%s:%d: %s: use plainf", file, i+1, strings.TrimSpace(line))
			}
		}
	}
}
