package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// perfettoTrace is the part of the Trace Event Format that "rollcall export" writes.
type perfettoTrace struct {
	TraceEvents []perfettoEvent `json:"traceEvents"`
}

type perfettoEvent struct {
	Name string      `json:"name"`
	Ph   string      `json:"ph"`
	Cat  string      `json:"cat"`
	TS   json.Number `json:"ts"`
	Dur  json.Number `json:"dur"`
	Pid  int         `json:"pid"`
	Tid  int         `json:"tid"`
	Args struct {
		Name string    `json:"name"`
		UID  types.UID `json:"uid"`
		Node string    `json:"node"`
	} `json:"args"`
}

// nanos reads microseconds with three decimals.
func nanos(t *testing.T, n json.Number) int64 {
	t.Helper()
	whole, decimals, ok := strings.Cut(string(n), ".")
	var v int64
	if _, err := fmt.Sscan(whole+decimals, &v); err != nil || !ok || len(decimals) != 3 {
		t.Fatalf("%q is not a number of microseconds with three decimals", n)
	}
	return v
}

// TestATraceHasEachPodOnItsNode exports random worlds, whole and a range in the middle. The slices of pods equal what a
// naive reader finds, who looks at all pods after each entry. The slices of a track are nested, each track has a name,
// and there is an instant for each decision.
func TestATraceHasEachPodOnItsNode(t *testing.T) {
	compared := 0
	for seed := uint64(1); seed <= 6; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			log := logOfWorld(t, seed)
			last := naiveRuns(t, log, 0, 0).last
			for _, within := range [][2]uint64{{0, last}, {last / 3, last / 3 * 2}, {last - 1, last}} {
				want := naiveRuns(t, log, within[0], within[1])
				args := []string{"export", log, "--until", fmt.Sprint(within[1])}
				if within[0] > 0 {
					args = append(args, "--from", fmt.Sprint(within[0]))
				}
				var trace perfettoTrace
				must(t, json.Unmarshal(rollcall(t, args...), &trace))
				wantTrace(t, &trace, want)
				compared += len(want.runs)
			}
		})
	}
	if compared < 100 {
		t.Errorf("%d pods were compared", compared)
	}
}

// naivePods are the pods on nodes, as "uid node from until", and the number of decisions.
type naivePods struct {
	runs      []string
	decisions int
	last      uint64
}

// naiveRuns reads a range of a log.
func naiveRuns(t *testing.T, name string, after, last uint64) (found naivePods) {
	t.Helper()
	log, err := logs.Options{Registry: plugins.NewRegistry()}.Open(t.Context(), name)
	must(t, err)
	defer log.Close()
	type run struct {
		node  string
		since eventlog.Time
	}
	m, now, start, on := scheduler.New(plugins.NewRegistry()), eventlog.Time(0), eventlog.Time(0), map[types.UID]run{}
	end := func(uid types.UID) {
		found.runs = append(found.runs, fmt.Sprintf("%s %s %d %d", uid, on[uid].node, max(start, on[uid].since), now))
		delete(on, uid)
	}
	for e, err := range log.Read(t.Context(), 1) {
		must(t, err)
		if last > 0 && e.Seq > last {
			break
		}
		found.last = e.Seq
		must(t, m.Apply(e))
		now = e.Time
		if _, ok := e.Payload.(*eventlog.Decision); ok && e.Seq > after {
			found.decisions++
		}
		var gone []types.UID
		for uid, r := range on { // any order: the runs are sorted
			if p := m.Cluster().Pods().Get(uid); p == nil || p.Node != r.node {
				gone = append(gone, uid)
			}
		}
		for _, uid := range gone {
			end(uid)
		}
		for _, p := range m.Cluster().Pods().All() {
			if _, known := on[p.Object.UID]; p.Node != "" && !known {
				on[p.Object.UID] = run{p.Node, e.Time}
			}
		}
		if e.Seq <= after {
			found.runs, start = nil, e.Time
		}
	}
	for uid := range on { // any order: the runs are sorted
		end(uid)
	}
	slices.Sort(found.runs)
	return found
}

func wantTrace(t *testing.T, trace *perfettoTrace, want naivePods) {
	t.Helper()
	type track struct{ pid, tid int }
	type span struct{ from, to int64 }
	named, used, decisions, got := map[track]string{}, map[track][]span{}, 0, []string(nil)
	for i := range trace.TraceEvents {
		e := &trace.TraceEvents[i]
		at := track{e.Pid, e.Tid}
		switch e.Ph {
		case "M":
			if e.Name == "thread_name" {
				named[at] = e.Args.Name
			}
		case "X":
			from := nanos(t, e.TS)
			used[at] = append(used[at], span{from, from + nanos(t, e.Dur)})
			if e.Cat == "pod" {
				got = append(got, fmt.Sprintf("%s %s %d %d", e.Args.UID, e.Args.Node, from, from+nanos(t, e.Dur)))
			}
		case "i":
			used[at] = append(used[at], span{nanos(t, e.TS), nanos(t, e.TS)})
			if e.Cat == "cycle" {
				decisions++
			}
		case "C":
			nanos(t, e.TS)
		default:
			t.Errorf("there is an event of phase %q", e.Ph)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want.runs) {
		t.Errorf("the trace has the pods\n%s\nand a naive reader finds\n%s", strings.Join(got, "\n"),
			strings.Join(want.runs, "\n"))
	}
	if decisions != want.decisions {
		t.Errorf("the trace has %d decisions of %d", decisions, want.decisions)
	}
	for at, spans := range used { // any order: each is checked by itself
		if named[at] == "" {
			t.Errorf("track %v has no name", at)
		}
		// An outer slice comes first: of equal beginnings the longer one.
		slices.SortFunc(spans, func(a, b span) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
		})
		var open []span
		for _, s := range spans {
			for len(open) > 0 && open[len(open)-1].to <= s.from {
				open = open[:len(open)-1]
			}
			if len(open) > 0 && s.to > open[len(open)-1].to {
				t.Errorf("track %s has slices that overlap: %v and %v", named[at], open[len(open)-1], s)
			}
			open = append(open, s)
		}
	}
}
