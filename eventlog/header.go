package eventlog

import (
	"fmt"
)

// A Header is what an entry says besides its payload, as far as its neighbours in the log depend on it.
type Header struct {
	Seq, Epoch uint64
	Time       Time
	Kind       Kind
}

// Header returns e's.
func (e Entry) Header() Header {
	return Header{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Kind: e.Kind()}
}

// Follows says what is wrong with h behind prev, or nil: the sequence number and, at an EpochStarted, the
// epoch are one more, otherwise the epoch is the same, and the time has not gone back. The zero Header stands
// before the first entry, which is an EpochStarted.
func (h Header) Follows(prev Header) error {
	epoch := prev.Epoch
	if h.Kind == KindEpochStarted {
		epoch++
	}
	switch {
	case h.Seq != prev.Seq+1:
		return fmt.Errorf("it follows entry %d", prev.Seq)
	case prev.Seq == 0 && h.Kind != KindEpochStarted:
		return fmt.Errorf("the log begins with %s, not with EpochStarted", h.Kind)
	case h.Epoch != epoch:
		return fmt.Errorf("its epoch is %d, want %d", h.Epoch, epoch)
	case prev.Seq > 0 && h.Time < prev.Time:
		return fmt.Errorf("its time %s is before that of the entry before it, %s", h.Time, prev.Time)
	}
	return nil
}
