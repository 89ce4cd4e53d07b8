package audit

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// on is a Decision on pod ml/name, whose UID is the name.
func on(name string, outcome eventlog.Outcome, node string) *eventlog.Decision {
	return &eventlog.Decision{Namespace: "ml", Name: name, UID: types.UID(name), Outcome: outcome, Node: node}
}

func allowing(d *eventlog.Decision, uids ...types.UID) *eventlog.Decision {
	d.Group, d.Allowed = "train", uids
	return d
}

func rejecting(d *eventlog.Decision, uids ...types.UID) *eventlog.Decision {
	d.Rejected = uids
	return d
}

func bindOf(uid types.UID, node string, decision uint64) *eventlog.BindResult {
	return &eventlog.BindResult{UID: uid, Node: node, Outcome: eventlog.BindBound, Decision: decision}
}

func list(payloads ...eventlog.Payload) []eventlog.Payload { return payloads }

// elsewhere is a Decision on a pod of the name in another namespace.
func elsewhere(name, node string) *eventlog.Decision {
	d := on(name, eventlog.Scheduled, node)
	d.Namespace, d.UID = "other", "other-"+d.UID
	return d
}

// again is a Decision on another pod of the name.
func again(name, node string) *eventlog.Decision {
	d := on(name, eventlog.Scheduled, node)
	d.UID += "-again"
	return d
}

// TestThePlacementThatIsProvenIsTheLastOne finds the placement of ml/a in logs whose payloads begin at entry 2.
func TestThePlacementThatIsProvenIsTheLastOne(t *testing.T) {
	const scheduled, waiting, refused = eventlog.Scheduled, eventlog.Waiting, eventlog.Unschedulable
	for name, tc := range map[string]struct {
		uid      types.UID
		size     uint64 // of the log; 0 for all of it
		payloads []eventlog.Payload
		want     []uint64
		fails    string
		note     bool // that there is no result of the bind
	}{
		"placed and bound": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2)),
			want:     []uint64{2, 3},
		},
		"a result that names no Decision": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 0)),
			want:     []uint64{2, 3},
		},
		"no result": {
			payloads: list(on("a", scheduled, "n1")),
			want:     []uint64{2}, note: true,
		},
		"a result behind the end": {
			size: 2, payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2)),
			want: []uint64{2}, note: true,
		},
		"a result at the end": {
			size: 3, payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2)),
			want: []uint64{2, 3},
		},
		"of another pod": {
			payloads: list(on("a", scheduled, "n1"), bindOf("b", "n1", 0)),
			want:     []uint64{2}, note: true,
		},
		"on another node": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n2", 0)),
			want:     []uint64{2}, note: true,
		},
		"of an earlier bind": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2), on("a", scheduled, "n1"),
				bindOf("a", "n1", 2)),
			want: []uint64{4}, note: true,
		},
		"two results": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2), bindOf("a", "n1", 2)),
			want:     []uint64{2, 3},
		},
		"two results that name no Decision": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 0), bindOf("a", "n1", 0)),
			want:     []uint64{2, 3},
		},
		"a result before it was released": {
			payloads: list(on("a", waiting, "n1"), bindOf("a", "n1", 0), allowing(on("b", scheduled, "n2"), "a"),
				bindOf("a", "n1", 4)),
			want: []uint64{2, 4, 5},
		},
		"placed on no node": {
			payloads: list(on("a", scheduled, "")),
			fails:    "no Decision",
		},
		"placed twice": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2), on("a", scheduled, "n2"),
				bindOf("a", "n2", 4)),
			want: []uint64{4, 5},
		},
		"refused later": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2), on("a", refused, "")),
			want:     []uint64{2, 3},
		},
		"never placed": {
			payloads: list(on("a", refused, ""), on("b", scheduled, "n1")),
			fails:    "no Decision in entries 1 to 3",
		},
		"a reservation of a node": {
			payloads: list(on("a", eventlog.Reserved, "n1")),
			fails:    "no Decision",
		},
		"another namespace": {
			payloads: list(elsewhere("a", "n1")),
			fails:    "has placed pod ml/a",
		},
		"another pod of the name": {
			payloads: list(on("a", scheduled, "n1"), again("a", "n2")),
			want:     []uint64{3}, note: true,
		},
		"the pod of a UID": {
			uid: "a", payloads: list(on("a", scheduled, "n1"), again("a", "n2")),
			want: []uint64{2}, note: true,
		},
		"no pod of a UID": {
			uid: "x", payloads: list(on("a", scheduled, "n1")),
			fails: "pod ml/a with UID x",
		},
		"released with its gang": {
			payloads: list(on("a", waiting, "n1"), allowing(on("b", scheduled, "n2"), "a"), bindOf("a", "n1", 3)),
			want:     []uint64{2, 3, 4},
		},
		"a result that names the first": {
			payloads: list(on("a", waiting, "n1"), allowing(on("b", scheduled, "n2"), "a"), bindOf("a", "n1", 2)),
			want:     []uint64{2, 3}, note: true,
		},
		"released by itself": {
			payloads: list(on("a", waiting, "n1"), on("a", scheduled, "n1"), bindOf("a", "n1", 3)),
			want:     []uint64{2, 3, 4},
		},
		"released twice": {
			payloads: list(on("a", waiting, "n1"), allowing(on("b", scheduled, "n2"), "a"),
				allowing(on("c", scheduled, "n2"), "a")),
			want: []uint64{2, 3}, note: true,
		},
		"waiting": {
			payloads: list(on("a", waiting, "n1"), on("b", scheduled, "n2")),
			fails:    "since entry 2 it waits on node n1",
		},
		"a result while it waits": {
			payloads: list(on("a", waiting, "n1"), bindOf("a", "n1", 0)),
			fails:    "since entry 2 it waits on node n1",
		},
		"given back": {
			payloads: list(on("a", waiting, "n1"), rejecting(on("b", refused, ""), "a")),
			fails:    "no Decision",
		},
		"another one given back": {
			payloads: list(on("a", waiting, "n1"), rejecting(on("b", refused, ""), "c"),
				allowing(on("b", scheduled, "n2"), "a")),
			want: []uint64{2, 4}, note: true,
		},
		"given back, then placed": {
			payloads: list(on("a", waiting, "n1"), rejecting(on("b", refused, ""), "a"),
				on("a", scheduled, "n2"), bindOf("a", "n2", 4)),
			want: []uint64{4, 5},
		},
		"waiting again after it was bound": {
			payloads: list(on("a", scheduled, "n1"), bindOf("a", "n1", 2), on("a", waiting, "n2")),
			fails:    "since entry 4 it waits on node n2",
		},
		"allowed, and another one's results": {
			payloads: list(on("a", waiting, "n1"), allowing(on("b", scheduled, "n2"), "a"),
				bindOf("b", "n2", 3), bindOf("a", "n1", 3)),
			want: []uint64{2, 3, 5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries := logstest.WellFormed(1)
			for i, p := range tc.payloads {
				entries = append(entries, eventlog.Entry{
					Seq: uint64(i + 2), Epoch: entries[0].Epoch, Time: entries[0].Time, Payload: p,
				})
			}
			var notes []string
			log, err := logs.Options{Report: func(s string) { notes = append(notes, s) }}.Open(t.Context(),
				logstest.Segmented(t, entries, 100))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			size := tc.size
			if size == 0 {
				size = uint64(len(entries))
			}
			seqs, err := findPlacement(t.Context(), log, "ml", "a", tc.uid, size)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("proven by %d, error %v, want %q", seqs, err, tc.fails)
				}
				return
			}
			if err != nil || !slices.Equal(seqs, tc.want) {
				t.Errorf("proven by %d, %v, want %d", seqs, err, tc.want)
			}
			said := strings.Contains(strings.Join(notes, "\n"), "the proof is of the Decision alone")
			if said != tc.note {
				t.Errorf("noted is %q", notes)
			}
		})
	}
}

