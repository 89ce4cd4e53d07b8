package watch

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// digest identifies an object's trimmed encoding.
type digest [16]byte

// version identifies an object and the parts of it that scheduling reads.
type version struct {
	uid types.UID
	sum digest
}

// A ledger holds, by resource and name, the versions that the log has and the changes that wait to be taken. Only one
// goroutine at a time may report changes of a resource; all else may happen concurrently.
type ledger struct {
	mu    sync.Mutex
	kinds []kind
	// books is by the resource's place in the order.
	books []map[types.NamespacedName]*account
	// queue holds the waiting changes, in the order of the latest change: a ring, of which this is the start and end.
	queue waiting
	size  int
	taken bool // the reconciling step is done
	count []Counts
	// positions are a recorder's. A Take holds whole alone: changes that are made under it come together.
	positions positions
	whole     sync.RWMutex
}

// An account holds the facts about one name.
type account struct {
	logged version // what the log has, if it has one
	known  bool
	told   bool     // the cluster has it, by its last report
	wait   *waiting // nil: the log has the cluster's version, or is about to, see follow.go
}

// waiting is a difference between the cluster and the log.
type waiting struct {
	prev, next *waiting
	place      int // of the resource in the order
	name       types.NamespacedName
	account    *account
	// end is the final state of the pod that the log has; nil if that is not known, or the pod has not ended.
	end *corev1.Pod
	// object is the object in the cluster, as it will be logged; nil if there is none.
	object eventlog.Object
	now    version // of object
}

func newLedger(all []kind) *ledger {
	l := &ledger{
		kinds: all, books: make([]map[types.NamespacedName]*account, len(all)), count: make([]Counts, len(all)),
	}
	for i := range l.books {
		l.books[i] = map[types.NamespacedName]*account{}
	}
	l.queue.prev, l.queue.next = &l.queue, &l.queue
	return l
}

// isLogged reports whether the log has version v, and no change waits. Unless another process writes the log, it stays
// so until the next change, which only the caller reports for this resource.
func (l *ledger) isLogged(place int, name types.NamespacedName, v version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	return a != nil && a.wait == nil && a.known && a.logged == v
}

// has reports whether the cluster has an object of the name, by its last report.
func (l *ledger) has(place int, name types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	return a != nil && (a.wait == nil && a.known || a.wait != nil && a.wait.object != nil)
}

// knows reports whether the log has an object of the name and UID.
func (l *ledger) knows(place int, name types.NamespacedName, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	return a != nil && l.latest(a) != (version{}) && l.latest(a).uid == uid
}

// upsert takes in that the cluster has an object. It may be nil if isLogged has just said that the log has it.
func (l *ledger) upsert(place int, name types.NamespacedName, v version, object eventlog.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := &l.count[place]
	a := l.books[place][name]
	if a != nil {
		a.told = true
	}
	switch {
	case a == nil:
	case a.wait == nil && a.known && a.logged == v, a.wait != nil && a.wait.object != nil && a.wait.now == v:
		count.Unchanged++
		return
	case a.known && a.logged == v && !l.positions.on: // several changes of a recorder's object may wait
		count.Coalesced++
		l.drop(a)
		return
	}
	if object == nil {
		panic("watch: a change of " + name.String() + " without the object")
	}
	if a == nil {
		a = &account{told: true}
		l.books[place][name] = a
	}
	w := l.await(place, name, a)
	w.object, w.now = object, v
}

// remove notes that the cluster has no object of the name. If end is not nil, it is the final state of the pod of that
// name.
func (l *ledger) remove(place int, name types.NamespacedName, end *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.books[place][name]
	if a == nil {
		l.count[place].Unchanged++ // of a finished pod
		return
	}
	a.told = false
	there := a.known
	if l.positions.on && a.wait != nil {
		there = a.wait.object != nil
	}
	if !there && l.positions.on {
		return
	}
	if !there { // it came and went
		l.count[place].Coalesced++
		if a.wait != nil {
			l.drop(a)
		}
		delete(l.books[place], name)
		return
	}
	if end != nil && l.latest(a).uid != end.UID {
		end = nil
	}
	if a.wait != nil && a.wait.object == nil && (end == nil || a.wait.end != nil) {
		return
	}
	w := l.await(place, name, a)
	w.object, w.now = nil, version{}
	if end != nil {
		w.end = end
	}
}

