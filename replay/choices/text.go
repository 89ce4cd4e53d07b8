package choices

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Examples keeps the first choices that differ from Rollcall's, for people.
type Examples struct {
	limit             int
	infeasible, other []*answer.Choice
}

// NewExamples returns Examples of at most so many choices.
func NewExamples(limit int) *Examples { return &Examples{limit: limit} }

// Add keeps a choice if it is one of the first of its kind.
func (x *Examples) Add(c *answer.Choice) {
	list := &x.other
	switch c.Verdict {
	case answer.Same:
		return
	case answer.Infeasible:
		list = &x.infeasible
	}
	if len(*list) < x.limit {
		*list = append(*list, c)
	}
}

// list returns the infeasible choices, and then the others, up to the limit.
func (x *Examples) list() []*answer.Choice {
	all := append(x.infeasible, x.other...)
	return all[:min(len(all), x.limit)]
}

// WriteText writes counts and examples for people. Texts of the log are escaped.
func (s *Summary) WriteText(w io.Writer, examples *Examples) error {
	var b strings.Builder
	fmt.Fprintf(&b, "binds        %d by others\n", s.Binds)
	share := func(n int) string {
		if s.Binds == 0 {
			return "0"
		}
		return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(s.Binds))
	}
	fmt.Fprintf(&b, "same node    %s: Rollcall would have chosen it, too\n", share(s.Same))
	fmt.Fprintf(&b, "other node   %s: theirs is feasible; %d of them are as good as Rollcall's\n", share(s.Other),
		s.Tied)
	fmt.Fprintf(&b, "infeasible   %s\n", share(s.Infeasible))
	writeReasons(&b, s.Refused)
	fmt.Fprintf(&b, "not rated    %s\n", share(s.Unrated))
	writeReasons(&b, s.UnratedBy)
	fmt.Fprintf(&b, "rank         first %d, 2 to 5 %d, 6 to 20 %d, beyond %d\n", s.Ranks.First, s.Ranks.To5,
		s.Ranks.To20, s.Ranks.Beyond)
	if s.Together > 0 {
		fmt.Fprintf(&b, "together     %d pods were made and bound between two reads\n", s.Together)
	}
	if s.AfterGap > 0 {
		fmt.Fprintf(&b, "after a gap  %d pods were bound while nothing was recorded\n", s.AfterGap)
	}
	if s.Came > 0 {
		fmt.Fprintf(&b, "came         %d pods had their node when the log first had them: no binds\n", s.Came)
	}
	if g := &s.Gangs; g.Binds > 0 {
		fmt.Fprintf(&b, "gangs        %d binds of members; Rollcall would have waited with %d of them\n", g.Binds,
			g.Waited)
		fmt.Fprintf(&b, "whole gangs  %d tried at their first bind; %d had room for the members they need\n", g.Tried,
			g.Fit)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return writeTable(w, examples.list())
}

func writeReasons(b *strings.Builder, reasons []Reason) {
	for _, r := range reasons {
		fmt.Fprintf(b, "%11d  %s\n", r.Count, eventlog.Plain(r.Reason))
	}
}

func writeTable(w io.Writer, list []*answer.Choice) error {
	if len(list) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ENTRY\tPOD\tNODE\tRANK\tFEASIBLE\tROLLCALL\tWHY")
	for _, c := range list {
		ours, why := "none", c.Unrated
		if c.Ours != nil {
			ours = c.Ours.Node
		}
		rank := strconv.Itoa(c.Rank)
		switch c.Verdict {
		case answer.Infeasible:
			rank, why = "-", refusedBy(c)
		case answer.Other:
			why = fmt.Sprintf("%d points, %d", c.Chosen.Total, c.Ours.Total)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%d of %d\t%s\t%s\n", c.Seq, eventlog.Plain(c.Pod),
			eventlog.Plain(c.Node), rank, c.Feasible, c.Nodes, eventlog.Plain(ours), eventlog.Plain(why))
	}
	return t.Flush()
}

// csvHeader names the columns of CSV.
var csvHeader = []string{"entry", "time", "pod", "uid", "node", "scheduler", "by", "verdict", "rank", "tied",
	"feasible", "nodes", "points", "max_points", "rollcall_node", "rollcall_points", "refused_by", "reason",
	"last_change_entry", "last_change", "together", "after_gap", "nominated", "gang", "gang_min", "gang_on_nodes",
	"gang_waits", "gang_fits"}

// CSV writes choices as rows.
type CSV struct{ w *csv.Writer }

// NewCSV returns a CSV, and writes the names of the columns.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{csv.NewWriter(w)}
	return c, c.w.Write(csvHeader)
}

// Write writes a row.
func (c *CSV) Write(x *answer.Choice) error {
	number := func(n int) string { return strconv.Itoa(n) }
	points := func(n *answer.NodeScore) (name, total string) {
		if n == nil {
			return "", ""
		}
		return n.Node, strconv.FormatInt(n.Total, 10)
	}
	_, own := points(x.Chosen)
	ours, oursTotal := points(x.Ours)
	plugin, reason, changeAt, change := "", x.Unrated, "", ""
	if len(x.Refusals) > 0 {
		plugin, reason = x.Refusals[0].Plugin, x.Refusals[0].Reason
	}
	if n := x.NodeChanged; n != nil {
		changeAt, change = strconv.FormatUint(n.Seq, 10), n.What
	}
	row := []string{strconv.FormatUint(x.Seq, 10), x.Time.String(), x.Pod, string(x.UID), x.Node, x.Scheduler, x.By,
		string(x.Verdict), number(x.Rank), number(x.Tied), number(x.Feasible), number(x.Nodes), own,
		strconv.FormatInt(x.MaxPoints, 10), ours, oursTotal, plugin, reason, changeAt, change,
		strconv.FormatBool(x.Together), strconv.FormatBool(x.AfterGap), x.Nominated}
	if g := x.Gang; g != nil {
		fits := ""
		if g.Fits != nil {
			fits = strconv.FormatBool(*g.Fits)
		}
		row = append(row, g.Group, number(g.Min), number(g.OnNodes), g.Waits, fits)
	} else {
		row = append(row, "", "", "", "", "")
	}
	return c.w.Write(row)
}

// Flush writes the rows that are still in memory.
func (c *CSV) Flush() error {
	c.w.Flush()
	return c.w.Error()
}
