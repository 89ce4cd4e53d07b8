package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// TestReplayFindsWhatWasChangedInACopyOfALog simulates to a file, copies it entry by entry with one thing
// changed, and has another process replay the copy. The copy is whole: its hashes and checksums are right.
func TestReplayFindsWhatWasChangedInACopyOfALog(t *testing.T) {
	dir := t.TempDir()
	original := filepath.Join(dir, "original.db")
	rollcall(t, "simulate", "--nodes", "4x4cpu", "--workload", "testdata/gangs.swf", "--log", original)
	recorded := readLog(t, original)
	untouched := filepath.Join(dir, "untouched.db")
	writeLog(t, untouched, recorded)
	if out, code := replayed(t, untouched); code != exitDone || !bytes.Contains(out, []byte("\nidentical\n")) {
		t.Fatalf("a copy with nothing changed: exit code %d\n%s", code, out)
	}
	for i, c := range tamperings {
		t.Run(c.name, func(t *testing.T) {
			at := slices.IndexFunc(recorded, func(e eventlog.Entry) bool { return c.find(e.Payload) })
			if at < 0 {
				t.Fatal("the log has no such entry")
			}
			copied, want := tamper(recorded, at, c)
			path := filepath.Join(dir, strconv.Itoa(i)+".db")
			writeLog(t, path, copied)
			wantDivergence(t, path, want)
		})
	}
}

// tampering is one way to change a log: the first entry that find knows.
type tampering struct {
	name   string
	find   func(eventlog.Payload) bool
	change func(eventlog.Payload) // nil to take the entry out
	kind   string
	field  string // "" if the divergence has none
	later  bool   // the entry is an input: what diverges is the next decision
}

var tamperings = []tampering{
	{
		name:   "the node of a pod",
		find:   scheduledAlone,
		change: onDecision(func(d *eventlog.Decision) { d.Node = otherNode(d.Node) }),
		kind:   "differs",
		field:  "node",
	},
	{
		name:   "the node of a gang's member",
		find:   outcome(eventlog.Waiting),
		change: onDecision(func(d *eventlog.Decision) { d.Node = otherNode(d.Node) }),
		kind:   "differs",
		field:  "node",
	},
	{
		name:   "the score",
		find:   outcome(eventlog.Scheduled),
		change: onDecision(func(d *eventlog.Decision) { d.Score++ }),
		kind:   "differs",
		field:  "score",
	},
	{
		name:   "who was set free",
		find:   completesGang,
		change: onDecision(func(d *eventlog.Decision) { d.Allowed = d.Allowed[1:] }),
		kind:   "differs",
		field:  "allowed",
	},
	{
		name:   "the reason",
		find:   outcome(eventlog.Unschedulable),
		change: onDecision(func(d *eventlog.Decision) { d.Rejections[0].Reason = "no" }),
		kind:   "differs",
		field:  "rejections",
	},
	{
		name:   "the outcome",
		find:   outcome(eventlog.Unschedulable),
		change: onDecision(func(d *eventlog.Decision) { d.Outcome = eventlog.Error }),
		kind:   "differs",
		field:  "outcome",
	},
	{
		name:   "the deadline",
		find:   outcome(eventlog.Waiting),
		change: onDecision(func(d *eventlog.Decision) { d.WaitUntil++ }),
		kind:   "differs",
		field:  "waitUntil",
	},
	{name: "a decision taken out", find: outcome(eventlog.Unschedulable), kind: "missing"},
	{
		name:   "a bind that is said to have failed",
		find:   isBound,
		change: func(p eventlog.Payload) { p.(*eventlog.BindResult).Outcome = eventlog.BindFailed },
		kind:   "differs",
		field:  "pod",
		later:  true,
	},
	{name: "a node made smaller", find: isNode, change: shrink, kind: "differs", field: "node", later: true},
}

func onDecision(change func(*eventlog.Decision)) func(eventlog.Payload) {
	return func(p eventlog.Payload) { change(p.(*eventlog.Decision)) }
}

func outcome(o eventlog.Outcome) func(eventlog.Payload) bool {
	return func(p eventlog.Payload) bool {
		d, ok := p.(*eventlog.Decision)
		return ok && d.Outcome == o
	}
}

func scheduledAlone(p eventlog.Payload) bool {
	d, ok := p.(*eventlog.Decision)
	return ok && d.Outcome == eventlog.Scheduled && len(d.Allowed) == 0
}

func completesGang(p eventlog.Payload) bool {
	d, ok := p.(*eventlog.Decision)
	return ok && len(d.Allowed) > 1
}

