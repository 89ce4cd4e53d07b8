package queue

import (
	"encoding/binary"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// stateVersion is the first byte of AppendState's encoding. A change of the encoding needs a higher one. Until 0.1.0 is
// cut, version 5 may change. Versions 2 to 4 are from before the first release.
const stateVersion = 5

// AppendState appends a canonical and complete encoding of the state. Two queues with equal options and equal encodings
// answer alike for ever, given the same calls from a SetTime on. It contains everything that future behavior depends
// on, sorted by key. Pods are represented by their UIDs, because their specifications are the cluster's state. It omits
// what follows from the rest: indexes, memos, and the time, which the next SetTime brings. Restore reads it.
func (q *Queue) AppendState(dst []byte) []byte {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, q.changes)
	dst = appendTime(dst, q.changedAt)
	dst = binary.AppendUvarint(dst, uint64(len(q.flight)))
	for _, e := range q.flight {
		dst = appendKey(dst, e.key)
	}
	dst = binary.AppendUvarint(dst, uint64(len(q.entities)))
	for _, e := range q.sorted.all() {
		dst = e.appendState(dst, q.IsPicked(e))
	}
	return dst
}

func (e *Entity) appendState(dst []byte, picked bool) []byte {
	dst = appendKey(dst, e.key)
	dst = canonical.AppendString(dst, e.profile)
	state, retryable := e.state, e.retryable
	if picked {
		state, retryable = Unschedulable, true
	}
	flags := canonical.Flags(retryable, e.failed, e.erred, e.notedAll, e.notedAny, e.keptOff, e.poppedEarly, e.asked)
	dst = append(dst, byte(state), flags)
	dst = appendTime(dst, e.timestamp)
	dst = appendTime(dst, e.firstActive)
	dst = appendTime(dst, e.backoffUntil)
	for _, n := range [...]int{e.attempts, e.plan.attempts, e.plan.search, e.unschedulableCount, e.errorCount} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, names := range [...][]string{e.plugins, e.pendingPlugins, e.noted} {
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, name := range names {
			dst = canonical.AppendString(dst, name)
		}
	}
	dst = canonical.AppendString(dst, e.gatingPlugin)
	dst = canonical.AppendString(dst, e.gatingMessage)
	dst = binary.AppendUvarint(dst, e.startedAt)
	if e.isResting {
		dst = appendTime(dst, e.since)
		dst = binary.AppendUvarint(dst, e.stamp)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.members)))
	for _, m := range e.members {
		dst = canonical.AppendString(dst, string(m.pod.UID))
		dst = append(dst, canonical.Flags(m.placed, m.gate != nil, m.tried, m.refused, m.asking))
		dst = binary.AppendUvarint(dst, uint64(m.turn))
		if m.gate != nil {
			dst = canonical.AppendString(dst, m.gate.name)
			dst = canonical.AppendString(dst, m.message)
		}
	}
	return dst
}

func appendKey(dst []byte, k Key) []byte {
	return canonical.AppendString(
		canonical.AppendString(canonical.AppendString(dst, string(k.Type)), k.Namespace),
		k.Name,
	)
}

func appendTime(dst []byte, t eventlog.Time) []byte {
	return binary.AppendVarint(dst, int64(t))
}