// names returns the names that the cluster had at the last report about this resource.
func (l *ledger) names(place int) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]types.NamespacedName, 0, len(l.books[place]))
	// any order: they are taken away one by one, and the queue's order is of all
	for name, a := range l.books[place] {
		if a.wait == nil || a.wait.object != nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	return names
}

// await returns the waiting change of the account, at the end of the queue. It is a new one if every change is kept.
func (l *ledger) await(place int, name types.NamespacedName, a *account) *waiting {
	w := a.wait
	switch {
	case w == nil || l.keepsAll():
		w = &waiting{place: place, name: name, account: a}
		a.wait = w
		l.size++
	default:
		l.merged(place)
		w.unlink()
	}
	w.prev, w.next = l.queue.prev, &l.queue
	w.prev.next, w.next.prev = w, w
	return w
}

func (w *waiting) unlink() { w.prev.next, w.next.prev = w.next, w.prev }

// drop lets nothing wait of the account.
func (l *ledger) drop(a *account) {
	a.wait.unlink()
	a.wait = nil
	l.size--
}

// waits returns how many objects wait.
func (l *ledger) waits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// take returns the waiting changes as inputs: from now on the log has them.
func (l *ledger) take() []eventlog.Payload {
	l.whole.Lock()
	defer l.whole.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	inputs := l.takeChanges()
	if p := l.positions.take(l.kinds, len(inputs)); p != nil {
		inputs = append(inputs, p)
	}
	return inputs
}

func (l *ledger) takeChanges() []eventlog.Payload {
	if l.size == 0 {
		l.taken = true
		return nil
	}
	all := make([]*waiting, 0, l.size)
	for w := l.queue.next; w != &l.queue; w = w.next {
		all = append(all, w)
	}
	l.queue.prev, l.queue.next, l.size = &l.queue, &l.queue, 0
	if !l.taken {
		slices.SortStableFunc(all, func(a, b *waiting) int {
			return cmp.Or(cmp.Compare(l.turn(a.place), l.turn(b.place)), compareNames(a.name, b.name))
		})
		l.taken = true
	}
	inputs := make([]eventlog.Payload, 0, len(all))
	for _, w := range all {
		inputs = l.settle(inputs, w)
	}
	return inputs
}

// turn returns when a resource has its turn in the reconciling step: first the resources that plugins read, since pods
// may wait for them.
func (l *ledger) turn(place int) int {
	if l.kinds[place].own != nil {
		return place - len(l.kinds)
	}
	return place
}

// settle appends the waiting changes as inputs, and books them as logged.
func (l *ledger) settle(inputs []eventlog.Payload, w *waiting) []eventlog.Payload {
	a, resource, count := w.account, l.kinds[w.place].resource, &l.count[w.place]
	if a.known && (w.object == nil || w.now.uid != a.logged.uid) {
		if w.end != nil && w.end.UID == a.logged.uid {
			inputs = append(inputs, &eventlog.Upserted{Resource: resource, Object: w.end})
			count.Upserted++
		} else {
			inputs = append(inputs, &eventlog.Deleted{
				Resource: resource, Namespace: w.name.Namespace, Name: w.name.Name, UID: a.logged.uid,
			})
			count.Deleted++
		}
	}
	if w.object != nil {
		inputs = append(inputs, &eventlog.Upserted{Resource: resource, Object: w.object})
		count.Upserted++
	}
	if a.logged, a.known = w.now, w.object != nil; a.wait == w {
		a.wait = nil
	}
	if !a.known && a.wait == nil && l.books[w.place][w.name] == a {
		delete(l.books[w.place], w.name)
	}
	return inputs
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
