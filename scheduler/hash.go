package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Hash returns a digest of the whole state. Machines that applied the same entries have the same hash.
func (m *Machine) Hash() [32]byte {
	state, err := m.appendState(nil)
	if err != nil {
		panic(fmt.Sprintf("encode the state after entry %d: %v", m.seq, err))
	}
	return sha256.Sum256(state)
}

// appendState appends everything that a later entry or decision can depend on, in one canonical form.
func (m *Machine) appendState(dst []byte) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(dst, m.seq)
	dst = binary.BigEndian.AppendUint64(dst, m.epoch)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.now))
	dst = binary.BigEndian.AppendUint64(dst, m.cycle)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.start))
	dst = appendBytes(dst, m.config)
	outstanding := m.effects.after(0)
	dst = binary.AppendUvarint(dst, uint64(len(outstanding)))
	for _, x := range outstanding {
		dst = append(dst, byte(x.Kind))
		dst = binary.AppendUvarint(dst, x.Seq)
		dst = appendBytes(dst, []byte(x.UID))
		dst = appendBytes(dst, []byte(x.Node))
		dst = binary.AppendUvarint(dst, uint64(len(x.Volumes)))
		for _, v := range x.Volumes {
			dst = appendBytes(dst, []byte(v.Claim))
			dst = appendBytes(dst, []byte(v.Volume))
		}
	}
	dst, err := m.cluster.AppendState(dst)
	if err != nil {
		return nil, err
	}
	dst = m.waiting.AppendState(dst)
	if m.queue != nil {
		dst = m.queue.AppendState(dst)
	}
	return dst, nil
}

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}
