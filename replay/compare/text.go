package compare

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// WriteText writes the report for people. Data of the logs is escaped.
func (r *Report) WriteText(w io.Writer) error {
	p := &printer{w: w}
	for _, s := range []struct {
		label string
		Side
	}{{"A", r.A}, {"B", r.B}} {
		p.printf("%-14s %s, %d entries, %s to %s\n", s.label, s.Log, s.Entries, s.First.Time, s.Last.Time)
	}
	if r.Relative {
		p.printf("note           the logs begin at different times: times are compared from the first entry on\n")
	}
	if r.Same() {
		p.printf("the same       configuration, inputs, %d decisions, and outcomes of all pods\n", r.SameDecisions)
		return p.err
	}
	r.writeSettings(p)
	r.writeInput(p)
	r.writeDecision(p)
	for _, part := range []struct {
		label, title string
		list         []Change
		count        int
		a, b         Totals
	}{{"gangs", "GANG", r.Gangs, r.GangsDiffer, r.A.Gangs, r.B.Gangs},
		{"pods", "POD", r.Pods, r.PodsDiffer, r.A.Pods, r.B.Pods}} {
		if part.count == 0 {
			p.printf("%-14s the same outcomes\n", part.label)
			continue
		}
		p.printf("%-14s %d with other outcomes%s\n", part.label, part.count, shown(len(part.list), part.count))
		p.printf("  A %s\n  B %s\n", part.a.text(), part.b.text())
		p.table(part.title, part.list)
	}
	return p.err
}

// text says the totals in a line.
func (t Totals) text() string {
	mean := Wait(time.Duration(t.MeanWait).Round(time.Second))
	return fmt.Sprintf("%d of %d placed; waits %s in the mean, %s at most; pods evicted: %d", t.Placed, t.All,
		mean, t.LongestWait, t.Evicted)
}

func shown(n, all int) string {
	if n < all {
		return fmt.Sprintf("; the first %d are shown", n)
	}
	return ""
}

func (r *Report) writeSettings(p *printer) {
	if r.SettingsDiffer == 0 {
		p.printf("configuration  the same\n")
		return
	}
	p.printf("configuration  settings that differ: %d%s\n", r.SettingsDiffer, shown(len(r.Settings), r.SettingsDiffer))
	for _, s := range r.Settings {
		p.printf("  epoch %d, %s: A %s, B %s\n", s.Epoch, s.Field, orNone(s.A), orNone(s.B))
	}
}

// maxValue is the number of characters that are shown of a value.
const maxValue = 160

func orNone(value string) string {
	if value == "" {
		return "has none"
	}
	if runes := []rune(value); len(runes) > maxValue {
		return string(runes[:maxValue]) + "…"
	}
	return value
}

func (r *Report) writeInput(p *printer) {
	if r.Input == nil {
		p.printf("inputs         the same\n")
		return
	}
	after := ""
	if r.InputLater {
		after = ", behind the first different decision: it may be a result of that"
	}
	p.printf("inputs         first difference%s\n", after)
	defer r.writeObjects(p)
	for _, each := range []struct {
		label string
		input *Input
	}{{"A", r.Input.A}, {"B", r.Input.B}} {
		switch {
		case each.input == nil:
			p.printf("  %s no further input\n", each.label)
		case each.input.Seq == 0:
			p.printf("  %s state before the first entry: %s\n", each.label, each.input.What)
		default:
			p.printf("  %s %s: %s\n", each.label, each.input.Point, each.input.What)
		}
	}
	if a, b := r.Input.A, r.Input.B; a != nil && b != nil && a.What == b.What {
		if a.Time != b.Time && !r.Relative {
			p.printf("  the times differ\n")
		} else {
			p.printf("  the fields differ: rollcall log cat shows both\n")
		}
	}
}

func (r *Report) writeObjects(p *printer) {
	for _, o := range r.Objects {
		for _, part := range []struct {
			names []string
			count int
			what  string
		}{
			{o.OnlyA, o.CountA, "only in A"}, {o.OnlyB, o.CountB, "only in B"},
			{o.Other, o.CountOf, "with other fields"},
		} {
			if part.count > 0 {
				p.printf("  %s: %d %s: %s\n", o.Resource, part.count, part.what, namesOf(part.names, part.count))
			}
		}
	}
}

// maxNames is the number of names in a line.
const maxNames = 5

func namesOf(names []string, count int) string {
	text := strings.Join(names[:min(maxNames, len(names))], ", ")
	if count > maxNames {
		text += ", …"
	}
	return text
}

func (r *Report) writeDecision(p *printer) {
	if r.Decision == nil {
		p.printf("decisions      the same %d\n", r.SameDecisions)
		return
	}
	p.printf("decisions      the first %d are the same, then\n", r.SameDecisions)
	for _, each := range []struct {
		label string
		d     *Decided
	}{{"A", r.Decision.A}, {"B", r.Decision.B}} {
		if each.d == nil {
			p.printf("  %s no further decision\n", each.label)
			continue
		}
		text := each.d.Outcome
		if each.d.Node != "" {
			text += " on " + each.d.Node
		}
		p.printf("  %s %s: pod %s %s\n", each.label, each.d.Point, each.d.Pod, text)
	}
	if r.Decision.Field != "" {
		p.printf("  field %s: A %s, B %s\n", r.Decision.Field, orNone(r.Decision.ValueA), orNone(r.Decision.ValueB))
	}
}

// printer writes lines with their data escaped, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err != nil {
		return
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = eventlog.Plain(arg)
		case fmt.Stringer:
			args[i] = eventlog.Plain(arg.String())
		}
	}
	_, p.err = fmt.Fprintf(p.w, format, args...)
}

func (p *printer) table(title string, list []Change) {
	t := &printer{w: tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)}
	t.printf("%s\tWAIT A\tWAIT B\tCHANGE\tEVICTED A, B\tA\tB\n", title)
	for _, c := range list {
		change := "-"
		if c.A != nil && c.B != nil {
			if change = c.MoreWait.String(); c.MoreWait > 0 {
				change = "+" + change
			}
		}
		t.printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, waitOf(c.A, c.WaitA), waitOf(c.B, c.WaitB), change,
			fmt.Sprintf("%s, %s", evictedOf(c.A), evictedOf(c.B)), endOf(c.A), endOf(c.B))
	}
	if t.err == nil {
		t.err = t.w.(*tabwriter.Writer).Flush()
	}
	if p.err == nil {
		p.err = t.err
	}
}

func waitOf(o *Outcome, wait Wait) string {
	switch {
	case o == nil || o.Complete == nil:
		return "-"
	case o.Placed == nil:
		return wait.String() + "*" // it has no end yet
	}
	return wait.String()
}

func evictedOf(o *Outcome) string {
	if o == nil {
		return "-"
	}
	return fmt.Sprint(o.Evicted)
}

// endOf says what became of a gang or pod.
func endOf(o *Outcome) string {
	switch {
	case o == nil:
		return "not there"
	case o.Complete == nil:
		return "incomplete"
	case o.Failed > 0:
		return "failed"
	case o.Succeeded > 0:
		return "succeeded"
	case o.Placed == nil:
		return "pending"
	}
	if o.Node != "" {
		return "on " + o.Node
	}
	return "placed"
}
