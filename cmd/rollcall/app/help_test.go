package app

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rollcall-sched/rollcall/internal/termwidth"
)

// TestHelpHasNoTabs finds texts whose source was broken in the middle of a line.
func TestHelpHasNoTabs(t *testing.T) {
	for _, cmd := range commands(NewCommand()) {
		for line := range strings.Lines(cmd.Long) {
			if strings.Contains(line, "\t") {
				t.Errorf("%s: the help has a tab: %q", cmd.CommandPath(), line)
			}
		}
	}
}

// TestHelpFitsEightyColumns looks at the help of every command, as it is printed and as its source has it. In examples
// a backslash continues a line.
func TestHelpFitsEightyColumns(t *testing.T) {
	root := NewCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	all := commands(root)
	if len(all) < 25 {
		t.Fatalf("there are %d commands", len(all))
	}
	for _, cmd := range all {
		if strings.Contains(cmd.CommandPath(), " completion") {
			continue // cobra's own
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example+"\n"+cmd.Short, "\n") {
			if n := utf8.RuneCountInString(line); n > termwidth.Usual {
				t.Errorf("%s: a line of the help's source has %d columns: %q", cmd.CommandPath(), n, line)
			}
		}
	}
	for _, cmd := range all {
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		for line := range strings.SplitSeq(string(rollcall(t, args...)), "\n") {
			if n := utf8.RuneCountInString(line) + 7*strings.Count(line, "\t"); n > termwidth.Usual {
				t.Errorf("rollcall %s has a line of %d columns: %q", strings.Join(args, " "), n, line)
			}
		}
	}
}
