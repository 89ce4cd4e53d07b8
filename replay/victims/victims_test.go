package victims_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay/entities"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/victims"
)

// audited audits the last of some entries.
func audited(t *testing.T, entries []eventlog.Entry, filter entities.Filter) *victims.Report {
	t.Helper()
	log := eventlog.NewMemory()
	if err := log.Append(t.Context(), 0, entries); err != nil {
		t.Fatal(err)
	}
	last := uint64(len(entries))
	past := history.New(history.Plain(log, plugins.NewRegistry()), history.Options{})
	r, err := victims.Audit(t.Context(), past, victims.Options{From: last, Last: last, Keep: 1000, Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rules returns the findings of a report but Choice, as "Rule name".
func rules(r *victims.Report) (found []string) {
	for _, p := range r.Preemptions {
		for _, f := range p.Findings {
			if f.Rule != victims.Choice {
				found = append(found, string(f.Rule)+" "+f.Victim)
			}
		}
	}
	return found
}

// edited returns the entries up to a Decision, with other victims in it.
func edited(entries []eventlog.Entry, at int, to []types.UID) []eventlog.Entry {
	out := slices.Clone(entries[:at+1])
	d := *out[at].Payload.(*eventlog.Decision)
	d.Victims = to
	out[at].Payload = &d
	return out
}

// TestFindingsAreTheOnesOfANaiveSearch audits each preemption of random small worlds as it was recorded, and with
// faults planted in it: one pod more, one less, one exchanged for another. A naive reader of the entries, which counts
// CPUs, finds the same faults by the same rules. The recorded preemptions have no violation.
func TestFindingsAreTheOnesOfANaiveSearch(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(fixedseed.Of(600, 40)) {
		world := yaml(seed)
		entries := recorded(t, world)
		for i, e := range entries {
			d, ok := e.Payload.(*eventlog.Decision)
			if !ok || len(d.Victims) == 0 || d.Outcome == eventlog.Evicted {
				continue
			}
			seen["recorded"]++
			n := readNaively(entries[:i])
			r := audited(t, entries[:i+1], entities.Filter{})
			if r.Decisions != 1 || r.Violations != 0 || r.Unproven != 0 {
				t.Errorf("seed %d: entry %d as recorded:\n%s\n%s", seed, e.Seq, text(t, r), world)
			}
			compare(t, seed, r, n.faults(d, allowedBy(world)), seen)
			for _, to := range faulty(n, d) {
				wrong := edited(entries, i, to)
				r := audited(t, wrong, entities.Filter{})
				if r.Violations != 1 || r.Rules[victims.Choice] != 1 {
					t.Errorf("seed %d: entry %d has other victims, and no violation is found:\n%s", seed, e.Seq,
						text(t, r))
				}
				compare(t, seed, r, n.faults(wrong[i].Payload.(*eventlog.Decision), allowedBy(world)), seen)
			}
		}
	}
	t.Log(seen)
	for _, rule := range []string{"recorded", "Needless", "TooFew", "Policy", "Budget", "LessImportant"} {
		if seen[rule] == 0 {
			t.Errorf("no world shows %s", rule)
		}
	}
}

// faulty returns other victims for a Decision.
func faulty(n *naive, d *eventlog.Decision) (out [][]types.UID) {
	var running []types.UID
	for uid, p := range n.pods {
		if p.runs && p.node != "" && !p.leaves && !slices.Contains(d.Victims, uid) && p.gang == "" {
			running = append(running, uid)
		}
	}
	slices.Sort(running)
	for i, v := range d.Victims {
		if len(d.Victims) > 1 {
			out = append(out, except(d.Victims, v))
		}
		for _, uid := range running {
			if i == 0 {
				out = append(out, append(slices.Clone(d.Victims), uid))
			}
			out = append(out, append(except(d.Victims, v), uid))
		}
	}
	return out
}

// compare compares the findings of the audit with the naive ones.
func compare(t *testing.T, seed uint64, r *victims.Report, want []string, seen map[string]int) {
	t.Helper()
	got := rules(r)
	slices.Sort(got)
	slices.Sort(want)
	for _, rule := range want {
		name, _, _ := strings.Cut(rule, " ")
		seen[name]++
	}
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: the findings are %q, and a naive search has %q\n%s", seed, got, want, text(t, r))
	}
}

func text(t *testing.T, r *victims.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAFilterSelectsPreemptionsByBothSides audits one preemption with filters that select its preemptor, its victim,
// and nothing.
func TestAFilterSelectsPreemptionsByBothSides(t *testing.T) {
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\nstatus: {allocatable: {cpu: \"4\", pods: \"10\"}}\n"
	entries := recorded(t, node+pod("low", 1, "0s", 4, "free", "")+pod("high", 5, "10s", 2, "free", ""))
	at := slices.IndexFunc(entries, func(e eventlog.Entry) bool {
		d, ok := e.Payload.(*eventlog.Decision)
		return ok && len(d.Victims) > 0
	})
	one, five, nine := int32(1), int32(5), int32(9)
	for want, filters := range map[uint64][]entities.Filter{
		1: {{}, {Priority: &one}, {Priority: &five}, {Namespace: "default"}},
		0: {{Priority: &nine}, {Namespace: "ml"}, {Gang: "default/low"}},
	} {
		for _, f := range filters {
			if r := audited(t, entries[:at+1], f); r.Decisions != want {
				t.Errorf("the filter %q selects %d preemptions, want %d", f.String(), r.Decisions, want)
			}
		}
	}
}
