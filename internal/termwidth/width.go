package termwidth

import (
	"io"
	"os"
	"strconv"
	"unicode"

	"golang.org/x/term"
)

const (
	// Least is the smallest width in columns that text is wrapped at. A terminal that is narrower breaks the lines.
	Least = 40
	// Usual is the width in columns of a terminal that does not tell its own.
	Usual = 80
)

// Width returns the number of columns that text for w may have, at least Least, or 0 if w is no terminal. On a terminal
// the environment variable COLUMNS is preferred to the terminal's own width if it is a positive number.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	width := Screen(w)
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return max(width, Least)
}

// Screen returns the width of the terminal w in columns, whatever COLUMNS says: Usual if the terminal does not tell it,
// and 0 if w is no terminal. A line that is drawn again must not be longer.
func Screen(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || width <= 0 {
		return Usual
	}
	return width
}

// IsTerminal reports whether w is a file that is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// wide are the ranges of the letters of East Asia and of emoji, which take two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columns returns the number of columns that a terminal shows a text in. The text has no control characters.
func columns(text string) (n int) {
	for _, r := range text {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	switch {
	case r < unicode.MaxLatin1:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
