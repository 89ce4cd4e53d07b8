package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// TracedNodes are the nodes that the text of a trace shows, beside their number.
type TracedNodes struct {
	// All shows every node. Otherwise Names are the only ones shown; without any, the first ones are.
	All   bool
	Names []string
}

// How many nodes of a trace are shown where none are named.
const (
	textScored  = 10
	textRefused = 20
	textNamed   = 5
)

// Trace writes, for people, all that the cycles showed which the explanation rests on, or why there is nothing to show.
func Trace(w io.Writer, p *answer.Pod, nodes TracedNodes) error {
	out := page{at: p.At}
	if p.Untraced != "" {
		out.printf("\nNo trace: %s.\n", p.Untraced)
	}
	if p.Resize != nil {
		out.trace(p.Resize.Decision, nodes)
	}
	out.trace(p.Decision, nodes)
	out.trace(p.StoppedBy, nodes)
	return out.writeTo(w)
}

// trace writes what the cycle of a decision showed.
func (p *page) trace(d *answer.Decision, nodes TracedNodes) {
	if d == nil {
		return
	}
	p.printf("\nTrace of %s, cycle %d: %s %s", d.Point, d.Cycle, d.Pod, d.Outcome)
	if d.Node != "" {
		p.printf(" on %s", d.Node)
	}
	p.printf("; %d of %s tried, %d feasible\n", d.Evaluated, phrase.Count(int64(d.Nodes), "node", "nodes"),
		d.Feasible)
	t := d.Trace
	if t == nil {
		p.printf("Nothing to show: %s.\n", d.Untraced)
		return
	}
	if d.Diverged != nil {
		p.b.WriteString("This program decides otherwise than was recorded: shown is what it does.\n")
	}
	p.points(t, nodes.All)
	p.failure(t.Failed)
	p.refusedNodes(d, nodes)
	p.scoredNodes(t.Scored, nodes)
	p.restOfNodes(t, nodes)
}

// points writes the answers of plugins at each extension point, without single nodes. Plugins with the same answer and
// no words share a row.
func (p *page) points(t *answer.Trace, allNodes bool) {
	var rows [][]string
	at := func(point string, answers []answer.PluginAnswer) {
		rows = append(rows, answerRows(point, answers)...)
	}
	var silent []answer.PluginAnswer
	for _, a := range t.PreFilter {
		if a.AllNodes {
			silent = append(silent, a.PluginAnswer)
			continue
		}
		left := fmt.Sprintf("left %s: %s", phrase.Count(int64(len(a.Nodes)), "node", "nodes"),
			nodeNames(a.Nodes, allNodes))
		words := strings.Join(append([]string{left}, a.Words...), "; ")
		rows = append(rows, []string{"PreFilter", a.Code, words, a.Plugin})
	}
	rows = append(answerRows("PreFilter", silent), rows...)
	list := func(point, what string, plugins []string) {
		if len(plugins) > 0 {
			rows = append(rows, []string{point, what, "", strings.Join(plugins, ", ")})
		}
	}
	list("Filter", "asked", t.Filters)
	list("Filter", "skipped", t.SkippedFilters)
	rows = append(rows, extenderRows(t.Extenders)...)
	at("PostFilter", t.PostFilter)
	at("PreScore", t.PreScore)
	list("Score", "skipped", t.SkippedScores)
	at("Reserve", t.Reserve)
	at("Permit", t.Permit)
	p.table([]string{"POINT", "ANSWER", "WORDS", "PLUGINS"}, rows)
}

// answerRows has a row for each answer with words, and one for all plugins with the same answer without.
func answerRows(point string, answers []answer.PluginAnswer) (rows [][]string) {
	for _, a := range answers {
		words := strings.Join(a.Words, "; ")
		if a.Timeout != "" {
			words = strings.TrimSuffix("for "+a.Timeout+" at the most: "+words, ": ")
		}
		same := func(row []string) bool { return words == "" && row[1] == a.Code && row[2] == "" }
		if i := slices.IndexFunc(rows, same); i >= 0 {
			rows[i][3] += ", " + a.Plugin
			continue
		}
		rows = append(rows, []string{point, a.Code, words, a.Plugin})
	}
	return rows
}

