package termwidth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "…"

// Cut returns a text that has at most so many columns. It leaves out the end of the text, where "…" is then, and
// never a part of a number only.
func Cut(text string, width int) string {
	if columns(text) <= width {
		return text
	}
	kept, rest := split(text, width-1)
	last := strings.LastIndexByte(kept, ' ') + 1
	if next, _ := utf8.DecodeRuneInString(rest); next != ' ' {
		if word := strings.TrimLeft(kept[last:], "+-("); word != "" && unicode.IsDigit(rune(word[0])) {
			kept = kept[:last]
		} else if isNumeral(next) {
			kept = strings.TrimRightFunc(kept, isNumeral)
		}
	}
	return strings.TrimRight(kept, " ,;:") + ellipsis
}

// cutName is Cut for a name. It leaves out the middle: names often differ at their ends.
func cutName(name string, width int) string {
	if columns(name) <= width || width < 5 {
		return Cut(name, width)
	}
	kept, rest := split(name, width/2)
	begin, _ := split(reversed(rest), (width-1)/2)
	end := reversed(begin)
	left := rest[:len(rest)-len(end)]
	if next, _ := utf8.DecodeRuneInString(left); isNumeral(next) {
		kept = strings.TrimRightFunc(kept, isNumeral)
	}
	if before, _ := utf8.DecodeLastRuneInString(left); isNumeral(before) {
		end = strings.TrimLeftFunc(end, isNumeral)
	}
	return kept + ellipsis + end
}

// isNumeral reports whether r may be within a number.
func isNumeral(r rune) bool { return unicode.IsDigit(r) || r == '.' }

// split returns the longest beginning of a text that has at most so many columns, and the rest.
func split(text string, width int) (begin, rest string) {
	n := 0
	for i, r := range text {
		if n += runeColumns(r); n > width {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

func reversed(text string) string {
	runes := []rune(text)
	for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
		runes[i], runes[j] = runes[j], runes[i]
	}
	return string(runes)
}
