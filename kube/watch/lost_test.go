package watch

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// An API server that has just started may lack a resource once. The resource is listed then, and the log says that
// changes may be missing.
func TestAResourceThatIsGoneForAMomentMayMissChanges(t *testing.T) {
	r := newRecording(t)
	s := r.server
	s.put(recordedPod("a", "1", "", ""))
	r.recordsUntil("a 1 ")
	s.edit(func() { s.lacking[eventlog.PodDisruptionBudgets] = 1 }) // alone in its group: it is asked for once
	r.recordsUntil(string(eventlog.PodDisruptionBudgets) + " may be missing: " + reasonAbsent)
}

// The API server lacks a resource that the log never had. There is nothing that could be missing.
func TestAResourceThatWasNeverThereMissesNothing(t *testing.T) {
	r := newRecording(t)
	s := r.server
	s.absent[eventlog.PodDisruptionBudgets] = true
	s.put(recordedPod("a", "1", "", ""))
	r.recordsUntil("a 1 ")
	s.edit(func() { s.absent[eventlog.PodDisruptionBudgets], s.lacking[eventlog.PodDisruptionBudgets] = false, 1 })
	s.put(recordedPod("b", "2", "", ""))
	r.recordsUntil("b 2 ")
	if n := len(r.story(0)); n != 2 {
		t.Errorf("the log says %q", r.story(0))
	}
}

// A resource counts as gone: its objects are deleted in the log. When it is back the recorder lists it, although the
// API server still has the changes since the last position.
func TestAResourceThatCountsAsGoneIsListed(t *testing.T) {
	r := newRecording(t)
	s := r.server
	s.put(recordedPod("a", "1", "", ""))
	r.recordsUntil("a 1 ")
	s.edit(func() { s.absent[eventlog.Pods] = true })
	r.recordsUntil("a 1 deleted", "pods may be missing: "+reasonAbsent)
	s.edit(func() { s.absent[eventlog.Pods] = false })
	r.recordsUntil("a 1 ", "pods may be missing: "+reasonStart)
}
