package watch

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// gangKinds are the resources that declare gangs.
var gangKinds = []eventlog.Resource{
	eventlog.XPodGroups, eventlog.PodGroups, eventlog.CompositePodGroups, eventlog.VolcanoPodGroups,
	eventlog.KAIPodGroups,
}

// cameWith has the release of Kubernetes with which an API came in the version that is asked for, of the ones that the
// oldest supported API server, 1.31, lacks.
var cameWith = map[eventlog.Resource]string{
	eventlog.ResourceClaims: "1.34", eventlog.ResourceSlices: "1.34", eventlog.DeviceClasses: "1.34",
	eventlog.DeviceTaintRules: "1.37",
}

// since says with which release an API came, if older API servers lack it.
func since(res eventlog.Resource) string {
	if release := cameWith[res]; release != "" {
		return ", which came with Kubernetes " + release
	}
	return ""
}

// served knows which resources the API server has, as far as it was asked.
type served struct {
	mu  sync.Mutex
	has map[eventlog.Resource]bool
}

// noteServed notes whether the API server has a resource, and reports it. It reports the resources that declare gangs
// once the answer for all of them has come, others if they are missing, and every resource when the answer changes.
func (w *Watch) noteServed(res eventlog.Resource, has bool) {
	if message := w.served.note(res, has); message != "" {
		w.opts.Report(message)
	}
}

func (s *served) note(res eventlog.Resource, has bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, asked := s.has[res]
	if asked && was == has {
		return ""
	}
	if s.has == nil {
		s.has = map[eventlog.Resource]bool{}
	}
	s.has[res] = has
	switch {
	case asked && has:
		return fmt.Sprintf("%s: the API server has them now: they are watched", res)
	case asked:
		return fmt.Sprintf("%s: the API server has them no more: they are waited for", res)
	case slices.Contains(gangKinds, res):
		return s.gangs()
	case !has:
		return fmt.Sprintf("%s: the API server does not have them%s: they are waited for", res, since(res))
	}
	return ""
}

// gangs reports the resources that declare gangs, once they are known.
func (s *served) gangs() string {
	atWork, missing := []string{}, []string{}
	for _, res := range gangKinds {
		has, asked := s.has[res]
		switch {
		case !asked:
			return ""
		case has:
			atWork = append(atWork, string(res))
		case res != eventlog.PodGroups && res != eventlog.CompositePodGroups:
			missing = append(missing, string(res)+" (the custom resource definition is not installed)")
		default:
			missing = append(missing, string(res)+" (the API server's feature gate GenericWorkload is off, or it is "+
				"older than 1.37)")
		}
	}
	message := "gangs are declared by " + strings.Join(append(atWork, "labels and annotations of pods"), ", ")
	if len(missing) > 0 {
		message += "; not served, and waited for: " + strings.Join(missing, ", ")
	}
	return message
}
