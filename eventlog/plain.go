package eventlog

import (
	"strconv"
	"strings"
	"unicode"
)

// Plain makes text safe to print within one line for people. Gang names and reasons may contain arbitrary characters,
// because they come from annotations and other objects. Plain escapes control characters, line breaks and marks that
// turn the direction of writing, as Go does, so that the text cannot imitate the program's output. Example:
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

// isHidden reports whether a rune is not visible.
func isHidden(r rune) bool { return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) }
