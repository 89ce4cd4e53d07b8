package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
)

// Options configure a Watch.
type Options struct {
	// Client lists and watches everything but custom resources, and discovers what the API server has. It should ask
	// for protobuf.
	Client kubernetes.Interface
	// Config tells how to reach the API server for custom resources; its content types are not used.
	Config *rest.Config
	// Own are the resources that the configuration declares because plugins read them, as eventlog.CompleteOwn returns
	// them.
	Own []eventlog.OwnResource
	// Known yields the objects of the recovered state, as cluster.State.Objects gives them; nil for none. New reads it
	// to its end.
	Known iter.Seq2[eventlog.Resource, eventlog.Object]
	// Following says that another process writes the log meanwhile: Logged reports its entries, after the objects of
	// Known, and Lead says when this process writes it. Take returns nothing before.
	Following bool
	// Recording says that others decide: the log also has who has done what to a pod (eventlog.Encoder.Recording).
	Recording bool
	// Recorded says where a recorder continues its watches. With Following it has only the time of the last entry.
	Recorded Recorded
	// WholeNodes has nodes kept as they are, see Watch.Whole.
	WholeNodes bool
	// Report receives, in a line each, the facts that a person should know; nil is not called. It is called from
	// several goroutines, one at a time.
	Report func(message string)
}

// A Watch returns the changes in a cluster as inputs. Its methods may be called by several goroutines.
type Watch struct {
	opts   Options
	kinds  []kind
	places map[eventlog.Resource]int // in kinds
	custom dynamic.Interface
	timing timing
	ledger *ledger
	pods   pods
	// whole holds the objects that are kept as they are, by the resource's place in kinds; nil for one that is not.
	whole []cache.Indexer

	started   atomic.Bool
	wake      chan struct{}
	synced    chan struct{}
	first     sync.Mutex
	unlisted  map[eventlog.Resource]bool // resources whose first list is not in
	reporting sync.Mutex
	troubles  troubles
	served    served
	pacing    pacing
	// following is the encoding of the logged objects, while another process writes the log; nil if none does.
	following atomic.Pointer[[]byte]
	// logUntil is the time of the last entry that another process has logged.
	logUntil time.Time
	// again ends the watch of a resource, by its place in kinds: a list follows.
	again []atomic.Pointer[context.CancelFunc]
	// relist says that the next attempt lists, and does not continue the watch; by place in kinds.
	relist []atomic.Bool
}

// New returns a Watch that has read Known.
func New(opts Options) (*Watch, error) {
	all := kindsWith(opts.Own)
	w := &Watch{
		opts:     opts,
		kinds:    all,
		places:   map[eventlog.Resource]int{},
		timing:   usualTiming,
		ledger:   newLedger(all),
		pods:     pods{byUID: map[types.UID]Pod{}},
		whole:    make([]cache.Indexer, len(all)),
		wake:     make(chan struct{}, 1),
		synced:   make(chan struct{}),
		unlisted: map[eventlog.Resource]bool{},
		again:    make([]atomic.Pointer[context.CancelFunc], len(all)),
		relist:   make([]atomic.Bool, len(all)),
	}
	if opts.Following {
		w.following.Store(new([]byte))
		w.logUntil = opts.Recorded.Until
	}
	if opts.Recording {
		w.record()
	}
	w.opts.Report = func(message string) {
		w.reporting.Lock()
		defer w.reporting.Unlock()
		if opts.Report != nil {
			opts.Report(message)
		}
	}
	if opts.Client == nil || opts.Config == nil {
		return nil, errors.New("a watch needs a client and its configuration")
	}
	config := rest.CopyConfig(opts.Config)
	config.ContentConfig = rest.ContentConfig{}
	config.WarningHandler = rest.NoWarnings{}
	var err error
	if w.custom, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("a client for custom resources: %w", err)
	}
	for i, k := range w.kinds {
		w.places[k.resource] = i
		w.unlisted[k.resource] = true
		if k.whole || opts.WholeNodes && k.resource == eventlog.Nodes {
			w.whole[i] = cache.NewIndexer(cache.MetaNamespaceKeyFunc,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		}
	}
	if opts.Known == nil {
		return w, nil
	}
	var encoding []byte
	for res, obj := range opts.Known {
		if encoding, err = w.know(encoding, res, obj); err != nil {
			return nil, fmt.Errorf("the recovered state: %w", err)
		}
	}
	return w, nil
}

