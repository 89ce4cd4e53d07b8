package lint

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxColumns is the largest width of a line of source or of documentation. A tab counts as tabColumns columns, and
// every character as one.
const (
	maxColumns = 120
	tabColumns = 4
)

// checkColumns reports each line of a Go file or a Markdown file of the module that is longer than maxColumns. In
// Markdown it ignores tables, code blocks (what programs print is as wide as it is), and images and links on lines of
// their own. In Go it ignores lines that cannot be broken: a URL, a directive for the compiler, raw strings.
func checkColumns(root string) ([]finding, error) {
	var out []finding
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && skipped(p, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		check := map[string]func([]byte) []int{".go": longInGo, ".md": longInMarkdown}[filepath.Ext(p)]
		if check == nil {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, line := range check(text) {
			out = append(out, finding{
				file: relative(root, p), line: line, rule: "columns",
				advice: fmt.Sprintf("the line is longer than %d columns: break it", maxColumns),
			})
		}
		return nil
	})
	return out, err
}

// longInGo returns the numbers of the lines of a Go file that are too long. Lines with a part of a raw string are left
// out: it is data, such as YAML or a regular expression, of which a line break would be a part.
func longInGo(text []byte) (lines []int) {
	raw := linesOfRawStrings(text)
	for n, line := range splitLines(text) {
		word := strings.TrimPrefix(strings.TrimSpace(line), "// ")
		if columns(line) > maxColumns && !raw[n+1] && strings.ContainsRune(word, ' ') &&
			!strings.HasPrefix(word, "//go:") {
			lines = append(lines, n+1)
		}
	}
	return lines
}

// linesOfRawStrings returns the lines on which a raw string begins, continues or ends.
func linesOfRawStrings(text []byte) map[int]bool {
	lines := map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING || literal[0] != '`' {
			continue
		}
		first := file.Line(pos)
		for n := range strings.Count(literal, "\n") + 1 {
			lines[first+n] = true
		}
	}
}

// longInMarkdown returns the numbers of the lines of a Markdown file that are too long.
func longInMarkdown(text []byte) (lines []int) {
	fenced := false
	for n, line := range splitLines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced, strings.HasPrefix(line, "|"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "!["):
		case columns(line) > maxColumns && strings.ContainsRune(strings.TrimSpace(line), ' '):
			lines = append(lines, n+1)
		}
	}
	return lines
}

func splitLines(text []byte) []string {
	return strings.Split(string(bytes.TrimSuffix(text, []byte("\n"))), "\n")
}

// columns returns how wide a line is.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}
