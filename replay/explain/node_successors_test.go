package explain

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// TestANewPodSucceedsOneLostPod loses four members of a gang; a fifth one ends well. Three new ones come. One has the
// name of a lost one and succeeds that. The others succeed the first ones that were lost.
func TestANewPodSucceedsOneLostPod(t *testing.T) {
	pod := func(name string) *v1.Pod {
		group := "g"
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		return p
	}
	s := newSuccessors()
	for i := range 5 {
		p := pod(fmt.Sprintf("old-%d", i))
		s.members[p.UID] = memberOf(p)
	}
	seq := uint64(10)
	take := func(p eventlog.Payload) {
		seq++
		s.take(eventlog.Entry{Seq: seq, Payload: p}, answer.Point{})
	}
	lost := func(name string) {
		p := pod(name)
		p.DeletionTimestamp = &metav1.Time{}
		take(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
	well := pod("old-4")
	well.Status.Phase = v1.PodSucceeded
	take(&eventlog.Upserted{Resource: eventlog.Pods, Object: well})
	lost("old-3")
	lost("old-0")
	take(&eventlog.Decision{Victims: []types.UID{"old-2"}})
	take(&eventlog.Deleted{Resource: eventlog.Pods, Namespace: "ml", Name: "old-1", UID: "old-1"})
	again := pod("old-2")
	again.UID = "old-2-again"
	for _, p := range []*v1.Pod{pod("new-0"), again, pod("new-1")} {
		take(&eventlog.Upserted{Resource: eventlog.Pods, Object: p})
	}
	next := s.pair()
	want := map[types.UID]types.UID{"old-3": "new-0", "old-0": "new-1", "old-2": "old-2-again"}
	if len(next) != len(want) {
		t.Errorf("%d pods have a successor, want %d", len(next), len(want))
	}
	for uid, is := range want {
		if next[uid] == nil || next[uid].UID != is {
			t.Errorf("in the place of %s came %+v, want %s", uid, next[uid], is)
		}
	}
}