func isBound(p eventlog.Payload) bool {
	r, ok := p.(*eventlog.BindResult)
	return ok && r.Outcome == eventlog.BindBound
}

func isNode(p eventlog.Payload) bool {
	up, ok := p.(*eventlog.Upserted)
	return ok && up.Resource == eventlog.Nodes
}

func shrink(p eventlog.Payload) {
	p.(*eventlog.Upserted).Object.(*v1.Node).Status.Allocatable[v1.ResourceCPU] = resource.MustParse("3")
}

func otherNode(name string) string {
	if name == "node-03" {
		return "node-02"
	}
	return "node-03"
}

// divergence is the expected answer of replay.
type divergence struct {
	Kind  string `json:"kind"`
	Seq   uint64 `json:"seq"`
	Pod   string `json:"pod"`
	Field string `json:"field"`
}

// tamper returns the entries with the one at that place changed or taken out, and the divergence that replay must find.
func tamper(recorded []eventlog.Entry, at int, c tampering) ([]eventlog.Entry, divergence) {
	found := at
	if c.later {
		found += slices.IndexFunc(
			recorded[at:],
			func(e eventlog.Entry) bool { return e.Kind() == eventlog.KindDecision },
		)
	}
	d := recorded[found].Payload.(*eventlog.Decision)
	want := divergence{Kind: c.kind, Seq: recorded[found].Seq, Pod: d.Namespace + "/" + d.Name, Field: c.field}
	if c.change == nil {
		return renumbered(slices.Delete(slices.Clone(recorded), at, at+1)), want
	}
	// The change is made to a copy: other cases use the same entries.
	b, err := eventlog.AppendRecord(nil, recorded[at], [32]byte{})
	if err != nil {
		panic(err)
	}
	e, _, err := eventlog.DecodeRecord(b)
	if err != nil {
		panic(err)
	}
	c.change(e.Payload)
	copied := slices.Clone(recorded)
	copied[at] = e
	return copied, want
}

// renumbered closes the gaps in sequence numbers and cycles, as a forger would.
func renumbered(entries []eventlog.Entry) []eventlog.Entry {
	cycle := uint64(0)
	for i := range entries {
		entries[i].Seq = uint64(i + 1)
		if d, ok := entries[i].Payload.(*eventlog.Decision); ok {
			cycle++
			forged := *d
			forged.Cycle = cycle
			entries[i].Payload = &forged
		}
	}
	return entries
}

func wantDivergence(t *testing.T, path string, want divergence) {
	t.Helper()
	text, code := replayed(t, path)
	if code != exitDiverged {
		t.Errorf("exit code is %d, want %d\n%s", code, exitDiverged, text)
	}
	first := ""
	if _, rest, ok := strings.Cut(string(text), "the first:\n"); ok {
		first, _, _ = strings.Cut(rest, "\n")
	}
	for _, part := range []string{"entry " + strconv.FormatUint(want.Seq, 10) + ":", "pod " + want.Pod, want.Field} {
		if !strings.Contains(first, part) {
			t.Errorf("the first divergence is told as %q, without %q", first, part)
		}
	}
	facts, code := replayed(t, path, "-o", "json")
	var got struct {
		Identical   *bool        `json:"identical"`
		Divergences []divergence `json:"divergences"`
	}
	if err := json.Unmarshal(facts, &got); err != nil {
		t.Fatalf("-o json prints %q: %v", facts, err)
	}
	if code != exitDiverged || got.Identical == nil || *got.Identical || len(got.Divergences) == 0 ||
		got.Divergences[0] != want {
		t.Errorf("-o json: exit code %d, %s\nwant exit code %d and first %+v", code, facts, exitDiverged, want)
	}
}

// replayed runs rollcall replay, and returns its output and its exit code.
func replayed(t *testing.T, path string, args ...string) ([]byte, int) {
	t.Helper()
	out, complaint, code := ran(t, append([]string{"replay", path}, args...)...)
	if complaint != "" {
		t.Errorf("rollcall replay wrote to stderr: %s", complaint)
	}
	return []byte(out), code
}

func readLog(t *testing.T, path string) []eventlog.Entry {
	t.Helper()
	log, err := boltlog.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var entries []eventlog.Entry
	for e, err := range log.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func writeLog(t *testing.T, path string, entries []eventlog.Entry) {
	t.Helper()
	log, err := boltlog.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Append(context.Background(), 0, entries), log.Close()); err != nil {
		t.Fatal(err)
	}
}
