package eventlog

import (
	"strconv"
	"strings"
	"unicode"
)

// Plain returns a text as it may stand in a line for people. Names of gangs come from annotations, and reasons quote
// what objects say: what such a text has of control characters, line breaks and marks that turn the direction of
// writing is written as Go escapes it, so that it cannot look like something that the program says. Example:
// "a\x1b[2J\nb" is shown with the two backslashes.
func Plain(text string) string {
	if strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isHidden reports whether a rune does something else than to be seen.
func isHidden(r rune) bool { return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) }