// TestAPlacementIsToldStepByStep compares the report on a gang's member with its three entries.
func TestAPlacementIsToldStepByStep(t *testing.T) {
	member := on("a", eventlog.Waiting, "n1")
	member.Group = "train"
	last := allowing(on("b", eventlog.Scheduled, "n2"), "a", "c", "d")
	result := bindOf("a", "n1", 3)
	result.Message = "it was there already"
	entries := []eventlog.Entry{
		{Seq: 2, Time: 20, Payload: member}, {Seq: 3, Time: 30, Payload: last}, {Seq: 4, Time: 40, Payload: result},
	}
	whole := &proof.Placed{Namespace: "ml", Name: "a", UID: "a", Group: "train", Node: "n1", Decided: entries[0],
		Released: &entries[1], Bound: &entries[2]}
	r, shown := reportPlaced(whole)
	if r.Pod != "ml/a" || r.UID != "a" || r.Group != "ml/train" || r.Node != "n1" {
		t.Errorf("the placement is %+v", r)
	}
	for _, step := range []struct {
		name      string
		got, want PlacementStep
	}{
		{"decided", r.Decided, PlacementStep{Seq: 2, Time: entries[0].Time.String(), Outcome: "Waiting"}},
		{"released", *r.Released, PlacementStep{Seq: 3, Time: entries[1].Time.String(), Outcome: "Scheduled",
			By: "ml/b", Others: 2, Group: "ml/train"}},
		{"bound", *r.Bound, PlacementStep{Seq: 4, Time: entries[2].Time.String(), Outcome: "Bound",
			Message: "it was there already"}},
	} {
		if step.got != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, step.got, step.want)
		}
	}
	if len(shown) != 3 || shown[0].Seq != 2 || shown[1].Seq != 3 || shown[2].Seq != 4 {
		t.Errorf("the entries are %+v", shown)
	}
	whole.Group, whole.Released, whole.Bound = "", nil, nil
	if r, shown := reportPlaced(whole); r.Group != "" || r.Released != nil || r.Bound != nil || len(shown) != 1 {
		t.Errorf("the Decision alone is %+v, with %d entries", r, len(shown))
	}
}
