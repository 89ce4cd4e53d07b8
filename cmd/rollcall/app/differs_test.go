package app

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// differs is the script command "differs CAT-A CAT-B JSON": it compares an answer of diff with a naive reading of the
// lines of log cat of both logs.
func differs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: differs CAT-A CAT-B JSON")
	}
	var told toldDiff
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	a, b := readOutcomes(ts, ts.ReadFile(args[0])), readOutcomes(ts, ts.ReadFile(args[1]))
	compared(ts, neg, func() { compareDiff(a, b, &told) })
}

// toldDiff is the part of an answer of diff that is compared.
type toldDiff struct {
	SameDecisions int
	Decision      *struct {
		A, B *struct {
			Seq                uint64
			Pod, Outcome, Node string
		}
		Field string
	}
	Gangs, Pods []toldChange
}

type toldChange struct {
	Name            string
	A, B            *struct{ Placed *struct{ Time time.Time } }
	MoreWaitSeconds float64
}

// naiveOutcomes are the decisions of a log in a few fields, and when each pod and each gang had its nodes first.
type naiveOutcomes struct {
	decisions []naiveDecided
	placed    map[string]time.Time // by the name of a pod, or of a gang
	members   map[string]int       // by gang: the members that have been placed
}

type naiveDecided struct {
	seq                uint64
	at                 time.Time
	pod, outcome, node string
}

// readOutcomes reads the output of log cat. A gang has its nodes when as many members as it has in all are placed: the
// gangs of the script have no members beyond the minimum.
func readOutcomes(ts *testscript.TestScript, cat string) *naiveOutcomes {
	o := &naiveOutcomes{placed: map[string]time.Time{}, members: map[string]int{}}
	groups, minima, names := map[string]string{}, map[string]int{}, map[string]string{}
	note := func(uid string, at time.Time) {
		name := names[uid]
		if _, done := o.placed[name]; done {
			return
		}
		o.placed[name] = at
		if g := groups[uid]; g != "" {
			if o.members[g]++; o.members[g] == minima[g] {
				o.placed[g] = at
			}
		}
	}
	for line := range strings.Lines(cat) {
		var e naiveLine
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			ts.Fatalf("%s: %v", line, err)
		}
		meta := e.Object.Metadata
		switch {
		case e.Kind == "Upserted" && e.Resource == "pods":
			names[meta.UID] = meta.Namespace + "/" + meta.Name
			if g := e.Object.Spec.SchedulingGroup.PodGroupName; g != "" {
				groups[meta.UID] = meta.Namespace + "/" + g
			}
		case e.Kind == "Upserted" && e.Object.Spec.SchedulingPolicy.Gang.MinCount > 0:
			minima[meta.Namespace+"/"+meta.Name] = e.Object.Spec.SchedulingPolicy.Gang.MinCount
		case e.Kind == "Decision":
			d := e.Decision
			o.decisions = append(o.decisions, naiveDecided{e.Seq, e.Time, d.Pod, d.Outcome, d.Node})
			for _, uid := range d.Allowed {
				note(uid, e.Time)
			}
			if d.Outcome == "Scheduled" {
				note(d.UID, e.Time)
			}
		}
	}
	return o
}

// compareDiff compares an answer with both logs.
func compareDiff(a, b *naiveOutcomes, told *toldDiff) {
	same := 0
	for same < min(len(a.decisions), len(b.decisions)) {
		x, y := a.decisions[same], b.decisions[same]
		if x.seq, y.seq = 0, 0; x != y {
			break
		}
		same++
	}
	switch {
	case told.Decision == nil && (same < len(a.decisions) || same < len(b.decisions)):
		disagree("all decisions are the same, they differ after %d", same)
	case told.SameDecisions > same:
		disagree("%d decisions are the same, want %d at most", told.SameDecisions, same)
	case told.SameDecisions < same && strings.Contains("pod outcome node time", told.Decision.Field):
		disagree("%d decisions are the same, then %s differs, want %d", told.SameDecisions, told.Decision.Field, same)
	case told.Decision != nil && told.Decision.A != nil && told.Decision.A.Seq != a.decisions[told.SameDecisions].seq:
		disagree("entry %d of A differs, want %d", told.Decision.A.Seq, a.decisions[told.SameDecisions].seq)
	}
	found := map[string]bool{}
	for _, c := range append(told.Gangs, told.Pods...) {
		found[c.Name] = true
		for _, side := range []struct {
			log  *naiveOutcomes
			told *struct{ Placed *struct{ Time time.Time } }
		}{{a, c.A}, {b, c.B}} {
			at, placed := side.log.placed[c.Name]
			switch {
			case side.told == nil:
				continue
			case placed != (side.told.Placed != nil):
				disagree("%s is placed: %v, want %v", c.Name, side.told.Placed != nil, placed)
			case placed && !side.told.Placed.Time.Equal(at):
				disagree("%s is placed at %s, want %s", c.Name, side.told.Placed.Time, at)
			}
		}
		atA, inA := a.placed[c.Name]
		atB, inB := b.placed[c.Name]
		if inA && inB && c.MoreWaitSeconds != atB.Sub(atA).Seconds() {
			disagree("%s waits %v s longer, want %v", c.Name, c.MoreWaitSeconds, atB.Sub(atA).Seconds())
		}
	}
	for gang := range a.members {
		atA, inA := a.placed[gang]
		if atB, inB := b.placed[gang]; (inA != inB || !atA.Equal(atB)) && !found[gang] {
			disagree("%s is not among the gangs with another outcome", gang)
		}
	}
}
