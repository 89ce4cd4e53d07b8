package logs

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// PodNames has the names of the pods at one place of a log by their UIDs, so that decisions, which have UIDs, can be
// printed with names. It forgets pods that are deleted or have finished.
type PodNames struct {
	names map[types.UID]string
}

// PodNames returns the names of the pods that exist before an entry. They come from the newest snapshot before it, or
// else from the entries. If neither can be read, a pod is unknown until a later entry names it.
func (s *Source) PodNames(ctx context.Context, before uint64) (*PodNames, error) {
	n := &PodNames{names: map[types.UID]string{}}
	if before <= 1 {
		return n, nil
	}
	from := s.First()
	if m, err := s.Restore(before - 1); err == nil && m != nil {
		for _, p := range m.Cluster().Pods().All() {
			n.names[p.Object.UID] = p.Object.Namespace + "/" + p.Object.Name
		}
		from = m.Seq() + 1
	}
	if from >= before {
		return n, nil
	}
	for e, err := range s.Read(ctx, from) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || e.Seq >= before {
			return n, nil // damage before the requested entries does not prevent showing these
		}
		n.Take(e)
	}
	return n, nil
}

// Take adds the next entry.
func (n *PodNames) Take(e eventlog.Entry) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok {
			n.names[pod.UID] = pod.Namespace + "/" + pod.Name
			if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
				delete(n.names, pod.UID)
			}
		}
	case *eventlog.Deleted:
		if p.Resource == eventlog.Pods {
			delete(n.names, p.UID)
		}
	}
}

// Name returns the namespace/name of the pod with a UID, "" if it is unknown.
func (n *PodNames) Name(uid types.UID) string { return n.names[uid] }
