package e2e_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// lists counts the lists of pods that a user has asked for, streamed ones among them.
func (w *world) lists(user string) (n int) {
	w.Helper()
	w.asksOf(user, func(e *auditv1.Event) {
		whole := e.ObjectRef.Resource == "pods" && e.ObjectRef.Name == ""
		if whole && (e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true")) {
			n++
		}
	})
	return n
}

// replace deletes the pods of a gang that has all processors, and has another gang take its place: that one is placed
// only if both was seen.
func (w *world) replace(old, next string) {
	w.Helper()
	for _, suffix := range []string{"-0", "-1", "-2", "-3"} {
		w.remove(old + suffix)
	}
	w.gang(next, 4, "4")
}

// TestASuspendedSchedulerListsAgainWhatWasCompacted stops the scheduler while pods go and come, etcd is compacted and
// the API server forgets what was before: the scheduler's watches cannot continue from where they were.
func TestASuspendedSchedulerListsAgainWhatWasCompacted(t *testing.T) {
	gangsByEachAPI(t, func(w *world) {
		w.start(w.options())
		w.gang("a", 4, "4")
		w.waitFor("a-", 4, bound)
		w.gang("b", 4, "4")
		w.waitFor("b-", 4, unschedulable)
		before := w.lists(w.scheduler.User)
		if err := w.scheduler.Suspend(); err != nil {
			w.Fatal(err)
		}
		// Its connections end: it must not find later events in a buffer.
		if err := w.c.APIServer.Restart(w.Context()); err != nil {
			w.Fatal(err)
		}
		for _, name := range []string{"a-0", "a-1", "a-2", "a-3", "b-0"} {
			w.remove(name) // of b there are too few now
		}
		// The resources are listed one after the other. Among equal nodes c gets the first ones by name: neither the
		// one that is removed, nor the one that comes.
		w.gang("c", 3, "4")
		lost := w.nodes.Names()[3]
		node, err := w.client.CoreV1().Nodes().Get(w.Context(), lost, metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		if err := w.client.CoreV1().Nodes().Delete(w.Context(), lost, metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		node.ResourceVersion, node.UID, node.Name = "", "", "the-new-one"
		if _, err := w.client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.compacted()
		if err := w.scheduler.Resume(); err != nil {
			w.Fatal(err)
		}
		w.waitFor("c-", 3, bound)
		w.none("b-", bound)
		if n := w.lists(w.scheduler.User); n <= before {
			w.Errorf("the scheduler has listed the pods %d times, as before, and has seen what was compacted", n)
		}
		w.untilLogged("the-new-one")
		w.create(w.pod("d-0", "", "4"))
		w.waitFor("d-", 1, bound)
		if on := w.on("d-")["d-0"]; on != "the-new-one" {
			w.Errorf("pod d-0 is on node %q, wanted the one that came", on)
		}
		w.audit(8)
	})
}

// untilLogged waits until the scheduler's log has an object of such a name.
func (w *world) untilLogged(name string) {
	w.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		log, err := w.scheduler.Rollcall(w.Context(), "log", "cat", w.scheduler.Log)
		if err == nil && bytes.Contains(log, []byte(strconv.Quote(name))) {
			return
		}
		if time.Since(begun) > patience {
			w.Fatalf("the log has no %q within %v; the last error: %v", name, patience, err)
		}
	}
}

// compacted compacts etcd and starts both servers again: nobody knows about earlier revisions any more.
func (w *world) compacted() {
	w.Helper()
	if err := w.c.Compact(w.Context()); err != nil {
		w.Fatal(err)
	}
	for _, server := range []*cluster.Process{w.c.Etcd, w.c.APIServer} {
		if err := server.Restart(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}

// TestCompactionsUnderARunningSchedulerLoseNothing compacts etcd while gangs come and go: at first with all servers at
// work, then with the API server held up so long that its own watches of etcd cannot continue.
func TestCompactionsUnderARunningSchedulerLoseNothing(t *testing.T) {
	w := newWorld(t, true, cluster.Options{})
	w.start(w.options())
	w.gang("a", 4, "4")
	w.waitFor("a-", 4, bound)
	last := "a"
	for _, next := range []string{"b", "c", "d"} {
		if err := w.c.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.replace(last, next)
		if err := w.c.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.waitFor(next+"-", 4, bound)
		last = next
	}
	for _, next := range []string{"e", "f", "g"} {
		w.replace(last, next)
		if err := w.c.APIServer.Suspend(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := w.c.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.c.Etcd.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.c.APIServer.Resume(); err != nil {
			t.Fatal(err)
		}
		w.waitFor(next+"-", 4, bound)
		last = next
	}
	w.audit(28)
}
