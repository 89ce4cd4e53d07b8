package termwidth

import (
	"regexp"
	"slices"
	"strings"
)

// A table is a heading and the rows below it. All its columns are aligned to the left, with two blanks or more between
// them, as text/tabwriter writes them. The last row is the one before the first line that is not aligned.
type table struct {
	starts []int // where each column begins, in characters
	lines  []string
}

var (
	// gap separates two columns.
	gap = regexp.MustCompile(` {2,}`)
	// title begins the name of a column: two capital letters or more.
	title = regexp.MustCompile(`^\p{Lu}[\p{Lu}-]+(?: |$)`)
	// number is a cell that is not cut: an amount, a time, a range of entries.
	number = regexp.MustCompile(`^[+-]?[0-9][0-9.:,TZhmsµ+-]*[A-Za-z%]{0,2}$`)
)

// tableBelow returns the table that a heading begins, or nil if the line is no heading.
func tableBelow(line string) *table {
	gaps := gap.FindAllStringIndex(line, -1)
	starts := []int{0}
	begin := 0
	for _, g := range append(gaps, []int{len(line), len(line)}) {
		if !title.MatchString(line[begin:g[0]]) {
			return nil
		}
		if begin = g[1]; begin < len(line) {
			starts = append(starts, len([]rune(line[:begin])))
		}
	}
	if len(starts) < 2 {
		return nil
	}
	return &table{starts: starts, lines: []string{line}}
}

// take adds a line to the table and returns true, or returns false if the line is no row of it.
func (t *table) take(line string) bool {
	runes := []rune(line)
	if strings.TrimSpace(line) == "" {
		return false
	}
	for _, start := range t.starts[1:] {
		for _, i := range []int{start - 2, start - 1} {
			if i < len(runes) && runes[i] != ' ' {
				return false
			}
		}
	}
	t.lines = append(t.lines, line)
	return true
}

// cells returns the cells of each line.
func (t *table) cells() (rows [][]string) {
	for _, line := range t.lines {
		runes := []rune(line)
		row := make([]string, len(t.starts))
		for i, start := range t.starts {
			end := len(runes)
			if i+1 < len(t.starts) {
				end = min(end, t.starts[i+1])
			}
			if start < end {
				row[i] = strings.TrimRight(string(runes[start:end]), " ")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// fit returns the table's lines, cut to the width in columns where that is possible without cutting a number.
func (t *table) fit(width int) []string {
	if !slices.ContainsFunc(t.lines, func(line string) bool { return columns(line) > width }) {
		return t.lines
	}
	rows := t.cells()
	widths := fitted(rows, width)
	out := make([]string, len(rows))
	for r, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = cutCell(cell, widths[i], r == 0)
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", max(0, widths[i]-columns(cell))+2))
		}
		out[r] = strings.TrimRight(line.String(), " ")
	}
	return out
}

// cutCell cuts headings and sentences at their ends, and names in the middle.
func cutCell(cell string, width int, heading bool) string {
	if heading || strings.Count(cell, " ") > 1 || strings.Contains(cell, ", ") {
		return Cut(cell, width)
	}
	return cutName(cell, width)
}

// The least widths that columns are cut to. Columns of text are cut to legible first, then the headings above numbers
// to brief, then columns of text to brief.
const (
	legible = 16
	brief   = 6
)

// fitted returns the widths of the columns with which the rows fit. The widest column of text is cut first.
func fitted(rows [][]string, width int) []int {
	n := len(rows[0])
	widths, numbers, text := make([]int, n), make([]int, n), make([]bool, n)
	excess := 2*(n-1) - width
	for i := range n {
		widths[i] = columns(rows[0][i])
		for _, row := range rows[1:] {
			widths[i] = max(widths[i], columns(row[i]))
			if row[i] != "" && !number.MatchString(row[i]) {
				text[i] = true
			} else {
				numbers[i] = max(numbers[i], columns(row[i]))
			}
		}
		excess += widths[i]
	}
	narrow := func(ofText bool, least int) {
		for ; excess > 0; excess-- {
			widest := -1
			for i := range n {
				may := text[i] == ofText && widths[i] > max(least, numbers[i])
				if may && (widest < 0 || widths[i] >= widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				return
			}
			widths[widest]--
		}
	}
	narrow(true, legible)
	narrow(false, brief)
	narrow(true, brief)
	return widths
}
