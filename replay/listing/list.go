package listing

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// A List has the rows of a log at one entry.
type List struct {
	// Name is the name of the list, At the entry after which it is so.
	Name string       `json:"list"`
	At   answer.Point `json:"at"`
	// Undecided says what a log without decisions does not know; "" for a log with decisions.
	Undecided string `json:"undecided,omitempty"`
	// Items are the rows: a slice of answer.Pending, Queued, Gang, Node or Pod.
	Items any `json:"items"`

	what    string // the rows in words, with their number
	columns []heading
	rows    [][]cell
	notes   []string // below the table
}

// heading is the heading of a column.
type heading struct {
	title string
	name  string // in CSV; "" if it is the title in small letters
	wide  bool   // it is left out of the narrow text
}

// cell is a cell as text, and as a value of CSV.
type cell struct{ text, value string }

// column is a column of rows of one type. value is nil if it is the same as text.
type column[R any] struct {
	title string
	name  string
	wide  bool
	text  func(*R) string
	value func(*R) string
}

// newList makes a list of rows. one and many are the words for the rows.
func newList[R any](rows []R, one, many string, columns []column[R]) *List {
	if rows == nil {
		rows = []R{}
	}
	l := &List{Items: rows, what: fmt.Sprintf("%d %s", len(rows), many)}
	if len(rows) == 1 {
		l.what = "1 " + one
	}
	for _, c := range columns {
		l.columns = append(l.columns, heading{c.title, c.name, c.wide})
	}
	for i := range rows {
		var line []cell
		for _, c := range columns {
			text := c.text(&rows[i])
			value := text
			if c.value != nil {
				value = c.value(&rows[i])
			}
			line = append(line, cell{text, value})
		}
		l.rows = append(l.rows, line)
	}
	return l
}

// WriteText writes the list for people: what it is, and a table. wide shows all columns.
func (l *List) WriteText(w io.Writer, wide bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s at %s (entry %d)\n", l.what, l.At.Time, l.At.Seq)
	if len(l.rows) > 0 {
		b.WriteByte('\n')
		l.table(&b, wide)
	}
	for i, note := range l.notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(eventlog.Plain(note) + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// table writes the table. Texts of the log are escaped.
func (l *List) table(b *bytes.Buffer, wide bool) {
	var aligned bytes.Buffer
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	line := func(cellOf func(i int) string) {
		var cells []string
		for i, c := range l.columns {
			if wide || !c.wide {
				cells = append(cells, eventlog.Plain(cellOf(i)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(i int) string { return l.columns[i].title })
	for _, row := range l.rows {
		line(func(i int) string { return row[i].text })
	}
	_ = w.Flush() // into memory: it cannot fail
	for text := range strings.Lines(aligned.String()) {
		b.WriteString(strings.TrimRight(text, " \n"))
		b.WriteByte('\n')
	}
}

// WriteCSV writes all columns as CSV, with a line of headings. Times are RFC 3339, amounts are in their base unit.
func (l *List) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var line []string
	for _, c := range l.columns {
		line = append(line, cmp.Or(c.name, strings.ReplaceAll(strings.ToLower(c.title), " ", "_")))
	}
	if err := out.Write(line); err != nil {
		return err
	}
	for _, row := range l.rows {
		line = line[:0]
		for _, c := range row {
			line = append(line, eventlog.Plain(c.value))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// clock is a time as tables have it: the time of day if it is on the day of the point in question, or else the date;
// "" for none.
func clock(t answer.Instant, at answer.Point) string {
	if t == 0 {
		return ""
	}
	is, day := eventlog.Time(t).Std().UTC(), eventlog.Time(at.Time).Std().UTC()
	if is.Format(time.DateOnly) == day.Format(time.DateOnly) {
		return is.Format(time.TimeOnly)
	}
	return is.Format(time.DateOnly)
}

// stamp is a time as a value; "" for none.
func stamp(t answer.Instant) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

// number is n, or nothing if n is 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
