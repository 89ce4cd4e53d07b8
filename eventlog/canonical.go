package eventlog

import (
	"fmt"
)

// Canonical returns obj as every reader of a log sees it: encoded and decoded once. The encoding does not distinguish
// an empty list from none, or two spellings of a quantity; so neither does the writer.
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
