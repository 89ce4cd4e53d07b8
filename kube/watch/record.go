package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A recorder continues each watch from the last resourceVersion in its log (eventlog.Watched), so that no change is
// missing. Only if the API server no longer has the changes since then, the recorder lists. The log says so.

// reasons of eventlog.Missing.
const (
	reasonStart   = "the log does not say up to which resourceVersion it has the changes"
	reasonExpired = "the API server no longer has the changes since the last one"
	reasonTaken   = "another recorder wrote the log before"
	reasonAbsent  = "the API server did not have the resource for a while"
	reasonMany    = "too many changes waited at once: only the last one of each object is there"
)

// positions are a recorder's. The ledger's lock guards them.
type positions struct {
	// tracked says that this process records, and on that it also writes the log.
	tracked, on bool
	// now and logged are the resourceVersions up to which the ledger and the log have the changes, by the resource's
	// place; "" for none. seen is the time of the last change or bookmark.
	now, logged []string
	seen        []time.Time
	missing     map[int]eventlog.Missing
	// full is the time of the last Watched with all positions, and takenAt the time of the last Take.
	full, takenAt time.Time
	// listed says that a resource was listed. pending is the time since which its first list must say that changes may
	// be missing: another recorder wrote the log until then.
	listed  []bool
	pending []time.Time
	// stale says that the log has a position that does not count any more: a Watched with all positions has to follow.
	stale bool
}

// fullEvery is the longest time between two Watched with all positions, if any position changes. The API server sends a
// bookmark about every minute.
const fullEvery = time.Minute

// reached notes that the ledger has all changes of a resource up to a resourceVersion. Callers hold the lock.
func (p *positions) reached(place int, version string) {
	if p.tracked && version != "" {
		p.now[place], p.seen[place] = version, time.Now()
	}
}

// forget notes that the ledger has a state of a resource that no resourceVersion has: its watch cannot continue behind
// it. Callers hold the lock.
func (p *positions) forget(place int) {
	if p.tracked {
		p.now[place], p.stale = "", p.stale || p.logged[place] != ""
	}
}

// lack notes that changes of a resource may be missing since a time. Callers hold the lock.
func (p *positions) lack(place int, res eventlog.Resource, since time.Time, reason string) {
	if !p.on || since.IsZero() {
		return
	}
	if _, known := p.missing[place]; known {
		return // since an earlier time
	}
	if p.missing == nil {
		p.missing = map[int]eventlog.Missing{}
	}
	p.missing[place] = eventlog.Missing{Resource: res, Since: eventlog.TimeOf(since), Reason: reason}
}

// take returns the Watched behind a number of inputs; nil if there is nothing to say. Callers hold the lock.
func (p *positions) take(kinds []kind, inputs int) *eventlog.Watched {
	if !p.on {
		return nil
	}
	p.takenAt = time.Now()
	changed := false
	for place := range p.now {
		changed = changed || p.now[place] != p.logged[place]
	}
	full := p.stale || changed && time.Since(p.full) >= fullEvery
	if !full && len(p.missing) == 0 && (inputs == 0 || !changed) {
		return nil
	}
	out := &eventlog.Watched{Full: full}
	for place, version := range p.now {
		if version != "" && (full || version != p.logged[place]) {
			out.Positions = append(out.Positions, eventlog.Position{Resource: kinds[place].resource, Version: version})
		}
		if m, ok := p.missing[place]; ok {
			out.Missing = append(out.Missing, m)
		}
	}
	if len(out.Positions)+len(out.Missing) == 0 {
		return nil // the next one has something to say
	}
	if copy(p.logged, p.now); full {
		p.full, p.stale = time.Now(), false
	}
	p.missing = nil
	slices.SortFunc(out.Positions, func(a, b eventlog.Position) int {
		return strings.Compare(string(a.Resource), string(b.Resource))
	})
	slices.SortFunc(out.Missing, func(a, b eventlog.Missing) int {
		return strings.Compare(string(a.Resource), string(b.Resource))
	})
	return out
}

