package render

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// How much of an explanation its text shows; JSON has all of it.
const (
	textReasons  = 10
	textHolders  = 3
	textMembers  = 12
	textAttempts = 6
	textPassers  = 8
	textAhead    = 8
	textFalls    = 4
	textVictims  = 4

	textPreemptions = 4
)

// page collects a text: the answer, facts under labels, then tables.
type page struct {
	at answer.Point // the entry that is asked about
	b  bytes.Buffer
}

// table writes rows in aligned columns, without those columns that are empty; nothing if there is no row.
// Headings begin with a word in capital letters: by them a terminal's writer knows a table, and cuts it.
func (p *page) table(heading []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	lines := make([][]string, len(rows)+1)
	for column, title := range heading {
		cells := []string{title}
		empty := true
		for _, row := range rows {
			cell := ""
			if column < len(row) {
				cell = row[column]
			}
			empty = empty && cell == ""
			cells = append(cells, cell)
		}
		if empty {
			continue
		}
		for i, cell := range cells {
			lines[i] = append(lines[i], cell)
		}
	}
	p.b.WriteByte('\n')
	p.columns(lines)
}

// printf writes text of the program, with texts that come from elsewhere.
func (p *page) printf(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = eventlog.Plain(arg)
		case fmt.Stringer:
			args[i] = eventlog.Plain(arg.String())
		}
	}
	fmt.Fprintf(&p.b, format, args...)
}

func (p *page) columns(rows [][]string) {
	var aligned bytes.Buffer
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = eventlog.Plain(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory: it cannot fail
	for line := range strings.Lines(aligned.String()) {
		p.b.WriteString(strings.TrimRight(line, " \n"))
		p.b.WriteByte('\n')
	}
}

func (p *page) writeTo(w io.Writer) error {
	_, err := w.Write(p.b.Bytes())
	return err
}

// numberOr is n, or nothing if n is 0.
func numberOr(n int, nothing string) string {
	if n == 0 {
		return nothing
	}
	return fmt.Sprint(n)
}

const gangPlugin = coscheduling.Name
