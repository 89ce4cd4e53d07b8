package framework

import (
	"cmp"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Rejections returns the status as the log records it: one row per reason, sorted. Nodes is 0, because the status is
// about the pod as a whole. There are no rows if the status is neither a rejection nor an error.
func Rejections(status *fwk.Status) []eventlog.Rejection {
	var t tally
	t.add(status, 0)
	return t.rejections()
}

// tally counts refusals by plugin, code and reason. Its zero value is ready for use. reset keeps its memory.
type tally struct {
	rows  []eventlog.Rejection
	index map[rejectionKey]int
	last  int // the last row counted: neighbours often have the same reason
}

type rejectionKey struct{ plugin, code, reason string }

func (t *tally) reset() {
	clear(t.rows)
	t.rows = t.rows[:0]
	clear(t.index)
	t.last = 0
}

// add counts nodes for every reason of status. It counts each reason on its own, because plugins give the reasons of
// one status in varying order. An error has no reason, because its text is not deterministic.
func (t *tally) add(status *fwk.Status, nodes int64) {
	switch {
	case status.IsError():
		t.count(rejectionKey{status.Plugin(), status.Code().String(), ""}, nodes)
	case status.IsRejected():
		reasons := status.Reasons()
		if len(reasons) == 0 {
			t.count(rejectionKey{status.Plugin(), status.Code().String(), ""}, nodes)
			return
		}
		for i, reason := range reasons {
			if slices.Contains(reasons[:i], reason) {
				continue
			}
			t.count(rejectionKey{status.Plugin(), status.Code().String(), reason}, nodes)
		}
	}
}

func (t *tally) count(k rejectionKey, nodes int64) {
	if t.last < len(t.rows) {
		r := &t.rows[t.last]
		if r.Reason == k.reason && r.Plugin == k.plugin && r.Code == k.code {
			r.Nodes += nodes
			return
		}
	}
	i, ok := t.index[k]
	if !ok {
		i = len(t.rows)
		t.rows = append(t.rows, eventlog.Rejection{Plugin: k.plugin, Code: k.code, Reason: k.reason})
		if t.index == nil {
			t.index = make(map[rejectionKey]int)
		}
		t.index[k] = i
	}
	t.rows[i].Nodes += nodes
	t.last = i
}

// rejections returns a sorted copy of the rows, nil if there are none.
func (t *tally) rejections() []eventlog.Rejection {
	if len(t.rows) == 0 {
		return nil
	}
	out := slices.Clone(t.rows)
	slices.SortFunc(out, func(a, b eventlog.Rejection) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
