package framework

import (
	"maps"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// ByTime may be implemented by an external plugin whose answers depend on the handle's Now: it may accept later what it
// refuses now, although nothing has changed. Pods that such a plugin refused, or keeps out of the queue in PreEnqueue,
// are tried again after five minutes. kube-scheduler does so with all pods. Other plugins give the same answer about
// the same state, so there is no such retry for them.
type ByTime interface {
	// AnswersGoByTime reports whether the answers depend on Now. It must always return the same.
	AnswersGoByTime() bool
}

func goesByTime(plugin any) bool {
	p, ok := plugin.(ByTime)
	return ok && p.AnswersGoByTime()
}

// ByTime returns the names of the plugins whose answers depend on the time, sorted.
func (p *Profile) ByTime() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		if goesByTime(p.plugins[name]) {
			names = append(names, name)
		}
	}
	return names
}

// GatesByTime reports whether one of these plugins may keep pods out of the queue.
func (p *Profile) GatesByTime() bool {
	return slices.ContainsFunc(p.preEnqueue, func(e fwk.PreEnqueuePlugin) bool { return goesByTime(e) })
}
