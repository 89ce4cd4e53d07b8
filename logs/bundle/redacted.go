package bundle

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Redacted names the log that a redacted bundle was made from. The owner of the log recognises it.
type Redacted struct {
	// At is the time at which the bundle was made, RFC 3339.
	At string `json:"at"`
	// FromSeq is the last entry that was redacted, and FromHash the hash of its record in the log, in hexadecimal.
	FromSeq  uint64 `json:"fromSeq"`
	FromHash string `json:"fromHash"`
	// KeyKept says that the owner keeps the key of the pseudonyms.
	KeyKept bool `json:"keyKept"`
	// KeptLabels are the keys of labels whose values the owner kept.
	KeptLabels []string `json:"keptLabels,omitempty"`
}

// Origin returns the place behind an entry where the chain of a redacted range begins. The chain shares no hash with
// the chain of the log: its first hash, and its tree, follow from r. So the records are tied to r.
func (r *Redacted) Origin(seq uint64) (eventlog.Origin, error) {
	text, err := json.Marshal(r)
	if err != nil || seq == 0 {
		return eventlog.Origin{}, err
	}
	origin := eventlog.Origin{Seq: seq, Hash: sha256.Sum256(append([]byte("rollcall redacted "), text...))}
	for level := 48; level >= 0; level-- {
		if seq&(1<<level) == 0 {
			continue
		}
		if err := origin.Tree.AddNode(level, origin.Hash); err != nil {
			return eventlog.Origin{}, err
		}
	}
	return origin, nil
}

// checkRedacted returns an error if the chain of a redacted bundle does not follow from its Redacted.
func (m *Manifest) checkRedacted() error {
	if m.Redacted == nil {
		return nil
	}
	if m.Redacted.FromSeq != m.Last {
		return fmt.Errorf("it was redacted up to entry %d, and its last entry is %d", m.Redacted.FromSeq, m.Last)
	}
	origin, err := m.Redacted.Origin(m.Origin.Seq)
	if err != nil {
		return err
	}
	if origin.Hash != m.Origin.Hash {
		return errors.New("its chain does not begin with what it says of the redaction")
	}
	return nil
}
