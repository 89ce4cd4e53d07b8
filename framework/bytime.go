package framework

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// ByTime may be implemented by a plugin of others whose answers go by the handle's Now: what it refuses now it may take
// later, although nothing has changed. What such a plugin refused, or keeps out of the queue in PreEnqueue, is tried
// again after five minutes, as everything is by kube-scheduler. Of other plugins an answer about the same state is the
// same, and not asked for again.
type ByTime interface {
	// AnswersGoByTime says so. Its answer must not change.
	AnswersGoByTime() bool
}

func goesByTime(plugin any) bool {
	p, ok := plugin.(ByTime)
	return ok && p.AnswersGoByTime()
}

// ByTime returns the plugins whose answers go by time, by name.
func (p *Profile) ByTime() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		if goesByTime(p.plugins[name]) {
			names = append(names, name)
		}
	}
	return names
}

// GatesByTime reports whether one of them may keep pods out of the queue.
func (p *Profile) GatesByTime() bool {
	return slices.ContainsFunc(p.preEnqueue, func(e fwk.PreEnqueuePlugin) bool { return goesByTime(e) })
}
