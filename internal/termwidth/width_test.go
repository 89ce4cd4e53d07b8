//go:build linux

package termwidth

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/termwidth/pty"
)

func TestTheWidthIsThatOfTheTerminalOrOfCOLUMNS(t *testing.T) {
	for _, test := range []struct {
		terminal     int
		columns      string
		text, screen int
	}{
		{80, "", 80, 80},
		{200, "", 200, 200},
		{60, "", 60, 60},
		{30, "", Least, 30},
		{0, "", Usual, Usual},
		{80, "200", 200, 80},
		{80, "50", 50, 80},
		{80, "7", Least, 80},
		{80, "0", 80, 80},
		{80, "-4", 80, 80},
		{80, "wide", 80, 80},
	} {
		t.Setenv("COLUMNS", test.columns)
		terminal := pty.New(t, test.terminal)
		if text, screen := Width(terminal.File), Screen(terminal.File); text != test.text || screen != test.screen {
			t.Errorf("a terminal of %d columns, COLUMNS=%q: text %d, screen %d, want %d and %d",
				test.terminal, test.columns, text, screen, test.text, test.screen)
		}
	}
}

func TestATerminalThatChangesItsSizeIsAskedAgain(t *testing.T) {
	terminal := pty.New(t, 80)
	terminal.Resize(t, 100)
	if n := Screen(terminal.File); n != 100 {
		t.Fatalf("%d columns, want 100", n)
	}
}

func TestWhatIsNoTerminalHasNoWidth(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	for _, w := range []io.Writer{write, &bytes.Buffer{}, io.Discard} {
		if Width(w) != 0 || Screen(w) != 0 || IsTerminal(w) {
			t.Errorf("%T: width %d, screen %d", w, Width(w), Screen(w))
		}
	}
}