// extenderRows has a row for each answer of an HTTP extender.
func extenderRows(answers []answer.ExtenderAnswer) (rows [][]string) {
	for _, a := range answers {
		code, words := "Success", fmt.Sprintf("asked by entry %d about %s: refused %d, scored %d", a.Question,
			phrase.Count(int64(a.Nodes), "node", "nodes"), a.Refused, a.Scored)
		if a.Candidates > 0 {
			words = fmt.Sprintf("asked by entry %d about evicting from %s: left %d", a.Question,
				phrase.Count(int64(a.Candidates), "node", "nodes"), a.Left)
		}
		for _, call := range [...][2]string{
			{"filter", a.FilterError}, {"prioritize", a.PrioritizeError}, {"preempt", a.PreemptError},
		} {
			if call[1] != "" {
				code, words = "Error", words+"; "+call[0]+" failed: "+call[1]
			}
		}
		rows = append(rows, []string{"Extender", code, words, a.Extender})
	}
	return rows
}

// nodeNames are the names, or the first few with the number of the others.
func nodeNames(names []string, all bool) string {
	if all || len(names) <= textNamed+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:textNamed], ", "), len(names)-textNamed)
}

func (p *page) failure(f *answer.NodeFailure) {
	if f == nil {
		return
	}
	where := ""
	if f.Node != "" {
		where = " at node " + f.Node
	}
	p.printf("\n%s failed in %s%s: %s\n", f.Plugin, f.Point, where, strings.Join(f.Words, "; "))
}

// chosen returns the rows to show, and the number of the others.
func chosen[T any](rows []T, nodes TracedNodes, first int, name func(T) string) (shown []T, others int) {
	switch {
	case nodes.All:
		return rows, 0
	case len(nodes.Names) == 0:
		shown = rows[:min(first, len(rows))]
		return shown, len(rows) - len(shown)
	}
	for _, row := range rows {
		if slices.Contains(nodes.Names, name(row)) {
			shown = append(shown, row)
		}
	}
	return shown, 0
}

// moreNodes says how many nodes are not shown, and how to see them.
func (p *page) moreNodes(others int) {
	if others > 0 {
		p.printf("and %s; --all-nodes shows all, --nodes NAME,... those of these names\n",
			phrase.Count(int64(others), "node more", "nodes more"))
	}
}

// refusedNodes writes which plugin refused each node and in which words, and how often that was if not all are shown.
func (p *page) refusedNodes(d *answer.Decision, nodes TracedNodes) {
	shown, others := chosen(d.Trace.Refused, nodes, textRefused, func(n answer.NodeRefusal) string { return n.Node })
	if others > 0 {
		p.refusals(d)
	}
	var rows [][]string
	for _, n := range shown {
		rows = append(rows, []string{n.Node, n.Plugin, n.Point, n.Code, strings.Join(n.Words, "; ")})
	}
	p.table([]string{"REFUSED NODE", "BY", "IN", "ANSWER", "WORDS"}, rows)
	p.moreNodes(others)
}

// scoredNodes writes the scores of each node, a row for each plugin.
func (p *page) scoredNodes(scored []answer.NodeScore, nodes TracedNodes) {
	shown, others := chosen(scored, nodes, textScored, func(n answer.NodeScore) string { return n.Node })
	var rows [][]string
	for _, n := range shown {
		if len(n.Plugins) == 0 {
			rows = append(rows, []string{n.Node, fmt.Sprint(n.Total), "none: no other node was feasible"})
		}
		for _, s := range n.Plugins {
			rows = append(rows, []string{n.Node, fmt.Sprint(n.Total), s.Plugin, fmt.Sprint(s.Raw),
				fmt.Sprint(s.Normalized), fmt.Sprint(s.Weight), fmt.Sprint(s.Weighted)})
		}
	}
	p.table([]string{"FEASIBLE NODE", "TOTAL", "SCORED BY", "RAW", "NORMALIZED", "WEIGHT", "WEIGHTED"}, rows)
	p.moreNodes(others)
}

// restOfNodes writes which nodes were not scored and which were not tried, and which names are no node's.
func (p *page) restOfNodes(t *answer.Trace, nodes TracedNodes) {
	var rows [][]string
	add := func(label string, names []string, why string) {
		if len(nodes.Names) > 0 {
			others := func(n string) bool { return !slices.Contains(nodes.Names, n) }
			names = slices.DeleteFunc(slices.Clone(names), others)
		}
		if len(names) > 0 {
			text := fmt.Sprintf("%s: %s", phrase.Count(int64(len(names)), "node", "nodes"), nodeNames(names, nodes.All))
			if why != "" {
				text += "; " + why
			}
			rows = append(rows, []string{label, text})
		}
	}
	add("not scored", t.Unscored, "")
	add("not tried", t.NotTried, t.NotTriedWhy)
	for _, name := range nodes.Names {
		if !t.HasNode(name) {
			rows = append(rows, []string{"no node", name + ": there was none of that name at this entry"})
		}
	}
	if len(rows) > 0 {
		p.b.WriteByte('\n')
		p.columns(rows)
	}
}