// know takes in that the log has an object. encoding is memory, which is returned.
func (w *Watch) know(encoding []byte, res eventlog.Resource, obj eventlog.Object) ([]byte, error) {
	place, ok := w.places[res]
	if !ok {
		return encoding, fmt.Errorf("it has %s, which are not watched", res)
	}
	encoding, err := eventlog.AppendObject(encoding[:0], cluster.BoundNumbers(obj))
	if err != nil {
		return encoding, fmt.Errorf("%s %s: %w", res, nameOf(obj), err)
	}
	w.ledger.know(place, nameOf(obj), version{uid: obj.GetUID(), sum: digestOf(encoding)})
	return encoding, nil
}

// Run watches until ctx ends, and returns when all its goroutines are gone. It can be called once. No answer of the API
// server ends it: a failure is reported and tried again.
func (w *Watch) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		return errors.New("run a watch: it was run before")
	}
	if len(w.opts.Recorded.Positions) > 0 {
		w.checkCluster(withoutLogger(ctx))
	}
	var all sync.WaitGroup
	for place := range w.kinds {
		all.Go(func() { w.reflect(withoutLogger(ctx), place) })
	}
	all.Wait()
	return nil
}

// Synced returns a channel that is closed once every first list is in, of the resources that the API server has.
func (w *Watch) Synced() <-chan struct{} { return w.synced }

// Changed returns a channel from which one receives when there is something to take: one message for any number of
// changes. Nothing comes before Synced. It is for one receiver.
func (w *Watch) Changed() <-chan struct{} { return w.wake }

// Take returns the changes since the last call, as inputs: Upserted and Deleted. From then on the log has them: the
// caller must not lose them. Before Synced there are none. The inputs of the first call bring the recovered state to
// the state of the cluster. A recorder takes ten times a second at most: changes that come meanwhile are not merged.
func (w *Watch) Take() []eventlog.Payload {
	if w.following.Load() != nil {
		return nil
	}
	select {
	case <-w.synced:
	default:
		return nil
	}
	if w.opts.Recording && w.pacing.tooEarly(w.changed) {
		return nil
	}
	return w.ledger.take()
}

// Pod returns a pod as the API server reported it last; false for one that is finished or gone.
func (w *Watch) Pod(uid types.UID) (Pod, bool) { return w.pods.get(uid) }

// Node reports whether the cluster has the node, by the last report of the API server.
func (w *Watch) Node(name string) bool {
	return w.ledger.has(places[eventlog.Nodes], types.NamespacedName{Name: name})
}

// Whole returns an object as the API server reported it last, with everything but its managed fields; nil if there is
// none. It has volumes, claims and the three kinds of pod groups, nodes with WholeNodes, and nothing else. The object
// must not be changed.
func (w *Watch) Whole(res eventlog.Resource, namespace, name string) eventlog.Object {
	place, ok := w.places[res]
	if !ok || w.whole[place] == nil {
		return nil
	}
	key := cache.NewObjectName(namespace, name).String()
	object, ok, err := w.whole[place].GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return object.(eventlog.Object)
}

// Volumes lists whole PersistentVolumes, see Whole.
func (w *Watch) Volumes() corelisters.PersistentVolumeLister {
	return corelisters.NewPersistentVolumeLister(w.whole[places[eventlog.PersistentVolumes]])
}

// Claims lists whole PersistentVolumeClaims, see Whole.
func (w *Watch) Claims() corelisters.PersistentVolumeClaimLister {
	return corelisters.NewPersistentVolumeClaimLister(w.whole[places[eventlog.PersistentVolumeClaims]])
}

// Counts returns the counts of every resource, in the order of the reconciling step.
func (w *Watch) Counts() iter.Seq2[eventlog.Resource, Counts] {
	return func(yield func(eventlog.Resource, Counts) bool) {
		for place, k := range w.kinds {
			if !yield(k.resource, w.ledger.counts(place)) {
				return
			}
		}
	}
}

// Waiting returns the number of objects that differ from their version in the log.
func (w *Watch) Waiting() int { return w.ledger.waits() }

// changed says that there may be something to take.
func (w *Watch) changed() {
	select {
	case <-w.synced:
	default:
		return
	}
	if !w.ledger.hasNews() {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // one is waiting to be received
	}
}

// listed notes that the first list of a resource is in, or that there is none to come.
func (w *Watch) listed(place int) {
	w.first.Lock()
	defer w.first.Unlock()
	res := w.kinds[place].resource
	if !w.unlisted[res] {
		return
	}
	delete(w.unlisted, res)
	if len(w.unlisted) == 0 {
		close(w.synced)
		w.changed()
	}
}
