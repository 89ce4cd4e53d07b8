package choices

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Summary counts choices.
type Summary struct {
	// Binds is the number of binds by others. Each is one of the four that follow.
	Binds      int `json:"binds"`
	Same       int `json:"same"`
	Other      int `json:"other"`
	Infeasible int `json:"infeasible"`
	Unrated    int `json:"unrated"`
	// Ranks is the distribution of the ranks of feasible nodes. Tied counts nodes of rank 1 that are as good as
	// Rollcall's choice, and not the same.
	Ranks Ranks `json:"ranks"`
	Tied  int   `json:"tied"`
	// Refused counts the infeasible nodes, and UnratedBy the binds that were not rated. The most frequent reason comes
	// first.
	Refused   []Reason `json:"refused,omitempty"`
	UnratedBy []Reason `json:"unratedBy,omitempty"`
	// Together counts the pods that the log never had without a node, though they were made while it was written.
	Together int `json:"together"`
	// AfterGap counts the binds that were made while nothing was recorded.
	AfterGap int `json:"afterGap"`
	// Came counts the pods that were on a node when the log first had them. They are no binds of the log.
	Came int `json:"came"`
	// Gangs says what Rollcall would have done with gangs.
	Gangs Gangs `json:"gangs"`

	refused, unrated map[string]int
}

// Ranks counts ranks.
type Ranks struct {
	First  int `json:"first"`
	To5    int `json:"from2To5"`
	To20   int `json:"from6To20"`
	Beyond int `json:"beyond20"`
}

// Reason is a reason, with how often it was one.
type Reason struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// Gangs counts binds of members of gangs.
type Gangs struct {
	// Binds is the number of binds of members. Rollcall would have waited with Waited of them.
	Binds  int `json:"binds"`
	Waited int `json:"waited"`
	// Tried is the number of gangs that were tried as a whole when their first member was bound. Fit counts the ones
	// that would have found nodes for their minimum.
	Tried int `json:"tried"`
	Fit   int `json:"fit"`
}

// Add counts a choice.
func (s *Summary) Add(x *answer.Choice) {
	if s.refused == nil {
		s.refused, s.unrated = map[string]int{}, map[string]int{}
	}
	s.Binds++
	if x.Together {
		s.Together++
	}
	if x.AfterGap {
		s.AfterGap++
	}
	switch x.Verdict {
	case answer.Same:
		s.Same++
	case answer.Other:
		s.Other++
	case answer.Infeasible:
		s.Infeasible++
		s.refused[refusedBy(x)]++
	default:
		s.Unrated++
		s.unrated[x.Unrated]++
	}
	s.rank(x)
	if g := x.Gang; g != nil {
		s.gang(g)
	}
}

func (s *Summary) rank(x *answer.Choice) {
	switch {
	case x.Rank == 0:
	case x.Rank == 1:
		s.Ranks.First++
		if x.Verdict == answer.Other {
			s.Tied++
		}
	case x.Rank <= 5:
		s.Ranks.To5++
	case x.Rank <= 20:
		s.Ranks.To20++
	default:
		s.Ranks.Beyond++
	}
}

func (s *Summary) gang(g *answer.ChoiceGang) {
	s.Gangs.Binds++
	if g.Waits != "" {
		s.Gangs.Waited++
	}
	if g.Fits != nil {
		s.Gangs.Tried++
		if *g.Fits {
			s.Gangs.Fit++
		}
	}
}

// refusedBy returns the plugin that refuses the node, and its first reason.
func refusedBy(x *answer.Choice) string {
	if len(x.Refusals) == 0 {
		return "no plugin"
	}
	r := &x.Refusals[0]
	if r.Reason == "" {
		return r.Plugin
	}
	return r.Plugin + ": " + r.Reason
}

// Close completes the lists. came is Reader.Came.
func (s *Summary) Close(came int) {
	s.Came, s.Refused, s.UnratedBy = came, reasonsOf(s.refused), reasonsOf(s.unrated)
}

func reasonsOf(counts map[string]int) (out []Reason) {
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Reason{reason, counts[reason]})
	}
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(b.Count, a.Count) })
	return out
}
