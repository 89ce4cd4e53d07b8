package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// paragraph is a run of prose: a paragraph of a comment, or one of a page.
type paragraph struct {
	// text has the lines joined by spaces, without markers of comments, lists and headings.
	text string
	// line is the number of its first line, and ends holds, for each line, where it ends in text.
	line int
	ends []int
	// doc: the paragraph belongs to the doc comment of a declaration or package.
	doc bool
}

// add appends a line of the source.
func (p *paragraph) add(line string) {
	if p.text != "" {
		p.text += " "
	}
	p.text += line
	p.ends = append(p.ends, len(p.text))
}

// lineAt returns the line of the source that has the byte at offset of the text.
func (p *paragraph) lineAt(offset int) int {
	n, _ := slices.BinarySearch(p.ends, offset+1)
	return p.line + n
}

// paragraphs collects lines into paragraphs.
type paragraphs struct {
	list []paragraph
	open bool
	doc  bool
}

// line takes the next line of a text. An empty one ends the paragraph.
func (ps *paragraphs) line(n int, text string) {
	if text == "" {
		ps.open = false
		return
	}
	if !ps.open {
		ps.list = append(ps.list, paragraph{line: n, doc: ps.doc})
		ps.open = true
	}
	ps.list[len(ps.list)-1].add(text)
}

// listItem is the mark before an item of a list.
var listItem = regexp.MustCompile(`^\s*([-*•]|\d+[.)])\s+`)

// proseOfGo returns the paragraphs of a file's comments. Directives for the compiler and indented lines, which are code
// or tables, are left out.
func proseOfGo(f *file) []paragraph {
	docs := docComments(f.syntax)
	ps := &paragraphs{}
	for _, group := range f.syntax.Comments {
		ps.open, ps.doc = false, docs[group]
		for _, c := range group.List {
			n := f.fset.Position(c.Pos()).Line
			if body, ok := strings.CutPrefix(c.Text, "//"); ok {
				ps.goLine(n, body)
				continue
			}
			for i, line := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
				ps.goLine(n+i, " "+strings.TrimSpace(line))
			}
		}
	}
	return ps.list
}

// goLine takes one line of a comment, from behind its marker.
func (ps *paragraphs) goLine(n int, body string) {
	switch {
	case listItem.MatchString(body):
		ps.open = false
		ps.line(n, strings.TrimSpace(listItem.ReplaceAllString(body, "")))
	case strings.HasPrefix(body, "\t"), strings.HasPrefix(body, "   "):
		// In a list the lines that follow an item's first are indented as well.
		if ps.open {
			ps.line(n, strings.TrimSpace(body))
		}
	case strings.TrimSpace(body) == "":
		ps.line(n, "")
	case !strings.HasPrefix(body, " "):
		// A directive such as //go:build, or code that is commented out.
	default:
		ps.line(n, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(body), "# ")))
	}
}

// docComments returns the doc comments of a file: of the package, its declarations, and the fields and methods of its
// types.
func docComments(syntax *ast.File) map[*ast.CommentGroup]bool {
	docs := map[*ast.CommentGroup]bool{syntax.Doc: true}
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			docs[n.Doc] = true
			return false
		case *ast.GenDecl:
			docs[n.Doc] = true
			return n.Tok != token.IMPORT
		case *ast.TypeSpec:
			docs[n.Doc] = true
		case *ast.ValueSpec:
			docs[n.Doc] = true
		case *ast.Field:
			docs[n.Doc] = true
		}
		return true
	})
	return docs
}

// proseOfMarkdown returns the paragraphs of a page. It ignores code blocks and HTML, and makes a paragraph of each cell
// of a table.
func proseOfMarkdown(text []byte) []paragraph {
	ps := &paragraphs{}
	fenced := false
	for i, line := range splitLines(text) {
		n, trimmed := i+1, strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
			ps.open = false
		case fenced, strings.HasPrefix(trimmed, "|---"), strings.HasPrefix(trimmed, "<"):
			ps.open = false
		case strings.HasPrefix(line, "    ") && !ps.open:
		case strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, "|"):
			for _, cell := range strings.Split(strings.Trim(trimmed, "#|"), " | ") {
				ps.open = false
				ps.line(n, strings.TrimSpace(cell))
			}
			ps.open = false
		case listItem.MatchString(line):
			ps.open = false
			ps.line(n, strings.TrimSpace(listItem.ReplaceAllString(line, "")))
		default:
			ps.line(n, strings.TrimPrefix(trimmed, "> "))
		}
	}
	return ps.list
}

// sentence is one of a paragraph, from start on.
type sentence struct {
	text  string
	start int
}

// sentenceEnd matches the end of one sentence and the beginning of the next.
var sentenceEnd = regexp.MustCompile("[.!?][)\"'”*]* +[^ ]")

// abbreviation matches a full stop that does not end a sentence.
var abbreviation = regexp.MustCompile(`(?i)(\b(e\.g|i\.e|etc|vs|cf|approx)|\.\.)\.$`)

// sentencesOf splits a text.
func sentencesOf(text string) (out []sentence) {
	start := 0
	for _, m := range sentenceEnd.FindAllStringIndex(text, -1) {
		if abbreviation.MatchString(text[start : m[0]+1]) {
			continue
		}
		next := m[1] - 1
		for !utf8.RuneStart(text[next]) {
			next--
		}
		out = append(out, sentence{strings.TrimSpace(text[start:next]), start})
		start = next
	}
	return append(out, sentence{strings.TrimSpace(text[start:]), start})
}

// wordsOf counts the words of a text: the parts between spaces that have a letter or a digit.
func wordsOf(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, isWordRune) {
			n++
		}
	}
	return n
}

func isWordRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 0x7f
}
