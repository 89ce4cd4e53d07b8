//go:build linux

package main

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/termwidth/pty"
)

// TestAnswersFitTheTerminalAndJSONStaysWhole runs commands whose output is longer than the terminal's lines.
func TestAnswersFitTheTerminalAndJSONStaysWhole(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("COLUMNS", "")
	long := strings.Repeat("word ", 20) + "end"
	table := "NODES  REASON\n12     " + long + "\n"
	for _, test := range []struct{ given, stdout, want string }{
		{"explain pod a/b", table, "NODES  REASON\n12     word word word word word word wo…\n"},
		{"log info", long + "\n", strings.Repeat("word word word word word word word word\n", 2) +
			"word word word word end\n"},
		{"explain pod a/b -o json", table, table},
		{"explain pod a/b --output=JSON", table, table},
		{"events -o json", table, table},
		{"get pods -o csv", table, table},
		{"log cat", table, table},
	} {
		c := &cluster{t: t, stdout: test.stdout}
		server := httptest.NewServer(c)
		terminal := pty.New(t, 40)
		root := newRoot()
		root.SetOut(terminal.File)
		root.SetErr(t.Output())
		root.SetArgs(append([]string{"--server", server.URL}, strings.Fields(test.given)...))
		err := root.ExecuteContext(t.Context())
		server.Close()
		if got := strings.ReplaceAll(terminal.Shown(), "\r\n", "\n"); err != nil || got != test.want {
			t.Errorf("%s: %v, shown:\n%s\nwant:\n%s", test.given, err, got, test.want)
		}
	}
}
