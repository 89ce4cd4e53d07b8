package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// decisionField is one field of a decision under the name that log cat gives it.
type decisionField struct {
	name string
	// of prints the field so that two values print alike only if they are equal. The pod is an exception: a slash
	// within a name can make two look alike.
	of func(*eventlog.Decision) string
}

// decisionFields are all fields, in the order in which they are compared. A test holds that none is left out.
var decisionFields = []decisionField{
	{"cycle", func(d *eventlog.Decision) string { return strconv.FormatUint(d.Cycle, 10) }},
	{"pod", podOf},
	{"uid", func(d *eventlog.Decision) string { return string(d.UID) }},
	{"group", func(d *eventlog.Decision) string { return strconv.Quote(d.Group) }},
	{"outcome", func(d *eventlog.Decision) string { return d.Outcome.String() }},
	{"node", func(d *eventlog.Decision) string { return strconv.Quote(d.Node) }},
	{"score", func(d *eventlog.Decision) string { return strconv.FormatInt(d.Score, 10) }},
	{"evaluated", func(d *eventlog.Decision) string { return strconv.FormatInt(d.Evaluated, 10) }},
	{"feasible", func(d *eventlog.Decision) string { return strconv.FormatInt(d.Feasible, 10) }},
	{"rejections", func(d *eventlog.Decision) string { return rejections(d.Rejections) }},
	{"waitUntil", func(d *eventlog.Decision) string { return d.WaitUntil.String() }},
	{"waitFor", func(d *eventlog.Decision) string { return fmt.Sprintf("%q", d.WaitFor) }},
	{"approvals", func(d *eventlog.Decision) string { return fmt.Sprintf("%q", d.Approvals) }},
	{"allowed", func(d *eventlog.Decision) string { return uids(d.Allowed) }},
	{"rejected", func(d *eventlog.Decision) string { return uids(d.Rejected) }},
	{"victims", func(d *eventlog.Decision) string { return uids(d.Victims) }},
	{"nominated", func(d *eventlog.Decision) string { return strconv.Quote(d.Nominated) }},
	{"volumes", func(d *eventlog.Decision) string { return fmt.Sprintf("%q", d.Volumes) }},
	{"places", func(d *eventlog.Decision) string { return fmt.Sprintf("%q", d.Places) }},
	{"nominations", func(d *eventlog.Decision) string { return fmt.Sprintf("%q", d.Nominations) }},
	{"domain", func(d *eventlog.Decision) string { return strconv.Quote(d.Domain) }},
	{"elsewhere", func(d *eventlog.Decision) string { return strconv.FormatBool(d.Elsewhere) }},
	{"ended", func(d *eventlog.Decision) string { return strconv.Quote(d.Ended.String()) }},
	{"activated", func(d *eventlog.Decision) string { return uids(d.Activated) }},
	{"devices", func(d *eventlog.Decision) string { return devices(d.Devices) }},
	{"questions", func(d *eventlog.Decision) string { return questions(d.Questions) }},
	{"plan", func(d *eventlog.Decision) string { return plan(d.Plan) }},
}

func plan(p eventlog.Plan) string {
	text := fmt.Sprintf("%s after %d steps, %q", p.Result, p.Steps, p.Order)
	if p.Next > 0 {
		text += fmt.Sprintf(", then search %d", p.Next)
	}
	return text
}

func uids(list []types.UID) string { return fmt.Sprintf("%q", list) }

func questions(list []eventlog.Question) string {
	var b strings.Builder
	for i, q := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "{uids:%q nodes:%q allBut:%t", q.UIDs, q.Nodes, q.AllBut)
		for _, c := range q.Candidates {
			fmt.Fprintf(&b, " candidate:{node:%q victims:%q violations:%d}", c.Node, c.Victims, c.Violations)
		}
		b.WriteByte('}')
	}
	return "[" + b.String() + "]"
}

func sameQuestion(a, b eventlog.Question) bool {
	return slices.Equal(a.UIDs, b.UIDs) && slices.Equal(a.Nodes, b.Nodes) && a.AllBut == b.AllBut &&
		slices.EqualFunc(a.Candidates, b.Candidates, sameCandidate)
}

func sameCandidate(a, b eventlog.Candidate) bool {
	return a.Node == b.Node && slices.Equal(a.Victims, b.Victims) && a.Violations == b.Violations
}

// devices shows the allocation of each claim.
func devices(list []eventlog.DeviceClaim) string {
	var b strings.Builder
	for i := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		text := strconv.Quote(list[i].Allocation)
		if result, err := list[i].Result(); err == nil {
			if known, err := json.Marshal(result); err == nil {
				text = string(known)
			}
		}
		fmt.Fprintf(&b, "{claim:%q uid:%q allocation:%s}", list[i].Claim, list[i].UID, text)
	}
	return "[" + b.String() + "]"
}

func rejections(list []eventlog.Rejection) string {
	var b strings.Builder
	for i, r := range list {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "{plugin:%q code:%q reason:%q nodes:%d}", r.Plugin, r.Code, r.Reason, r.Nodes)
	}
	return "[" + b.String() + "]"
}

// firstDifference returns the first field in which two decisions differ and its two values.
func firstDifference(recorded, decided *eventlog.Decision) (field, r, d string, differ bool) {
	if sameDecision(recorded, decided) {
		return "", "", "", false
	}
	for _, f := range decisionFields {
		if r, d := f.of(recorded), f.of(decided); r != d {
			return f.name, r, d, true
		}
	}
	return "pod", fmt.Sprintf("%q", []string{recorded.Namespace, recorded.Name}),
		fmt.Sprintf("%q", []string{decided.Namespace, decided.Name}), true
}

// sameDecision is the quick answer for the common case.
func sameDecision(a, b *eventlog.Decision) bool {
	return sameScalars(a, b) && sameLists(a, b)
}

func samePlan(a, b eventlog.Plan) bool {
	return a.Result == b.Result && a.Steps == b.Steps && a.Next == b.Next && slices.Equal(a.Order, b.Order)
}

func sameScalars(a, b *eventlog.Decision) bool {
	return a.Cycle == b.Cycle && a.Namespace == b.Namespace && a.Name == b.Name && a.UID == b.UID &&
		a.Group == b.Group && a.Outcome == b.Outcome && a.Node == b.Node && a.Score == b.Score &&
		a.Evaluated == b.Evaluated && a.Feasible == b.Feasible && a.WaitUntil == b.WaitUntil &&
		a.Nominated == b.Nominated
}

func sameLists(a, b *eventlog.Decision) bool {
	return slices.Equal(a.Rejections, b.Rejections) && slices.Equal(a.WaitFor, b.WaitFor) &&
		slices.Equal(a.Approvals, b.Approvals) && slices.Equal(a.Allowed, b.Allowed) &&
		slices.Equal(a.Rejected, b.Rejected) && slices.Equal(a.Victims, b.Victims) &&
		slices.Equal(a.Volumes, b.Volumes) &&
		slices.Equal(a.Places, b.Places) && slices.Equal(a.Nominations, b.Nominations) &&
		a.Domain == b.Domain && a.Elsewhere == b.Elsewhere && a.Ended == b.Ended &&
		slices.Equal(a.Activated, b.Activated) && slices.Equal(a.Devices, b.Devices) &&
		slices.EqualFunc(a.Questions, b.Questions, sameQuestion) && samePlan(a.Plan, b.Plan)
}
