package replay

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// otherValues gives every field of a decision another value, and has the name of the field in a difference.
var otherValues = []struct {
	field, name string
	change      func(*eventlog.Decision)
}{
	{"Cycle", "cycle", func(d *eventlog.Decision) { d.Cycle++ }},
	{"Namespace", "pod", func(d *eventlog.Decision) { d.Namespace += "x" }},
	{"Name", "pod", func(d *eventlog.Decision) { d.Name += "x" }},
	{"UID", "uid", func(d *eventlog.Decision) { d.UID += "x" }},
	{"Group", "group", func(d *eventlog.Decision) { d.Group += "x" }},
	{"Outcome", "outcome", func(d *eventlog.Decision) { d.Outcome++ }},
	{"Node", "node", func(d *eventlog.Decision) { d.Node += "x" }},
	{"Score", "score", func(d *eventlog.Decision) { d.Score++ }},
	{"Evaluated", "evaluated", func(d *eventlog.Decision) { d.Evaluated++ }},
	{"Feasible", "feasible", func(d *eventlog.Decision) { d.Feasible++ }},
	{"Rejections", "rejections", func(d *eventlog.Decision) { d.Rejections[0].Nodes++ }},
	{"WaitUntil", "waitUntil", func(d *eventlog.Decision) { d.WaitUntil++ }},
	{"WaitFor", "waitFor", func(d *eventlog.Decision) { d.WaitFor = nil }},
	{"Approvals", "approvals", func(d *eventlog.Decision) { d.Approvals[0].Plugin += "x" }},
	{"Allowed", "allowed", func(d *eventlog.Decision) { slices.Reverse(d.Allowed) }},
	{"Rejected", "rejected", func(d *eventlog.Decision) { d.Rejected = d.Rejected[:1] }},
	{"Victims", "victims", func(d *eventlog.Decision) { d.Victims = append(d.Victims, "more") }},
	{"Nominated", "nominated", func(d *eventlog.Decision) { d.Nominated = "" }},
	{"Volumes", "volumes", func(d *eventlog.Decision) { d.Volumes[0].Volume += "x" }},
	{"Places", "places", func(d *eventlog.Decision) { d.Places[0].Node += "x" }},
	{"Nominations", "nominations", func(d *eventlog.Decision) { d.Nominations[0].Node = "" }},
	{"Domain", "domain", func(d *eventlog.Decision) { d.Domain = "" }},
	{"Elsewhere", "elsewhere", func(d *eventlog.Decision) { d.Elsewhere = false }},
	{"Ended", "ended", func(d *eventlog.Decision) { d.Ended = eventlog.NoTime }},
	{"Activated", "activated", func(d *eventlog.Decision) { d.Activated[0] += "x" }},
	{"Devices", "devices", func(d *eventlog.Decision) { d.Devices[0].Allocation += "x" }},
	{"Questions", "questions", func(d *eventlog.Decision) { d.Questions[0].AllBut = true }},
	{"Plan", "plan", func(d *eventlog.Decision) { d.Plan.Steps++ }},
}

// fullDecision has no field that is empty.
func fullDecision() *eventlog.Decision {
	return &eventlog.Decision{
		Cycle: 7, Namespace: "ml", Name: "a", UID: "uid-a", Group: "g", Outcome: eventlog.Waiting, Node: "n1",
		Score: 12, Evaluated: 5, Feasible: 4,
		Rejections: []eventlog.Rejection{{Plugin: "NodeName", Code: "Unschedulable", Reason: "no", Nodes: 1}},
		WaitUntil:  99, WaitFor: []string{"Coscheduling"},
		Approvals: []eventlog.Approval{{UID: "uid-b", Plugin: "Coscheduling"}},
		Allowed:   []types.UID{"uid-b", "uid-c"}, Rejected: []types.UID{"uid-d", "uid-e"},
		Victims:   []types.UID{"uid-f"},
		Nominated: "n2", Volumes: []eventlog.VolumeClaim{{Claim: "c", Volume: "v"}},
		Places:      []eventlog.Place{{UID: "p", Node: "n3"}},
		Nominations: []eventlog.Nomination{{UID: "uid-g", Node: "n3"}},
		DomainLimit: eventlog.DomainLimit{Domain: "rack=a", Elsewhere: true}, Ended: eventlog.NotFirst,
		Activated: []types.UID{"uid-h"},
		Devices:   []eventlog.DeviceClaim{{Claim: "c", UID: "uid-c", Allocation: "a"}},
		Questions: []eventlog.Question{{UIDs: []types.UID{"uid-i"}, Nodes: []string{"n"}}},
		Plan:      eventlog.Plan{Result: eventlog.PlanFound, Steps: 3, Order: []types.UID{"uid-a"}},
	}
}

func TestADifferenceInAnyFieldIsFoundAndNamed(t *testing.T) {
	if field, _, _, differ := firstDifference(fullDecision(), fullDecision()); differ {
		t.Errorf("a decision differs from its equal in %s", field)
	}
	for _, c := range otherValues {
		changed := fullDecision()
		c.change(changed)
		field, r, d, differ := firstDifference(fullDecision(), changed)
		if !differ || field != c.name || r == d {
			t.Errorf("with another %s: difference in %q, recorded %s, decided %s (%v)", c.field, field, r, d, differ)
		}
	}
}

// TestEveryFieldOfADecisionIsCompared holds the list of fields to the struct: who adds a field must compare it.
func TestEveryFieldOfADecisionIsCompared(t *testing.T) {
	full := reflect.ValueOf(*fullDecision())
	var covered []string
	for _, c := range otherValues {
		covered = append(covered, c.field)
	}
	for _, field := range reflect.VisibleFields(full.Type()) {
		name := field.Name
		if field.Anonymous {
			continue
		}
		if full.FieldByIndex(field.Index).IsZero() {
			t.Errorf("fullDecision leaves %s empty", name)
		}
		if !slices.Contains(covered, name) {
			t.Errorf("eventlog.Decision has the field %s: add it to decisionFields, sameDecision and otherValues", name)
		}
	}
	for _, f := range decisionFields {
		if !slices.ContainsFunc(otherValues, func(c struct {
			field, name string
			change      func(*eventlog.Decision)
		}) bool {
			return c.name == f.name
		}) {
			t.Errorf("decisionFields has %s, and no field of eventlog.Decision is told by that name", f.name)
		}
	}
}

// TestValuesThatPrintAlikeAreReportedAsDifferent has values that could hide a difference: separators inside values.
func TestValuesThatPrintAlikeAreReportedAsDifferent(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b eventlog.Decision
	}{
		{"a slash in a name", eventlog.Decision{Namespace: "a", Name: "b/c"},
			eventlog.Decision{Namespace: "a/b", Name: "c"}},
		{"one reason or two", eventlog.Decision{Rejections: []eventlog.Rejection{{Plugin: "P", Code: "C",
			Reason: "r Nodes:1} {Plugin:P Code:C Reason:r", Nodes: 1}}},
			eventlog.Decision{Rejections: []eventlog.Rejection{{Plugin: "P", Code: "C", Reason: "r", Nodes: 1},
				{Plugin: "P", Code: "C", Reason: "r", Nodes: 1}}}},
		{"a blank in a plugin's name", eventlog.Decision{WaitFor: []string{"a b"}},
			eventlog.Decision{WaitFor: []string{"a", "b"}}},
	} {
		if field, r, d, differ := firstDifference(&c.a, &c.b); !differ || r == d {
			t.Errorf("%s: difference in %q, recorded %s, decided %s (%v)", c.name, field, r, d, differ)
		}
	}
}
