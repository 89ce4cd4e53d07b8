package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// stateVersion is the first byte of AppendState's encoding. Versions are a ladder: a rung is added for every
// change of the encoding, and none is ever reused.
//
//	1  the first encoding
//	2  the queue knows whom of an entity an attempt has come to, and whom it refused
//	3  there are CompositePodGroups
//	4  pods are nominated to nodes, and know whether they are asked to go, and whether their gang needs them
//	5  the behaviour is part of it; which entity of the queue is retried next is not
//	6  a nomination says whether a Decision gave it
//	7  evictions know for whom they make room, and what came of them; the queue knows which entities were attempted
//	   before their backoff ended
//	8  plugins have states of their own; extenders are asked about pods, if the
//	   configuration has any
//	9  extenders are asked about preemption, and nodes are known that were made free in vain, if the
//	   configuration has any; objects of resources that the configuration declares follow it; DeviceTaintRules,
//	   VolcanoPodGroups and KAIPodGroups are objects, if there are any
//
// A state is written in version 4 in epochs of behaviour 1, in version 5 in those of behaviours 2 and 3, and in version
// 6 in those of behaviour 4, in version 7 in those of behaviour 5, in version 8 in those of behaviour 6, so that
// snapshots and hashes of theirs stay good.
const (
	stateVersion           = 9
	pluginStateVersion     = 8
	evictionStateVersion   = 7
	nominationStateVersion = 6
	behaviourStateVersion  = 5
	firstStateVersion      = 4
)

// stateVersion returns the version in which states of the epoch's behaviour are written.
func (r *rules) stateVersion() byte {
	switch {
	case r.consultsExtenders():
		return stateVersion
	case r.keepsReserved():
		return pluginStateVersion
	case r.hearsOfEvictions():
		return evictionStateVersion
	case r.knowsOwnNominations():
		return nominationStateVersion
	case r.recordsFacts():
		return behaviourStateVersion
	}
	return firstStateVersion
}

// Hash returns a digest of the whole state: the SHA-256 of AppendState. Machines that applied the same entries
// have the same hash.
func (m *Machine) Hash() [32]byte {
	state, err := m.AppendState(nil)
	if err != nil {
		panic(fmt.Sprintf("encode the state after entry %d: %v", m.at.seq, err))
	}
	return sha256.Sum256(state)
}

// AppendState appends everything that a later entry or decision can depend on, in one canonical form. Restore
// makes a Machine of it again. It fails for a state with an object that no log could have brought.
func (m *Machine) AppendState(dst []byte) ([]byte, error) {
	dst = append(dst, m.rules.stateVersion())
	if m.rules.recordsFacts() {
		dst = binary.AppendUvarint(dst, uint64(m.rules.behaviour))
	}
	dst = binary.AppendUvarint(dst, m.at.seq)
	dst = binary.AppendUvarint(dst, m.at.epoch)
	dst = binary.AppendVarint(dst, int64(m.at.now))
	dst = binary.AppendUvarint(dst, m.at.cycle)
	dst = binary.AppendUvarint(dst, uint64(m.at.start))
	if m.queue == nil {
		return append(dst, canonical.Flags(false)), nil
	}
	dst = append(dst, canonical.Flags(true))
	dst = canonical.AppendBytes(dst, m.profiles.config)
	dst = m.cluster.Informers().AppendOwn(dst)
	dst, err := m.cluster.AppendState(dst)
	if err != nil {
		return nil, err
	}
	dst = m.effects.appendState(dst)
	if m.rules.hearsOfEvictions() {
		dst = m.effects.appendEvictions(dst)
	}
	dst = m.cluster.Waits().AppendState(dst)
	dst = m.backfill.AppendState(dst)
	dst = m.queue.AppendState(dst)
	dst = m.nominated.appendState(dst)
	if m.rules.keepsReserved() {
		dst = m.appendPlugins(dst)
	}
	if len(m.extenders.list) > 0 {
		dst = m.extenders.appendState(dst)
		if m.rules.consultsExtenders() {
			dst = m.extenders.appendPreemptions(dst)
		}
	}
	return dst, nil
}
