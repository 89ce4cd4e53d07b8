package termwidth

import (
	"regexp"
	"strings"
)

// hangs is the indentation of a wrapped line without a label: its further lines begin so many columns behind its first.
const hangs = 2

// labelled is a line that begins with a label, two blanks or more, and its text.
var labelled = regexp.MustCompile(`^ *\S+(?: \S+)* {2,}`)

// WrapLine breaks a line at blanks, so that it fits the width in columns. Its next lines begin below the text behind
// its label, or a little in, as far as that leaves Least columns. A word that is longer than a line stays whole, and
// so does a line that begins as a command of a shell does: it is there to be copied.
func WrapLine(line string, width int) string {
	if columns(line) <= width || strings.HasPrefix(line, "$ ") {
		return line
	}
	lead := len(line) - len(strings.TrimLeft(line, " "))
	hang := lead + hangs
	if label := labelled.FindString(line); label != "" && columns(label) <= width-Least {
		hang = columns(label)
	}
	return Wrap(line, width, max(0, min(hang, width-Least)))
}

// Wrap breaks a text without line breaks at blanks, so that each line has at most so many columns. Lines behind the
// first one begin with so many blanks as hang says. Blanks within a line are kept. A word that is longer than a line
// stays whole.
func Wrap(text string, width, hang int) string {
	var out strings.Builder
	at := 0
	for {
		word := strings.TrimLeft(text, " ")
		gap := len(text) - len(word)
		if word == "" {
			return out.String()
		}
		word, text = cutWord(word)
		n := columns(word)
		if at > 0 && at+gap+n > width && hang < at+gap {
			out.WriteByte('\n')
			at, gap = 0, hang
		}
		out.WriteString(strings.Repeat(" ", gap))
		out.WriteString(word)
		at += gap + n
	}
}

// cutWord returns the first word of a text, and what follows with its blanks.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexByte(text, ' '); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// Reflow breaks the paragraphs of a text again that have a line of more than width columns. Between paragraphs are
// empty lines. Lines that begin with a blank or a tab, such as commands, are paragraphs of their own and stay whole.
func Reflow(text string, width int) string {
	var out, paragraph []string
	end := func() {
		for _, line := range paragraph {
			if columns(line) > width {
				paragraph = []string{Wrap(strings.Join(paragraph, " "), width, 0)}
				break
			}
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && line[0] != ' ' && line[0] != '\t' {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		out = append(out, line)
	}
	end()
	return strings.Join(out, "\n")
}
