package queue

import (
	"encoding/binary"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// stateVersion is the first byte of AppendState's encoding.
const stateVersion = 1

// AppendState appends a canonical and complete encoding of the state: two queues with equal options and
// equal encodings answer alike for ever, given the same calls from an Advance on. It has everything that
// future behaviour depends on, sorted by key; pods stand in it by UID, and what their specifications say is
// the cluster's state, not the queue's. Left out is what follows from the rest: indexes, memos, and the
// time, which the next Advance brings.
func (q *Queue) AppendState(dst []byte) []byte {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, q.changes)
	dst = appendTime(dst, q.changedAt)
	dst = binary.AppendUvarint(dst, uint64(len(q.flight)))
	for _, e := range q.flight {
		dst = appendKey(dst, e.key)
	}
	dst = binary.AppendUvarint(dst, uint64(len(q.sorted)))
	for _, e := range q.sorted {
		dst = e.appendState(dst)
	}
	return dst
}

func (e *Entity) appendState(dst []byte) []byte {
	dst = appendKey(dst, e.key)
	dst = appendString(dst, e.profile)
	dst = append(dst, byte(e.state), flags(e.owed, e.failed, e.notedAll, e.notedAny))
	dst = appendTime(dst, e.timestamp)
	dst = appendTime(dst, e.firstActive)
	dst = appendTime(dst, e.backoffUntil)
	for _, n := range [...]int{e.attempts, e.unschedulableCount, e.errorCount} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, names := range [...][]string{e.plugins, e.pendingPlugins, e.noted} {
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, name := range names {
			dst = appendString(dst, name)
		}
	}
	dst = appendString(dst, string(e.refused))
	dst = appendString(dst, e.gatingPlugin)
	dst = appendString(dst, e.gatingMessage)
	dst = binary.AppendUvarint(dst, e.begun)
	if e.inLine {
		dst = appendTime(dst, e.since)
		dst = binary.AppendUvarint(dst, e.stamp)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.members)))
	for _, m := range e.members {
		dst = appendString(dst, string(m.pod.UID))
		dst = append(dst, flags(m.held, m.gate != nil))
		if m.gate != nil {
			dst = appendString(dst, m.gate.name)
			dst = appendString(dst, m.message)
		}
	}
	return dst
}

func appendKey(dst []byte, k Key) []byte {
	return appendString(appendString(appendString(dst, string(k.Type)), k.Namespace), k.Name)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendTime(dst []byte, t eventlog.Time) []byte {
	return binary.AppendVarint(dst, int64(t))
}

// flags packs up to eight booleans, the first in the lowest bit.
func flags(bits ...bool) byte {
	var b byte
	for i, bit := range bits {
		if bit {
			b |= 1 << i
		}
	}
	return b
}
