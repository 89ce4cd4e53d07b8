package explain

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// compositeScan collects the entries about a CompositePodGroup: where it, or a gang that names it, comes first, and
// where each of those gangs does.
type compositeScan struct {
	*groupScan
	seen   *answer.Point
	firsts map[types.NamespacedName]answer.Point
}

func newCompositeScan(namespace, name string) *compositeScan {
	return &compositeScan{groupScan: newGroupScan(namespace, name), firsts: map[types.NamespacedName]answer.Point{}}
}

func (s *compositeScan) found() bool { return s.seen != nil }

func (s *compositeScan) again() scanner {
	return newCompositeScan(s.name.Namespace, s.name.Name)
}

func (s *compositeScan) missing() *NotFoundError {
	return &NotFoundError{Kind: "CompositePodGroup", Name: s.name.String(), Similar: s.near.list()}
}

func (s *compositeScan) startFrom(m *scheduler.Machine) {
	s.groupScan.startFrom(m)
	// any order: fills a map
	for gang := range s.below {
		s.firsts[gang] = answer.Point{}
	}
	if s.composite || len(s.below) > 0 {
		s.seen = &answer.Point{}
	}
}

func (s *compositeScan) take(e eventlog.Entry) {
	s.groupScan.take(e)
	if p, ok := e.Payload.(*eventlog.Upserted); ok {
		if gang, ok := gangOf(p); ok {
			if _, known := s.firsts[gang]; !known {
				s.firsts[gang] = pointOf(e)
			}
		}
	}
	if s.seen == nil && (s.composite || len(s.below) > 0) {
		at := pointOf(e)
		s.seen = &at
	}
}
