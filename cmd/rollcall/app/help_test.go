package app

import (
	"strings"
	"testing"
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
