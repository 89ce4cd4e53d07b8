package audit

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// A placing is a placement of a pod as far as the entries so far show it.
type placing struct {
	uid      types.UID
	decision *eventlog.Decision // that chose the node
	seqs     []uint64           // the entries that prove it
	released bool               // from Permit, or it did not wait
	bound    bool               // there is a result of the bind
}

// findPlacement returns the entries that prove the last placement of a pod in the first size entries of a log. A pod
// that waits in Permit is not placed, nor is one that was released from its node to try again.
func findPlacement(ctx context.Context, log *logs.Source, namespace, name string, uid types.UID, size uint64) (
	[]uint64, error,
) {
	past := history.New(log, history.Options{
		Progress: func(seq uint64) { log.Progress("looking for the placement", seq, size) },
	})
	var last *placing
	for e, err := range past.Entries(ctx, history.Query{
		To:    history.Bound{Seq: size},
		Kinds: []eventlog.Kind{eventlog.KindDecision, eventlog.KindBindResult},
	}) {
		if err != nil {
			return nil, err
		}
		switch p := e.Payload.(type) {
		case *eventlog.Decision:
			last = last.decided(e.Seq, p, p.Namespace == namespace && p.Name == name && (uid == "" || p.UID == uid))
		case *eventlog.BindResult:
			last.answered(e.Seq, p)
		}
	}
	pod := namespace + "/" + name
	if uid != "" {
		pod += " with UID " + string(uid)
	}
	switch {
	case last == nil:
		return nil, fmt.Errorf("no Decision in entries %d to %d of %s has placed pod %s: rollcall explain says what "+
			"became of it", log.First(), size, log.Path(), pod)
	case !last.released:
		return nil, fmt.Errorf("pod %s is not placed in the first %d entries: since entry %d it waits on node %s for "+
			"its gang", pod, size, last.seqs[0], last.decision.Node)
	case !last.bound:
		log.Report("the first %d entries have no result of binding pod %s: the proof is of the Decision alone",
			size, pod)
	}
	return last.seqs, nil
}

// answered takes in the result of a bind. It is the result of the placement if it names the Decision that released the
// pod, or none, as in logs from before results named one.
func (p *placing) answered(seq uint64, r *eventlog.BindResult) {
	if p == nil || !p.released || p.bound || r.UID != p.uid || r.Node != p.decision.Node {
		return
	}
	if r.Decision == 0 || r.Decision == p.seqs[len(p.seqs)-1] {
		p.seqs, p.bound = append(p.seqs, seq), true
	}
}

// decided returns the placement after a Decision. own says that the Decision is on the pod in question.
func (p *placing) decided(seq uint64, d *eventlog.Decision, own bool) *placing {
	if p != nil && !p.released {
		if proof.Releases(d, p.decision) {
			p.seqs, p.released = append(p.seqs, seq), true
			return p
		}
		for _, uid := range d.Rejected {
			if uid == p.uid {
				return nil
			}
		}
	}
	if !own || d.Node == "" || d.Outcome != eventlog.Scheduled && d.Outcome != eventlog.Waiting {
		return p
	}
	return &placing{
		uid: d.UID, decision: d, seqs: []uint64{seq}, released: d.Outcome == eventlog.Scheduled,
	}
}

// PlacementReport has the steps that a proof of a placement has shown.
type PlacementReport struct {
	Pod   string `json:"pod"`
	UID   string `json:"uid"`
	Group string `json:"group,omitempty"`
	Node  string `json:"node"`
	// Decided chose the node.
	Decided PlacementStep `json:"decided"`
	// Released let the pod continue from Permit; nil if it did not wait there.
	Released *PlacementStep `json:"released,omitempty"`
	// Bound is the result of the bind; nil if the proof has none.
	Bound *PlacementStep `json:"bound,omitempty"`
}

// PlacementStep is one entry of a placement.
type PlacementStep struct {
	Seq  uint64 `json:"seq"`
	Time string `json:"time"`
	// Outcome is the Decision's, or the bind's.
	Outcome string `json:"outcome"`
	// By is the pod that the releasing Decision is on, and Others how many pods it released beside this one.
	By     string `json:"by,omitempty"`
	Others int    `json:"others,omitempty"`
	// Group is the gang of By.
	Group string `json:"group,omitempty"`
	// Message is the message in the result of a bind.
	Message string `json:"message,omitempty"`
}

// reportPlaced returns the report on a placement that is proven, and its entries in their public form.
func reportPlaced(p *proof.Placed) (*PlacementReport, []eventlog.Entry) {
	r := &PlacementReport{Pod: p.Namespace + "/" + p.Name, UID: string(p.UID), Node: p.Node}
	if p.Group != "" {
		r.Group = p.Namespace + "/" + p.Group
	}
	entries := []eventlog.Entry{p.Decided}
	step := func(e eventlog.Entry) PlacementStep { return PlacementStep{Seq: e.Seq, Time: e.Time.String()} }
	r.Decided = step(p.Decided)
	if d, ok := p.Decided.Payload.(*eventlog.Decision); ok {
		r.Decided.Outcome = d.Outcome.String()
	}
	if p.Released != nil {
		released := step(*p.Released)
		if d, ok := p.Released.Payload.(*eventlog.Decision); ok {
			released.Outcome, released.By = d.Outcome.String(), d.Namespace+"/"+d.Name
			released.Others = max(0, len(d.Allowed)-1)
			if d.Group != "" {
				released.Group = d.Namespace + "/" + d.Group
			}
		}
		r.Released, entries = &released, append(entries, *p.Released)
	}
	if p.Bound != nil {
		bound := step(*p.Bound)
		if b, ok := p.Bound.Payload.(*eventlog.BindResult); ok {
			bound.Outcome, bound.Message = b.Outcome.String(), b.Message
		}
		r.Bound, entries = &bound, append(entries, *p.Bound)
	}
	return r, entries
}
