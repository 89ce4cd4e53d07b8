package dump

import (
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// wanted is a tree of the fields of a resource's objects that are read. A nil tree wants everything.
type wanted map[string]wanted

// readBesides are the fields that are read besides the ones that a log has.
var readBesides = []string{
	"apiVersion", "kind", "metadata.resourceVersion", "metadata.deletionGracePeriodSeconds", "metadata.finalizers",
}

// wantedOf has the tree of each resource.
var wantedOf = func() map[eventlog.Resource]wanted {
	all := map[eventlog.Resource]wanted{}
	for _, res := range order {
		tree := wanted{}
		for _, path := range append(eventlog.RecordedPaths(res), readBesides...) {
			tree.add(path)
		}
		switch res {
		case eventlog.Pods:
			tree.add("status.conditions.{lastTransitionTime,lastProbeTime}")
		case eventlog.Nodes:
			tree.add("status.conditions.{lastTransitionTime,lastHeartbeatTime}")
		}
		all[res] = tree
	}
	return all
}()

// add adds a path, in which {a,b} means a and b.
func (w wanted) add(path string) {
	step, rest, more := strings.Cut(path, ".")
	if names, ok := strings.CutPrefix(path, "{"); ok {
		names, rest, _ = strings.Cut(names, "}")
		rest, more = strings.CutPrefix(rest, ".")
		for name := range strings.SplitSeq(names, ",") {
			w.addStep(name, rest, more)
		}
		return
	}
	w.addStep(step, rest, more)
}

func (w wanted) addStep(name, rest string, more bool) {
	below, known := w[name]
	switch {
	case !more:
		w[name] = nil
	case known && below == nil: // everything below is wanted already
	default:
		if below == nil {
			below = wanted{}
			w[name] = below
		}
		below.add(rest)
	}
}