// isDue reports whether positions alone are worth an entry. Callers hold the lock.
func (p *positions) isDue() bool {
	return p.on && (len(p.missing) > 0 || time.Since(p.full) >= fullEvery && !slices.Equal(p.now, p.logged))
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (s *store) Bookmark(version string) error {
	if s.watch.opts.Recording {
		s.reached(version)
		s.watch.changed()
	}
	return nil
}

// reached notes that everything up to a resourceVersion is in the ledger.
func (s *store) reached(version string) {
	if s.watch.opts.Recording && version != "" {
		s.position = version
		s.watch.ledger.reached(s.place, version)
	}
}

// continued is the store of a watch that continues: the list in front of it is empty, and no list.
type continued struct{ *store }

// Replace implements cache.ReflectorStore.
func (c continued) Replace([]any, string) error {
	c.watch.listed(c.place)
	return nil
}

// Transformer implements cache.TransformingStore. The list in front of the watch has nothing to transform.
func (c continued) Transformer() cache.TransformFunc { return nil }

// resumable returns the watch of lw behind a list that is empty and has the resourceVersion of the store.
func (s *store) resumable(lw cache.ListerWatcher) cache.ListerWatcher {
	version := s.position
	list := func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}, nil
	}
	return plainList{&cache.ListWatch{
		ListWithContextFunc: list, WatchFuncWithContext: cache.ToListerWatcherWithContext(lw).WatchWithContext,
	}}
}

// noticing returns the source with watches that set lost to the API server's answer when it no longer has the changes.
func (s source) noticing(lost *atomic.Pointer[error]) source {
	watch := s.watch
	s.watch = func(ctx context.Context, opts metav1.ListOptions) (apiwatch.Interface, error) {
		w, err := watch(ctx, opts)
		if err != nil {
			if isExpired(err) {
				lost.Store(&err)
			}
			return w, err
		}
		return apiwatch.Filter(w, func(e apiwatch.Event) (apiwatch.Event, bool) {
			if e.Type == apiwatch.Error {
				if err := apierrors.FromObject(e.Object); isExpired(err) {
					lost.Store(&err)
				}
			}
			return e, true
		}), nil
	}
	return s
}

// plainList is a ListerWatcher whose list is not streamed.
type plainList struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported says so to client-go.
func (plainList) IsWatchListSemanticsUnSupported() bool { return true }

// lose notes that the watch cannot continue. The next list has the state, and changes since the last one may be
// missing.
func (s *store) lose(why *error) {
	if s.position == "" {
		return
	}
	if s.since, s.why = s.watch.ledger.seenAt(s.place), reasonExpired; why != nil {
		s.answer = fmt.Sprintf(" (from version %s: %v)", s.position, *why)
	}
	s.position = ""
}

// lacked notes that the API server says that it does not have the resource. known says that the log has objects of it.
// If the log has nothing at all of the resource, nothing can be missing.
func (s *store) lacked(known bool) {
	if s.lose(nil); s.why == reasonExpired && s.answer == "" {
		s.why = reasonAbsent
	}
	_, recorded := s.watch.opts.Recorded.Positions[s.kind.resource]
	if s.why == reasonStart && !known && !recorded {
		s.since = time.Time{}
	}
}

// returns notes that the resource counts as gone since a time: what happens before the next list may be missing.
func (s *store) returns(since time.Time) {
	if s.watch.opts.Recording {
		s.since, s.why = since, reasonAbsent
	}
}

// record makes the ledger a recorder's, and lets the stores continue from a log.
func (w *Watch) record() {
	p, from := &w.ledger.positions, w.opts.Recorded
	p.tracked, p.on = true, !w.opts.Following
	p.now, p.logged = make([]string, len(w.kinds)), make([]string, len(w.kinds))
	p.seen = make([]time.Time, len(w.kinds))
	p.listed, p.pending = make([]bool, len(w.kinds)), make([]time.Time, len(w.kinds))
	for place, k := range w.kinds {
		version, logged := from.Positions[k.resource]
		p.now[place], p.seen[place], p.stale = version, from.Until, p.stale || logged && version == ""
	}
	copy(p.logged, p.now)
	// The changes since the log's end come in their order: they are not sorted.
	w.ledger.taken = p.on && len(from.Positions) > 0
}

// continueFrom gives a new store its position.
func (s *store) continueFrom(from Recorded) {
	if !s.watch.opts.Recording || s.watch.following.Load() != nil {
		return
	}
	if s.position = from.Positions[s.kind.resource]; s.position == "" {
		s.since, s.why = from.Until, reasonStart
	}
}

// leadRecording makes a recorder that followed another one write the log. It has merged changes until now.
func (w *Watch) leadRecording() {
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.positions.on = l.positions.tracked
	for place, k := range w.kinds {
		if l.positions.listed[place] {
			l.positions.lack(place, k.resource, w.logUntil, reasonTaken)
		} else {
			l.positions.pending[place] = w.logUntil
		}
	}
}

