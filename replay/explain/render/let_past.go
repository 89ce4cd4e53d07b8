package render

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// letPast shows the entities that were given nodes while the gang waited: the ones ahead of it, and the ones that
// overtook it. Each table has the entities that took the most of the resource that the gang lacks, in the order of
// time.
func (p *page) letPast(l *answer.LetPast) {
	if l == nil {
		return
	}
	p.past("LET PAST, AHEAD OF IT", l.Ahead, l.Priority)
	p.past("LET PAST, OVERTOOK IT", l.Overtook, l.Priority)
}

func (p *page) past(title string, l *answer.PastPart, priority int32) {
	if l == nil {
		return
	}
	var rows [][]string
	others, pods, took := l.Others, l.OtherPods, l.OthersTook
	shown := slices.Clone(l.By[:min(textPassers, len(l.By))])
	for _, by := range l.By[len(shown):] {
		others, pods, took = others+1, pods+by.Pods, sum(took, by.Took)
	}
	slices.SortStableFunc(shown, func(a, b answer.Passer) int { return cmp.Compare(a.First.Seq, b.First.Seq) })
	for _, by := range shown {
		why := by.Why
		if by.Overtook != "" {
			why = string(by.Overtook) + ": " + why
		}
		rows = append(rows, []string{by.First.Time.String(), phrase.Entity(by.Kind, by.Name), fmt.Sprint(by.Priority),
			fmt.Sprint(by.Pods), amountsText(by.Took), by.Meanwhile, why})
	}
	if others > 0 {
		rows = append(rows, []string{"", phrase.Count(int64(others), "other", "others"), "", fmt.Sprint(pods),
			amountsText(took)})
	}
	p.table([]string{title, "WHAT", "PRIORITY", "PODS", "TOOK", fmt.Sprintf("WHILE IT (PRIORITY %d) WAS", priority),
		"WHY"}, rows)
}

// sum adds amounts of the same resources.
func sum(a, b []answer.Amount) []answer.Amount {
	out := slices.Clone(b)
	for i := range a {
		out[i].Amount += a[i].Amount
	}
	return out
}

// ahead shows the entities that have their turn first.
func (p *page) ahead(q *answer.QueuePlace) {
	if q == nil {
		return
	}
	var rows [][]string
	for i := range q.AheadOf {
		if i == textAhead && q.Ahead > textAhead+1 {
			rows = append(rows, []string{fmt.Sprintf("and %d more", q.Ahead-i)})
			break
		}
		x := &q.AheadOf[i]
		refused := phrase.List(x.RejectedBy, "")
		if refused != "" {
			refused = "; refused by " + refused
		}
		rows = append(rows, []string{phrase.Entity(x.Kind, x.Name), fmt.Sprint(x.Priority), x.State, x.Why + refused})
	}
	p.table([]string{"AHEAD", "PRIORITY", "STATE", "WHY"}, rows)
}
