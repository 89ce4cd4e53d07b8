package explain

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// maxLossEntries is the number of entries that are examined as the loss of a pod's node: the last ones.
const maxLossEntries = 8

// podLosses are the decisions and entries that took a pod off its node, or may have.
type podLosses struct {
	to           recorded // the last decision that may have preempted it
	evicted      recorded // the decision that evicted it with the rest of its gang
	own, earlier lossScan // of the pod, and of the last of the earlier pods of its name that has any entry
	others       byOthers
}

// lossScan collects, in the first reading, the entries that may be the loss of the node of a pod. The second reading
// finds out which of them is one.
type lossScan struct {
	uid   types.UID // of the pod
	nodes []string  // on which it may have been
	seqs  []uint64
}

// placed notes a node on which the pod may be.
func (s *lossScan) placed(node string) {
	if node != "" && !slices.Contains(s.nodes, node) {
		s.nodes = append(s.nodes, node)
	}
}

func (s *lossScan) may(seq uint64) {
	if len(s.seqs) == maxLossEntries {
		s.seqs = append(s.seqs[:0], s.seqs[1:]...)
	}
	s.seqs = append(s.seqs, seq)
}

// noteLoss notes an entry that may be the loss of the pod's node.
func (s *podScan) noteLoss(e eventlog.Entry) {
	if !s.seen {
		return
	}
	if s.lost.own.uid != s.uid {
		if len(s.lost.own.seqs) > 0 {
			s.lost.earlier = s.lost.own
		}
		s.lost.own = lossScan{uid: s.uid}
	}
	l := &s.lost.own
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok && pod.UID == s.uid {
			l.placed(pod.Spec.NodeName)
			if reason := disruption(pod); reason == byTaints || reason == byEviction {
				l.may(e.Seq)
			}
		}
	case *eventlog.Decision, *eventlog.BindResult:
		l.notePlaced(p)
	case *eventlog.Deleted:
		switch {
		case p.Resource == eventlog.Nodes && s.gone == nil && slices.Contains(l.nodes, p.Name):
			l.may(e.Seq)
		case p.Resource == eventlog.Pods && p.UID == s.uid && disruption(s.object) != "":
			l.may(e.Seq)
		}
	}
}

// notePlaced notes the nodes that a decision, or the result of a bind, gives to the pod.
func (s *lossScan) notePlaced(payload eventlog.Payload) {
	switch p := payload.(type) {
	case *eventlog.Decision:
		if p.UID == s.uid {
			s.placed(p.Node)
		}
		for i := range p.Places {
			if p.Places[i].UID == s.uid {
				s.placed(p.Places[i].Node)
			}
		}
	case *eventlog.BindResult:
		if p.UID == s.uid {
			s.placed(p.Node)
		}
	}
}

// mayBeLost reports whether an entry that may be the loss of the pod's node comes after entry seq.
func (s *podScan) mayBeLost(seq uint64) bool {
	after := func(at uint64) bool { return seq < at }
	return slices.ContainsFunc(s.lost.own.seqs, after) || slices.ContainsFunc(s.lost.earlier.seqs, after)
}

// tellLosses requests the losses of nodes of a pod.
func (r *rerun) tellLosses(s *lossScan) {
	for _, seq := range s.seqs {
		r.losses[seq] = nodeLossOf{uid: s.uid}
		r.startBefore(seq)
	}
}

// nodeLossOf is a requested loss of a pod's node: nil before the entry is reached, and if it is none.
type nodeLossOf struct {
	uid  types.UID
	loss *answer.NodeLoss
}

// lastLoss returns the last requested loss, nil for none.
func (r *rerun) lastLoss(s *lossScan) *answer.NodeLoss {
	for _, seq := range slices.Backward(s.seqs) {
		if x := r.losses[seq].loss; x != nil {
			return x
		}
	}
	return nil
}

// addNodeLosses adds the losses of the pod's nodes and, if it is pending with its gang, of the gang's.
func addNodeLosses(x *answer.Pod, s *podScan, r *rerun, h *gangHistory) {
	x.NodeLost, x.EarlierNodeLost = r.lastLoss(&s.lost.own), r.lastLoss(&s.lost.earlier)
	if h != nil {
		x.GroupNodeLosses = h.lostNodes.list
	}
}
