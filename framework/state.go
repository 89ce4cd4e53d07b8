package framework

import (
	"maps"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
)

// CycleState carries plugins' data from one extension point to the next within one pod's cycle. It is not safe for
// concurrent writes. After PreScore several goroutines may read it.
//
// It replaces upstream's type of the same name, whose sync.Map takes twice as long to read. Plugins read it several
// times per node.
type CycleState struct {
	data []stateEntry
	// toActivate is the value of upstream's key PodsToActivateKey. It is nil until a plugin reads the key.
	toActivate atomic.Pointer[upstream.PodsToActivate]

	skipFilter, skipScore, skipPreBind, parallelPreBind nameSet
}

var _ fwk.CycleState = (*CycleState)(nil)

type stateEntry struct {
	key  fwk.StateKey
	data fwk.StateData
}

// NewCycleState returns an empty state for one cycle.
func NewCycleState() *CycleState { return &CycleState{} }

// usualEntries and usualSkips size the lists so that most of them never grow. Under the default profile, fewer plugins
// write entries for a pod without claims and volumes, and fewer ask to be skipped.
const (
	usualEntries = 12
	usualSkips   = 12
)

// Reset empties the state for another cycle. A caller that kept the earlier cycle's state sees it change.
func (c *CycleState) Reset() {
	clear(c.data)
	c.data = c.data[:0]
	c.toActivate.Store(nil)
	c.skipFilter.reset()
	c.skipScore.reset()
	c.skipPreBind.reset()
	c.parallelPreBind.reset()
}

// Read returns the data written under key, or fwk.ErrNotFound. Under upstream's key PodsToActivateKey there always is a
// *PodsToActivate, as in kube-scheduler.
func (c *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	for i := range c.data {
		if c.data[i].key == key {
			return c.data[i].data, nil
		}
	}
	if key == upstream.PodsToActivateKey {
		c.toActivate.CompareAndSwap(nil, upstream.NewPodsToActivate())
		return c.toActivate.Load(), nil
	}
	return nil, fwk.ErrNotFound
}

// ToActivate returns the pods that plugins have put under PodsToActivateKey, nil if there are none.
func (c *CycleState) ToActivate() map[string]*v1.Pod {
	stash := c.toActivate.Load()
	if stash == nil {
		return nil
	}
	stash.Lock()
	defer stash.Unlock()
	return maps.Clone(stash.Map)
}

// Write stores data under key. It replaces earlier data.
func (c *CycleState) Write(key fwk.StateKey, data fwk.StateData) {
	for i := range c.data {
		if c.data[i].key == key {
			c.data[i].data = data
			return
		}
	}
	if c.data == nil {
		c.data = make([]stateEntry, 0, usualEntries)
	}
	c.data = append(c.data, stateEntry{key, data})
}

// Delete removes the data under key.
func (c *CycleState) Delete(key fwk.StateKey) {
	c.data = slices.DeleteFunc(c.data, func(e stateEntry) bool { return e.key == key })
}

// Clone returns a copy with clones of the data, nil for nil.
func (c *CycleState) Clone() fwk.CycleState {
	if c == nil {
		return nil
	}
	out := &CycleState{
		data:            make([]stateEntry, len(c.data)),
		skipFilter:      c.skipFilter.clone(),
		skipScore:       c.skipScore.clone(),
		skipPreBind:     c.skipPreBind.clone(),
		parallelPreBind: c.parallelPreBind.clone(),
	}
	for i, e := range c.data {
		out.data[i] = stateEntry{e.key, e.data.Clone()}
	}
	out.toActivate.Store(c.toActivate.Load()) // clones share it, as in upstream
	return out
}

// ShouldRecordPluginMetrics always returns false, because nothing is measured inside a cycle.
func (c *CycleState) ShouldRecordPluginMetrics() bool { return false }

// GetSkipFilterPlugins returns the plugins whose Filter this cycle skips.
func (c *CycleState) GetSkipFilterPlugins() sets.Set[string] { return c.skipFilter.get() }

// SetSkipFilterPlugins sets the plugins whose Filter this cycle skips.
func (c *CycleState) SetSkipFilterPlugins(plugins sets.Set[string]) { c.skipFilter.put(plugins) }

// GetSkipScorePlugins returns the plugins whose Score this cycle skips.
func (c *CycleState) GetSkipScorePlugins() sets.Set[string] { return c.skipScore.get() }

// SetSkipScorePlugins sets the plugins whose Score this cycle skips.
func (c *CycleState) SetSkipScorePlugins(plugins sets.Set[string]) { c.skipScore.put(plugins) }

// GetSkipPreBindPlugins returns the plugins whose PreBind this cycle skips.
func (c *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return c.skipPreBind.get() }

// SetSkipPreBindPlugins sets the plugins whose PreBind this cycle skips.
func (c *CycleState) SetSkipPreBindPlugins(plugins sets.Set[string]) { c.skipPreBind.put(plugins) }

// GetParallelPreBindPlugins returns the plugins that allow other plugins to run in PreBind at the same time.
func (c *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return c.parallelPreBind.get() }

// SetParallelPreBindPlugins sets the plugins that allow other plugins to run in PreBind at the same time.
func (c *CycleState) SetParallelPreBindPlugins(plugins sets.Set[string]) {
	c.parallelPreBind.put(plugins)
}

// ShouldSkipAllPostFilterPlugins always returns false. It is for upstream's own pod group cycle.
func (c *CycleState) ShouldSkipAllPostFilterPlugins() bool { return false }

// IsPodGroupSchedulingCycle always returns false, because gangs are scheduled pod by pod and completed in Permit.
func (c *CycleState) IsPodGroupSchedulingCycle() bool { return false }

// GetPodGroupSchedulingCycle always returns nil.
func (c *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return nil }

// GetPlacementCycleState always returns nil.
func (c *CycleState) GetPlacementCycleState() fwk.PlacementCycleState { return nil }

// nameSet is a set of plugin names. It becomes a map only when a plugin asks for it.
type nameSet struct {
	names []string
	set   sets.Set[string]
}

func (n *nameSet) reset() {
	n.names = n.names[:0]
	n.set = nil
}

func (n *nameSet) add(name string) {
	if n.names == nil {
		n.names = make([]string, 0, usualSkips)
	}
	n.names = append(n.names, name)
	n.set = nil
}

func (n *nameSet) put(set sets.Set[string]) {
	n.names = append(n.names[:0], sets.List(set)...)
	n.set = set
}

func (n *nameSet) get() sets.Set[string] {
	if n.set == nil && len(n.names) > 0 {
		n.set = sets.New(n.names...)
	}
	return n.set
}

func (n *nameSet) clone() nameSet { return nameSet{names: slices.Clone(n.names), set: n.set} }
