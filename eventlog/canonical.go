package eventlog

import (
	"fmt"
)

// Canonical returns obj as whoever reads it from a log sees it: encoded and decoded once, so that what the
// encoding does not tell apart (an empty list from none, a quantity's spelling) is the same on both sides.
func Canonical(res Resource, obj Object) (Object, error) {
	b, err := appendPayload(nil, &Upserted{Resource: res, Object: obj})
	if err != nil {
		return nil, err
	}
	p, err := decodePayload(KindUpserted, b, nil)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	return p.(*Upserted).Object, nil
}
