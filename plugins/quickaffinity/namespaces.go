package quickaffinity

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// namespaces has the labels of the namespaces, by name, as the counts rest on them.
type namespaces struct {
	lister corelisters.NamespaceLister
	labels map[string]labels.Set
	news   *namespaceNews
	listed int // how often all were listed, ever: the news saves that
}

// namespaceNews names the namespaces that have changed since the last take. The informer calls tell. kube-scheduler
// runs it in a goroutine of its own, and Rollcall within the change.
type namespaceNews struct {
	some  atomic.Bool
	mutex sync.Mutex
	names map[string]bool
	all   bool // they are too many to be named

	ended func() error // an error: the plugin is no longer in use
	leave func()       // takes the handler away from the informer
}

// maxNews bounds how many namespaces are named. When more have changed, update lists all.
const maxNews = 1024

// namespaceChange is a namespace that has other labels than before, or has come or gone.
type namespaceChange struct {
	name          string
	before, after labels.Set
	was, is       bool // it is there
}

// watch follows the namespaces until the context ends.
func watch(ctx context.Context, informer cache.SharedIndexInformer) (*namespaceNews, error) {
	n := &namespaceNews{all: true, ended: ctx.Err}
	n.some.Store(true)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    n.tell,
		UpdateFunc: func(_, now any) { n.tell(now) },
		DeleteFunc: n.tell,
	})
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.leave = func() { _ = informer.RemoveEventHandler(registration) } // if it fails, tell returns early
	return n, err
}

func (n *namespaceNews) tell(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.ended() != nil {
		n.leave()
		return
	}
	if namespace, ok := obj.(*v1.Namespace); !ok || len(n.names) == maxNews {
		n.all, n.names = true, nil
	} else if !n.all {
		if n.names == nil {
			n.names = map[string]bool{}
		}
		n.names[namespace.Name] = true
	}
	n.some.Store(true)
}

// take returns the names of the changed namespaces; all says that any may have changed.
func (n *namespaceNews) take() (names map[string]bool, all bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	names, all = n.names, n.all
	n.names, n.all = nil, false
	n.some.Store(false)
	return names, all
}

// update reads the namespaces that may have changed, and returns the changes.
func (n *namespaces) update() (changes []namespaceChange, err error) {
	if !n.news.some.Load() {
		return nil, nil
	}
	names, all := n.news.take()
	if all {
		if names, err = n.list(); err != nil {
			n.news.tell(nil) // the next update tries again
			return nil, err
		}
	}
	if n.labels == nil {
		n.labels = map[string]labels.Set{}
	}
	// any order: each change is judged by itself
	for name := range names {
		c := namespaceChange{name: name}
		c.before, c.was = n.labels[name]
		now, err := n.lister.Get(name) // the only error is that there is none
		if c.is = err == nil; c.is {
			c.after = now.Labels
			n.labels[name] = c.after
		} else {
			delete(n.labels, name)
		}
		if c.was != c.is || !maps.Equal(c.before, c.after) {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// list returns the names of all namespaces, also of the ones that are gone since.
func (n *namespaces) list() (map[string]bool, error) {
	n.listed++
	list, err := n.lister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(list))
	for _, namespace := range list {
		names[namespace.Name] = true
	}
	// any order: it is a set
	for name := range n.labels {
		names[name] = true
	}
	return names, nil
}

// changes reports whether the namespace changes what a pod asks: its own namespace's labels, which other pods' terms
// may select, or the namespaces that its own terms select.
func (c *namespaceChange) changes(q *question) bool {
	if q.pod.Namespace == c.name && !maps.Equal(c.before, c.after) {
		return true
	}
	for _, s := range q.selectors {
		if (c.was && s.Matches(c.before)) != (c.is && s.Matches(c.after)) {
			return true
		}
	}
	return false
}
