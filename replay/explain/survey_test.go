package explain_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// A Survey agrees with explain about every entity, as far as a state has the answer. It shares one copy of the state
// among all trials, and explain makes one for each.
func TestASurveyAgreesWithExplain(t *testing.T) {
	compared := map[answer.Code]int{}
	rapid.Check(t, func(rt *rapid.T) {
		s := transcripts.New(rt)
		configuration := configurationOfHistories
		if lane := rapid.SampledFrom([]string{"", "", "StrictFIFO", "Backfill"}).Draw(rt, "lane"); lane != "" {
			configuration += "  pluginConfig:\n  - name: Coscheduling\n    args:\n      queuePolicy: " + lane + "\n"
		}
		s.Configure(configuration)
		s.Step("node n0 cpu=4 gpu=2")
		for range rapid.IntRange(5, 30).Draw(rt, "steps") {
			drawStep(rt, s)
		}
		last, err := s.Log().Last()
		if err != nil {
			rt.Fatal(err)
		}
		at := rapid.Uint64Range(1, last).Draw(rt, "at")
		c := &surveyed{t: rt, s: s, survey: explain.NewSurvey(stateAt(rt, s, at)), at: at, codes: compared}
		c.compare()
	})
	for _, code := range []answer.Code{answer.LacksRoom, answer.Unplaceable, answer.Incomplete, answer.Gated,
		answer.Undeclared, answer.InTurn, answer.FitsNow} {
		if compared[code] == 0 {
			t.Errorf("no entity was pending as %s: %v", code, compared)
		}
	}
}

// surveyed compares one Survey.
type surveyed struct {
	t      *rapid.T
	s      *transcripts.Player
	survey *explain.Survey
	at     uint64
	codes  map[answer.Code]int
}

func (c *surveyed) compare() {
	list, err := c.survey.Pending(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	pending := map[string]*answer.Pending{}
	for i := range list {
		pending[list[i].Kind+" "+list[i].Name] = &list[i]
		c.codes[list[i].Code]++
	}
	m := stateAt(c.t, c.s, c.at)
	for _, name := range m.Cluster().Gangs().Names() {
		x, err := explain.Group(context.Background(), wholeLog(c.s.Log()), name.Namespace, name.Name,
			explain.Options{AtSeq: c.at})
		if err != nil {
			c.t.Fatal(err)
		}
		g := m.Cluster().Gangs().Named(name.Namespace, name.Name)
		stage, _ := c.survey.Gang(g)
		want := strings.NewReplacer("Preempted", "BelowMinimum", "Evicted", "BelowMinimum").Replace(x.Stage)
		if stage != want {
			c.t.Fatalf("the stage of %s at entry %d is %s, and %s by explain", name, c.at, stage, x.Stage)
		}
		c.reason("gang "+name.String(), pending, x.Reason, x.Queue)
		if p := pending["gang "+name.String()]; p != nil && x.Needs != nil && p.Needs.Members != x.Needs.Members {
			c.t.Fatalf("%s needs %d members, and by explain %d", name, p.Needs.Members, x.Needs.Members)
		}
	}
	for _, p := range m.Cluster().Pods().All() {
		if p.Group != nil {
			continue
		}
		name := types.NamespacedName{Namespace: p.Object.Namespace, Name: p.Object.Name}
		x, err := explain.Pod(context.Background(), wholeLog(c.s.Log()), name.Namespace, name.Name,
			explain.Options{AtSeq: c.at})
		if err != nil {
			c.t.Fatal(err)
		}
		c.reason("pod "+name.String(), pending, x.Reason, x.Queue)
	}
}

// ofRoom reports whether a code says that nodes would be found if others ended.
func ofRoom(code answer.Code) bool { return code == answer.LacksRoom || code == answer.Unplaceable }

// reason compares the row of an entity with the reason that explain has.
func (c *surveyed) reason(entity string, pending map[string]*answer.Pending, x *answer.Reason, q *answer.QueuePlace) {
	row := pending[entity]
	if row == nil || x == nil {
		if row != nil || x != nil {
			c.t.Fatalf("%s at entry %d: listed is %+v, and explained %+v", entity, c.at, row, x)
		}
		return
	}
	want, evicts := x.Code, 0
	if x.Now != nil {
		evicts = x.Now.Evicted
		switch {
		case x.Never != "":
			if want = answer.NeverFits; ofRoom(x.Code) {
				c.t.Fatalf("%s at entry %d never fits, and by explain it is %s", entity, c.at, x.Code)
			}
		case x.Code != answer.FitsNow:
			want = cmp.Or(x.Now.Code, answer.FitsNow)
		}
		if row.Fits != x.Now.Fits {
			c.t.Fatalf("%s at entry %d fits: %t, and by explain %t", entity, c.at, row.Fits, x.Now.Fits)
		}
	}
	if row.Code != want || row.Evicts != evicts || row.Why == "" {
		c.t.Fatalf("%s at entry %d is %+v, and by explain %s (%s, evicts %d)", entity, c.at, row, want, x.Message,
			evicts)
	}
	if x.Never != row.Never {
		c.t.Fatalf("%s at entry %d can never be placed because %q, and by explain %q", entity, c.at, row.Never, x.Never)
	}
	if x.Now != nil && len(x.Now.Shortfall) > 0 && x.Now.Shortfall[0].NeverFits() && row.Never == "" {
		c.t.Fatalf("%s at entry %d may be placed some day, and by explain it %s", entity, c.at, x.Now.Message)
	}
	if x.Unmatched != nil && x.Now.Code == answer.Unplaceable && row.Never == "" {
		c.t.Fatalf("%s at entry %d may be placed some day, and by explain no node matches", entity, c.at)
	}
	if q == nil {
		return
	}
	ahead := 0
	if row.Ahead != nil {
		ahead = *row.Ahead
	}
	if row.State != q.State || ahead != q.Ahead || (row.Ahead != nil) != (q.State == "Active") {
		c.t.Fatalf("%s at entry %d is %s with %d ahead, and by explain %s with %d", entity, c.at, row.State, ahead,
			q.State, q.Ahead)
	}
}
