package explain

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/choices"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// othersBind is the first entry that has the pod on a node.
type othersBind struct {
	seen  bool // an earlier entry has the pod without a node
	known bool
	at    answer.Point // the zero Point if the log begins later
}

// see looks at an entry that brings the pod.
func (b *othersBind) see(e eventlog.Entry, pod *v1.Pod) {
	switch {
	case b.known:
	case pod.Spec.NodeName == "":
		b.seen = true
	default:
		b.known, b.at = true, pointOf(e)
	}
}

// addChoice adds, for a pod that others have bound, how good its node was on the state just before.
func addChoice(x *answer.Pod, s *podScan, r *rerun) error {
	b := &s.others
	decides := r.undecided() == ""
	if x.Decision != nil || x.Node == "" || !b.known || decides && !(b.seen && r.machine.Schedules(s.object)) {
		return nil
	}
	isNew := func(epoch choices.Epoch) bool {
		return choices.IsNew(epoch.Began, eventlog.Time(b.at.Time), s.object)
	}
	var epoch choices.Epoch
	if b.seen && r.machine.Epoch() > 1 || !b.seen && isNew(epoch) {
		var err error
		if epoch, err = r.epochOf(b); err != nil {
			return err
		}
	}
	switch {
	case b.at.Seq == 0 || b.at.Seq <= r.base:
		x.Unrated = fmt.Sprintf("its bind was before entry %d", r.knownFrom())
		return nil
	case !b.seen && !isNew(epoch):
		x.Unrated = fmt.Sprintf("it had its node when the log first had it (entry %d): the state before its bind "+
			"cannot be known", b.at.Seq)
		return nil
	}
	choice, err := r.choice(b, epoch)
	if err != nil || choice == nil {
		return err
	}
	choice.Configuration = r.opts.Configuration
	if x.Placing != nil {
		choice.By = x.Placing.By
	}
	choice.Message = phrase.Choice(choice)
	x.Choice = choice
	return nil
}

// epochOf returns when the epoch of the bind began.
func (r *rerun) epochOf(b *othersBind) (epoch choices.Epoch, err error) {
	if b.at.Seq == 0 {
		return epoch, nil
	}
	began := uint64(0)
	epochs := history.Query{Keys: []index.Key{index.Barrier()}, Kinds: []eventlog.Kind{eventlog.KindEpochStarted},
		To: history.Bound{Seq: b.at.Seq}}
	for e, err := range r.log.Entries(r.ctx, epochs) {
		if err != nil {
			return epoch, err
		}
		began, epoch = e.Seq, choices.Epoch{Began: e.Time}
	}
	if began == 0 {
		return epoch, nil
	}
	for e, err := range r.log.Entries(r.ctx, history.Query{From: began + 1, To: history.Bound{Seq: began + 1}}) {
		if err != nil {
			return epoch, err
		}
		epoch.Listed = e.Time
	}
	return epoch, nil
}

// choice rates the bind at an entry; nil if a decision of the log asked for it.
func (r *rerun) choice(b *othersBind, epoch choices.Epoch) (*answer.Choice, error) {
	m, err := r.log.At(r.ctx, b.at.Seq-1)
	if err != nil {
		return nil, err
	}
	reader := choices.NewReader(choices.Options{Trials: true})
	reader.In(epoch)
	for e, err := range r.log.Entries(r.ctx, history.Query{From: b.at.Seq, To: history.Bound{Seq: b.at.Seq}}) {
		if err != nil {
			return nil, err
		}
		x, err := reader.Before(m, e)
		if err != nil {
			return nil, fmt.Errorf("rate the bind at entry %d: %w", e.Seq, err)
		}
		if x != nil && x.Verdict == answer.Infeasible {
			x.NodeChanged, err = r.lastChange(x.Node, b.at.Seq)
		}
		return x, err
	}
	return nil, nil
}

// lastChange returns the last entry about a node before an entry; nil if there is none.
func (r *rerun) lastChange(node string, before uint64) (last *answer.ChangeBefore, err error) {
	about := history.Query{Keys: []index.Key{index.Node(node)}, To: history.Bound{Seq: before - 1}}
	for e, err := range r.log.Entries(r.ctx, about) {
		if err != nil {
			return nil, err
		}
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if n, ok := p.Object.(*v1.Node); ok && n.Name == node {
				last = &answer.ChangeBefore{Point: pointOf(e), What: "the node changed"}
			}
		case *eventlog.Deleted:
			if p.Resource == eventlog.Nodes && p.Name == node {
				last = &answer.ChangeBefore{Point: pointOf(e), What: "the node was deleted"}
			}
		}
	}
	return last, nil
}
