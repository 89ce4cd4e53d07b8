package redact

import (
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/backfill"
)

// Dropped is written in the place of a message.
const Dropped = "redacted"

// payload returns the payload with pseudonyms. It shares no part that differs with p. In the first visit it only
// collects texts.
func (w *walker) payload(p eventlog.Payload) eventlog.Payload {
	switch p := p.(type) {
	case *eventlog.EpochStarted:
		return w.epoch(p)
	case *eventlog.Upserted:
		obj := p.Object
		if w.replace {
			obj = obj.DeepCopyObject().(eventlog.Object) // entries may share parts of their objects
		}
		w.object(p.Resource, obj)
		return &eventlog.Upserted{Resource: p.Resource, Object: obj}
	case *eventlog.Deleted:
		return &eventlog.Deleted{Resource: p.Resource, Namespace: w.text(Namespace, p.Namespace),
			Name: w.objectName(p.Resource, p.Name), UID: w.uid(p.UID)}
	case *eventlog.Decision:
		return w.decision(p)
	case *eventlog.BindResult:
		out := *p
		out.UID, out.Node, out.Message = w.uid(p.UID), w.text(Node, p.Node), dropped(p.Message)
		return &out
	case *eventlog.EvictResult:
		out := *p
		out.UID, out.Message = w.uid(p.UID), dropped(p.Message)
		return &out
	case *eventlog.ExtenderResult:
		return w.extenderResult(p)
	}
	return p // a Tick has no text, and a Watched no name
}

// dropped returns the text that is written in the place of a message. An empty message stays empty: a call of an
// extender has failed if there is a message.
func dropped(message string) string {
	if message == "" {
		return ""
	}
	return Dropped
}

// epoch replaces the texts of the configuration. The ID says that the log was redacted: it is in the record, and so in
// the chain.
func (w *walker) epoch(p *eventlog.EpochStarted) *eventlog.EpochStarted {
	out := *p
	out.ID = EpochPrefix + w.text(Free, p.ID)
	out.Config = w.config(p.Config)
	return &out
}

// EpochPrefix begins the IDs of the epochs of a redacted log.
const EpochPrefix = "redacted-"

func mapped[T any](list []T, f func(T) T) []T {
	if list == nil {
		return nil
	}
	out := make([]T, len(list))
	for i := range list {
		out[i] = f(list[i])
	}
	return out
}

// decision replaces the texts of a decision. It drops its reasons, except the part that later decisions read.
func (w *walker) decision(d *eventlog.Decision) *eventlog.Decision {
	out := *d
	out.Namespace, out.Name, out.UID = w.text(Namespace, d.Namespace), w.text(Pod, d.Name), w.uid(d.UID)
	out.Group, out.Node, out.Nominated = w.text(Gang, d.Group), w.text(Node, d.Node), w.text(Node, d.Nominated)
	out.Domain = w.domain(d.Domain)
	out.Rejections = mapped(d.Rejections, func(r eventlog.Rejection) eventlog.Rejection {
		r.Reason = droppedReason(r.Reason)
		return r
	})
	out.Approvals = mapped(d.Approvals, func(a eventlog.Approval) eventlog.Approval {
		a.UID = w.uid(a.UID)
		return a
	})
	out.Allowed, out.Rejected, out.Victims = w.uids(d.Allowed), w.uids(d.Rejected), w.uids(d.Victims)
	out.Activated, out.Plan.Order = w.uids(d.Activated), w.uids(d.Plan.Order)
	out.Volumes = mapped(d.Volumes, func(v eventlog.VolumeClaim) eventlog.VolumeClaim {
		return eventlog.VolumeClaim{Claim: w.text(Object, v.Claim), Volume: w.text(Object, v.Volume)}
	})
	out.Places = mapped(d.Places, func(p eventlog.Place) eventlog.Place {
		return eventlog.Place{UID: w.uid(p.UID), Node: w.text(Node, p.Node)}
	})
	out.Nominations = mapped(d.Nominations, func(n eventlog.Nomination) eventlog.Nomination {
		n.UID, n.Node = w.uid(n.UID), w.text(Node, n.Node)
		return n
	})
	out.Devices = mapped(d.Devices, w.devices)
	out.Questions = mapped(d.Questions, func(q eventlog.Question) eventlog.Question {
		q.UIDs, q.Nodes, q.Candidates = w.uids(q.UIDs), w.nodes(q.Nodes), w.candidates(q.Candidates)
		return q
	})
	return &out
}

// droppedReason drops the reason of a refusal. Decisions read only one part of a reason: whether nodes are kept for
// another pod.
func droppedReason(reason string) string {
	if backfill.IsKeptAlone(reason) {
		return Dropped + backfill.IsAhead
	}
	return dropped(reason)
}

// devices replaces the texts of a claim's devices.
func (w *walker) devices(c eventlog.DeviceClaim) eventlog.DeviceClaim {
	return eventlog.DeviceClaim{Claim: w.text(Object, c.Claim), UID: w.uid(c.UID),
		Allocation: w.allocation(c.Allocation)}
}

// maxAllocation is the number of bytes of memory that an allocation in a decision may take.
const maxAllocation = 64 << 20

// allocation replaces the texts of an allocation.
func (w *walker) allocation(text string) string {
	claim, _, err := eventlog.DecodeObject(eventlog.ResourceClaims, []byte(text), maxAllocation)
	if err != nil {
		w.fail("allocation: %w", err)
		return text
	}
	w.object(eventlog.ResourceClaims, claim)
	encoded, err := eventlog.AppendObject(nil, claim)
	if err != nil {
		w.fail("allocation: %w", err)
	}
	return string(encoded)
}

func (w *walker) candidates(list []eventlog.Candidate) []eventlog.Candidate {
	return mapped(list, func(c eventlog.Candidate) eventlog.Candidate {
		c.Node, c.Victims = w.text(Node, c.Node), w.uids(c.Victims)
		return c
	})
}

// extenderResult replaces the texts of the answers of extenders.
func (w *walker) extenderResult(p *eventlog.ExtenderResult) *eventlog.ExtenderResult {
	out := &eventlog.ExtenderResult{UID: w.uid(p.UID), Decision: p.Decision}
	out.Answers = mapped(p.Answers, func(a eventlog.ExtenderAnswer) eventlog.ExtenderAnswer {
		a.Name = w.url(a.Name)
		a.Refused = mapped(a.Refused, func(r eventlog.ExtenderRefusal) eventlog.ExtenderRefusal {
			r.Reason, r.Nodes = w.text(Free, r.Reason), w.nodes(r.Nodes)
			return r
		})
		a.Scores = mapped(a.Scores, func(s eventlog.ExtenderScore) eventlog.ExtenderScore {
			s.Node = w.text(Node, s.Node)
			return s
		})
		a.FilterError, a.PrioritizeError = dropped(a.FilterError), dropped(a.PrioritizeError)
		a.PreemptError, a.Candidates = dropped(a.PreemptError), w.candidates(a.Candidates)
		return a
	})
	return out
}
