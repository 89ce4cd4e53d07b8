package cluster

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// marshaler is what every generated API type implements.
type marshaler interface {
	Marshal() ([]byte, error)
}

// AppendState appends the whole state in one canonical form: two states that can ever behave differently
// differ in it, and two that were built from the same entries never do.
func (s *State) AppendState(dst []byte) ([]byte, error) {
	var err error
	dst = binary.AppendUvarint(dst, uint64(len(s.listed)))
	for _, info := range s.listed {
		if dst, err = appendObject(dst, info.Node()); err != nil {
			return nil, fmt.Errorf("node %q: %w", info.Node().Name, err)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.pods)))
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[uid]
		if dst, err = appendObject(dst, p.Object); err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", p.Object.Namespace, p.Object.Name, err)
		}
		dst = appendString(dst, p.groupName()) // what its label says now may be another name
		dst = append(dst, byte(p.Stage))
		dst = appendString(dst, p.Node)
		dst = binary.AppendUvarint(dst, uint64(len(p.Volumes)))
		for _, v := range p.Volumes {
			dst = appendString(dst, v.Claim)
			dst = appendString(dst, v.Volume)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.images)))
	for _, name := range slices.Sorted(maps.Keys(s.images)) {
		dst = appendString(dst, name)
		dst = binary.AppendVarint(dst, s.images[name].Size)
	}
	return s.informers.AppendState(dst), nil
}

func appendObject(dst []byte, obj marshaler) ([]byte, error) {
	b, err := obj.Marshal()
	if err != nil {
		return nil, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...), nil
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
