package eventlog_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Reading a log is decoding: what it may allocate is the entry itself, and nothing on the way.
func TestDecodingAllocatesTheEntryAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name    string
		payload eventlog.Payload
		most    float64
	}{
		{"Tick", &eventlog.Tick{}, 1},
		{"Deleted", &eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ns", Name: "p", UID: "u"}, 2},
		{"BindResult", &eventlog.BindResult{UID: "u", Node: "n", Outcome: eventlog.BindBound, Message: "m"}, 2},
		{"EvictResult", &eventlog.EvictResult{UID: "u", Outcome: eventlog.EvictDone, Message: "m", Decision: 1}, 2},
		{"Decision", &eventlog.Decision{Cycle: 1, Name: "p", UID: "u", Outcome: eventlog.Scheduled, Node: "n",
			Rejections: []eventlog.Rejection{{Plugin: "NodeName", Code: "Unschedulable", Reason: "no", Nodes: 1}},
			Allowed:    []types.UID{"u", "v"}}, 4},
		{"Upserted", &eventlog.Upserted{Resource: eventlog.Pods, Object: eventlog.Trim(eventlog.Pods, pod("p"))}, 43},
	} {
		t.Run(tc.name, func(t *testing.T) {
			record := encode(t, eventlog.Entry{Seq: 1, Epoch: 1, Time: 1, Payload: tc.payload}, [32]byte{})
			got := testing.AllocsPerRun(200, func() {
				if _, _, err := eventlog.DecodeRecord(record); err != nil {
					t.Fatal(err)
				}
			})
			if t.Logf("%.0f allocations", got); got > tc.most {
				t.Errorf("%.0f allocations, want at most %.0f", got, tc.most)
			}
		})
	}
}
