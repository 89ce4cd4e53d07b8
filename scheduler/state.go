package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// stateVersion is the first byte of AppendState's encoding. A change of the encoding needs a higher one. Until 0.1.0 is
// cut, version 10 may change, as behaviour 10 may (see Behaviours). Versions 1 to 9 are from before the first release.
const stateVersion = 10

// Hash returns a digest of the whole state: the SHA-256 of AppendState. Machines that applied the same entries
// have the same hash.
func (m *Machine) Hash() [32]byte {
	buf := states.Get().(*[]byte)
	defer states.Put(buf)
	state, err := m.AppendState((*buf)[:0])
	if err != nil {
		panic(fmt.Sprintf("encode the state after entry %d: %v", m.at.seq, err))
	}
	*buf = state
	return sha256.Sum256(state)
}

// states has buffers for Hash. Without it each call would grow a buffer to the size of the state.
var states = sync.Pool{New: func() any { return new([]byte) }}

// AppendState appends the whole state, on which later entries and decisions depend, in one canonical form. Restore
// reads it. AppendState fails for an object that no log could have brought.
func (m *Machine) AppendState(dst []byte) ([]byte, error) {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, uint64(m.behaviour))
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
	dst = m.effects.appendEvictions(dst)
	dst = m.cluster.Waits().AppendState(dst)
	dst = m.backfill.AppendState(dst)
	dst = m.queue.AppendState(dst)
	dst = m.nominated.appendState(dst)
	dst = m.appendPlugins(dst)
	if len(m.extenders.list) > 0 {
		dst = m.extenders.appendState(dst)
		dst = m.extenders.appendPreemptions(dst)
	}
	return dst, nil
}
