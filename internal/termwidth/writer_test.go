package termwidth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// fittedTo returns a text as a terminal of that width gets it.
func fittedTo(t *testing.T, width int, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := &Writer{to: &b, width: width}
	if _, err := io.Copy(w, iotest.OneByteReader(strings.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const page = `Gang default/wide is pending: it needs 80 nvidia.com/gpu for 10 members; 1 free, 64 held by default/llama.

at            entry 82, 2026-01-01T00:20:00Z
last failure  entry 65, 2026-01-01T00:10:00Z, cycle 13: default/wide-0 Unschedulable

LET PAST              WHAT                    PRIORITY  TOOK                                  WHILE IT (PRIORITY 0) WAS
2026-01-01T00:12:00Z  pod default/notebook-0  0         4 cpu, 32Gi memory, 1 nvidia.com/gpu  Unschedulable
2026-01-01T00:12:00Z  pod default/notebook-1  0         4 cpu, 32Gi memory, 1 nvidia.com/gpu  Unschedulable

FOR 10 MEMBERS  NEEDED  FREE     HELD BY
cpu             640     420      gang default/llama 512, gang default/red 192, default/sweep-0 8
memory          5Ti     3.344Ti  nobody
and 2 more; --all shows all
$ rollcall explain a-command-that-is-to-be-copied.db gang default/wide --at 2026-01-01T00:20:00Z
`

func TestATerminalGetsWrappedSentencesAndCutTables(t *testing.T) {
	want := `Gang default/wide is pending: it needs 80 nvidia.com/gpu for 10 members; 1 free,
  64 held by default/llama.

at            entry 82, 2026-01-01T00:20:00Z
last failure  entry 65, 2026-01-01T00:10:00Z, cycle 13: default/wide-0
              Unschedulable

LET PAST              WHAT              PRIOR…  TOOK             WHILE IT (PRIO…
2026-01-01T00:12:00Z  pod defa…ebook-0  0       4 cpu, 32Gi me…  Unschedulable
2026-01-01T00:12:00Z  pod defa…ebook-1  0       4 cpu, 32Gi me…  Unschedulable

FOR 10 MEMBERS  NEEDED  FREE     HELD BY
cpu             640     420      gang default/llama 512, gang default/red 192…
memory          5Ti     3.344Ti  nobody
and 2 more; --all shows all
$ rollcall explain a-command-that-is-to-be-copied.db gang default/wide --at 2026-01-01T00:20:00Z
`
	if got := fittedTo(t, 80, page); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestWhatFitsStaysAsItIs(t *testing.T) {
	for _, text := range []string{page, "", "\n", "  without an end", "a  b \n", "AB  CD"} {
		if got := fittedTo(t, 200, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
		var b bytes.Buffer
		err := Fit(&b, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Repeat(text, 3))
			return err
		})
		if err != nil || b.String() != strings.Repeat(text, 3) {
			t.Errorf("%q became %q without a terminal, %v", text, b.String(), err)
		}
	}
}

func TestNoWordAndNoNumberIsLostInSentences(t *testing.T) {
	words := strings.Fields(page[:strings.Index(page, "\n\nLET PAST")])
	for width := Least; width < 130; width++ {
		got := fittedTo(t, width, page[:strings.Index(page, "\n\nLET PAST")])
		if !slices.Equal(strings.Fields(got), words) {
			t.Errorf("width %d:\n%s", width, got)
		}
		for line := range strings.Lines(got) {
			if columns(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("width %d: %q", width, line)
			}
		}
	}
}

func TestTablesFitAndNumbersAreWhole(t *testing.T) {
	text := page[strings.Index(page, "FOR 10"):strings.Index(page, "and 2 more")]
	for width := Least; width < 130; width++ {
		got := fittedTo(t, width, text)
		for line := range strings.Lines(got) {
			if columns(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("width %d: %q", width, line)
			}
		}
		for _, number := range []string{"640", "420", "5Ti", "3.344Ti"} {
			if !slices.Contains(strings.Fields(got), number) {
				t.Errorf("width %d: %s is not there:\n%s", width, number, got)
			}
		}
	}
}

func TestWhatIsCut(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  string
	}{
		{"as it is", 8, "as it is"},
		{"a sentence of words", 10, "a sentenc…"},
		{"16m14s, 360 of 931 pods", 15, "16m14s, 360 of…"},
		{"16m14s, 360 of 931 pods", 17, "16m14s, 360 of…"},
		{"16m14s, 360 of 931 pods", 19, "16m14s, 360 of 931…"},
		{"pods=1234 of nodes", 8, "pods=…"},
		{"-12.5 is less", 4, "…"},
		{"名前は長いです", 7, "名前は…"},
	} {
		if got := Cut(test.text, test.width); got != test.want {
			t.Errorf("%q to %d: %q, want %q", test.text, test.width, got, test.want)
		}
	}
	for _, test := range []struct {
		name  string
		width int
		want  string
	}{
		{"default/notebook-0", 13, "defaul…book-0"},
		{"default/notebook-1234", 9, "defa…1234"},
		{"node-1234567-a", 8, "node…-a"},
		{"abc", 2, "a…"},
	} {
		if got := cutName(test.name, test.width); got != test.want {
			t.Errorf("name %q to %d: %q, want %q", test.name, test.width, got, test.want)
		}
	}
}

func TestParagraphsAreBrokenAgainAndCommandsAreNot(t *testing.T) {
	const rest = "\n\nOne that\nfits.\n\n  a command that is longer than the width\n"
	text := "A paragraph of two\nlines, one of which is long." + rest
	want := "A paragraph of two\nlines, one of which\nis long." + rest
	if got := Reflow(text, 20); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestAWriterReportsThatItCannotWrite(t *testing.T) {
	full := errors.New("it is full")
	w := &Writer{to: failing{full}, width: 80}
	if _, err := fmt.Fprintln(w, "a line"); !errors.Is(err, full) {
		t.Errorf("write: %v", err)
	}
	if err := w.Flush(); !errors.Is(err, full) {
		t.Errorf("flush: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestWithinANumberOfColumnsTextIsWrappedWhereverItGoes writes to no terminal.
func TestWithinANumberOfColumnsTextIsWrappedWhereverItGoes(t *testing.T) {
	const rest = "$ a command that is to be copied, as long as it is\nand its end"
	write := func(w io.Writer) error {
		_, err := fmt.Fprint(w, "a sentence of several words, longer than a line\n", rest)
		return err
	}
	for columns, want := range map[int]string{
		45:  "a sentence of several words, longer than a\n  line\n" + rest,
		100: "a sentence of several words, longer than a line\n" + rest,
	} {
		var b bytes.Buffer
		if err := FitWithin(&b, columns, write); err != nil || b.String() != want {
			t.Errorf("%d columns: error %v, and the text\n%s\nwant\n%s", columns, err, b.String(), want)
		}
	}
}
