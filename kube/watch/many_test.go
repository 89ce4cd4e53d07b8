package watch

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// So many changes wait that a recorder merges the changes of one object. The log still ends with the last state, and
// says that changes are missing.
func TestTheLastStateIsInTheRecordIfTooManyChangesWait(t *testing.T) {
	const there, fresh, brief = "there", "fresh", "brief" // brief has one change before its end
	l := newLedger(kinds)
	l.positions.on = true
	l.positions.now, l.positions.logged = make([]string, len(kinds)), make([]string, len(kinds))
	place := places[eventlog.Nodes]
	last := map[string]string{}
	take := func() (missing int) {
		for _, p := range l.take() {
			switch p := p.(type) {
			case *eventlog.Upserted:
				last[p.Object.GetName()] = p.Object.GetLabels()["v"]
			case *eventlog.Deleted:
				delete(last, p.Name)
			case *eventlog.Watched:
				missing += len(p.Missing)
			}
		}
		return missing
	}
	put := func(name string, v byte) {
		n := node(name, name, heartbeat)
		n.Labels = map[string]string{"v": fmt.Sprint(v)}
		l.upsert(place, types.NamespacedName{Name: name}, version{uid: n.UID, sum: digest{v}}, n)
	}
	put(there, 0)
	pods, name := places[eventlog.Pods], types.NamespacedName{Namespace: "default", Name: "again"}
	run := func(uid string) {
		l.upsert(pods, name, version{uid: types.UID(uid)}, recordedPod(name.Name, uid, "n1", ""))
	}
	run("1")
	take()
	run("2")
	for _, v := range []byte{1, 2} {
		put(there, v)
		put(fresh, v)
	}
	put(brief, 1)
	for i := range maxWaiting {
		put(fmt.Sprint("n", i), 0)
	}
	put(there, 0)
	l.remove(place, types.NamespacedName{Name: fresh}, nil)
	l.remove(place, types.NamespacedName{Name: brief}, nil)
	l.remove(pods, name, recordedPod(name.Name, "2", "n1", "Failed")) // the log has pod 1 only
	if missing := take(); missing != 2 {
		t.Errorf("changes of %d resources are missing, want nodes and pods", missing)
	}
	if last[there] != "0" {
		t.Errorf("the log ends with version %q of the node, want 0", last[there])
	}
	for _, gone := range []string{fresh, brief, name.Name} {
		if v, ok := last[gone]; ok {
			t.Errorf("the log has version %s of %s, which is gone", v, gone)
		}
	}
	if n := len(l.books[place]); n != maxWaiting+1 || l.size != 0 {
		t.Errorf("%d nodes are known and %d wait, want %d and none", n, l.size, maxWaiting+1)
	}
}