// checkCluster drops the positions if the API server is another cluster's: resourceVersions of the two mean nothing to
// each other. The namespace kube-system tells.
func (w *Watch) checkCluster(ctx context.Context) {
	place := places[eventlog.Namespaces]
	logged := w.ledger.uidOf(place, types.NamespacedName{Name: metav1.NamespaceSystem})
	if logged == "" {
		return
	}
	delay := w.timing.backoff()
	for ctx.Err() == nil {
		list, err := w.opts.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + metav1.NamespaceSystem, ResourceVersion: "0",
		})
		if ctx.Err() != nil {
			return
		}
		w.told(place, "list", err)
		if err != nil {
			sleep(ctx, delay.Step())
			continue
		}
		if len(list.Items) != 1 || list.Items[0].UID != logged {
			w.opts.Report("the API server is of another cluster than the log: everything is listed")
			w.opts.Recorded.Positions = nil
			w.record()
		}
		return
	}
}

// uidOf returns the UID of the object of a name that the log has, "" for none.
func (l *ledger) uidOf(place int, name types.NamespacedName) types.UID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.books[place][name]; a != nil && a.known {
		return a.logged.uid
	}
	return ""
}

func (l *ledger) reached(place int, version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.positions.reached(place, version)
}

func (l *ledger) forgetPosition(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.positions.forget(place)
}

// firstList notes that a resource was listed, and says what may be missing before its first list.
func (l *ledger) firstList(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.positions
	p.lack(place, l.kinds[place].resource, p.pending[place], reasonTaken)
	p.listed[place], p.pending[place] = true, time.Time{}
}

func (l *ledger) seenAt(place int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.positions.seen[place]
}

func (l *ledger) lack(place int, since time.Time, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.positions.lack(place, l.kinds[place].resource, since, reason)
}

// together makes the changes of the ledger, until the returned function is called, come with one Take. So a recorder's
// position comes behind its changes.
func (s *store) together() func() {
	if !s.watch.opts.Recording {
		return func() {}
	}
	s.watch.ledger.whole.RLock()
	return s.watch.ledger.whole.RUnlock
}

// relisted notes that a list has the state of a version. It is "" if the resource counts as gone.
func (s *store) relisted(version string) {
	if !s.watch.opts.Recording {
		return
	}
	s.watch.ledger.firstList(s.place)
	if !s.since.IsZero() {
		s.watch.ledger.lack(s.place, s.since, s.why)
		s.watch.opts.Report(fmt.Sprintf("%s: changes since %s may be missing: %s%s", s.kind.resource,
			s.since.UTC().Format(time.RFC3339), s.why, s.answer))
	}
	s.since, s.why, s.answer = time.Time{}, "", ""
	if version == "" {
		s.position = ""
		s.watch.ledger.forgetPosition(s.place)
	}
	s.reached(version)
}

// maxWaiting is the largest number of changes that a recorder has waiting. Beyond that it merges the changes of one
// object, and its log says so.
const maxWaiting = 1 << 16

// keepsAll reports whether every change comes by itself. Callers hold the lock.
func (l *ledger) keepsAll() bool { return l.positions.on && l.size < maxWaiting }

// merged notes that a change of a resource takes the place of an earlier one that waited. Callers hold the lock.
func (l *ledger) merged(place int) {
	l.count[place].Coalesced++
	l.positions.lack(place, l.kinds[place].resource, l.positions.takenAt, reasonMany)
}

// latest returns the version of an account that the log has, or will have with the changes that wait. It is zero if
// there is none. Callers hold the lock.
func (l *ledger) latest(a *account) version {
	switch {
	case l.positions.on && a.wait != nil:
		return a.wait.now
	case a.known:
		return a.logged
	}
	return version{}
}

// removeFinished notes that a pod is deleted that had finished. A recorder logs it, and others have forgotten the pod.
func (l *ledger) removeFinished(place int, name types.NamespacedName, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.positions.on {
		return
	}
	w := &waiting{place: place, name: name, account: &account{known: true, logged: version{uid: uid}}}
	w.account.wait = w
	l.size++
	w.prev, w.next = l.queue.prev, &l.queue
	w.prev.next, w.next.prev = w, w
}

// hasNews reports whether there is something to take.
func (l *ledger) hasNews() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size > 0 || l.positions.isDue()
}

// pace is the time between two Takes of a recorder. Nobody waits for its entries, and each batch of them costs a write
// to the disk.
const pace = 100 * time.Millisecond

// pacing keeps a recorder's Takes apart.
type pacing struct {
	mu    sync.Mutex
	last  time.Time // of a Take that was not too early
	armed bool      // there will be a call when it is time
}

// tooEarly reports whether a Take comes too soon after the last one. In that case it calls again when it is time.
func (p *pacing) tooEarly(again func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	wait := p.last.Add(pace).Sub(now)
	if wait <= 0 {
		p.last = now
		return false
	}
	if !p.armed {
		p.armed = true
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			p.armed = false
			p.mu.Unlock()
			again()
		})
	}
	return true
}
