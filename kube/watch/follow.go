package watch

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Watch of a process on standby receives the changes of the cluster and of the log at the same time, in any order:
// another process sees the same changes and logs them. So when this one takes the log over, nothing has to be listed or
// compared: the changes that wait in the ledger are the difference.

// Logged takes in an entry that another process has logged. It is for a Watch with Options.Following, before Lead. One
// goroutine at a time may call it.
func (w *Watch) Logged(entry eventlog.Entry) (err error) {
	encoding := w.following.Load()
	if encoding == nil {
		return fmt.Errorf("entry %d was logged by another process, but this one writes the log", entry.Seq)
	}
	w.logUntil = entry.Time.Std()
	switch p := entry.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*corev1.Pod); ok && isFinished(pod) {
			w.ledger.forget(w.places[p.Resource], nameOf(pod))
			return nil
		}
		if *encoding, err = w.know(*encoding, p.Resource, p.Object); err != nil {
			return fmt.Errorf("entry %d: %w", entry.Seq, err)
		}
	case *eventlog.Deleted:
		if place, ok := w.places[p.Resource]; ok {
			w.ledger.forget(place, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return nil
}

// Lead says that this process writes the log from now on, and that the log has the objects that Known and Logged gave.
// Take returns the difference between the log and the cluster.
func (w *Watch) Lead() {
	if w.following.Swap(nil) == nil {
		return
	}
	if w.opts.Recording {
		w.leadRecording()
	}
	for place := range w.kinds {
		if cancel := w.again[place].Load(); w.ledger.lead(place) && cancel != nil {
			w.relist[place].Store(true)
			(*cancel)()
		}
	}
	w.changed()
}

// know notes the version that the log has now.
func (l *ledger) know(place int, name types.NamespacedName, v version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	if a == nil {
		a = &account{}
		l.books[place][name] = a
	}
	a.logged, a.known = v, true
	if a.wait != nil && a.wait.object != nil && a.wait.now == v {
		l.drop(a)
	}
}

// forget notes that the log no longer has an object of the name.
func (l *ledger) forget(place int, name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	if a == nil {
		return
	}
	a.logged, a.known = version{}, false
	if a.wait != nil && a.wait.object == nil {
		l.drop(a)
	}
	if a.wait != nil {
		a.wait.end = nil
	} else if !a.told {
		delete(l.books[place], name)
	}
}

// lead queues the differences that exist although the cluster reported no change since: objects that the log has and
// the cluster has not. It reports whether there are objects that the cluster has and the log has not, and that only a
// list will bring. It says nothing about a resource that was not listed: the resource's list will bring everything.
func (l *ledger) lead(place int) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[place].Lists == 0 {
		return false
	}
	var gone []types.NamespacedName
	for name, a := range l.books[place] { // any order: they are sorted
		switch {
		case a.wait != nil:
		case a.known && !a.told:
			gone = append(gone, name)
		case !a.known:
			again = true
		}
	}
	slices.SortFunc(gone, compareNames)
	for _, name := range gone {
		l.await(place, name, l.books[place][name])
	}
	return again
}
