package eventlog

import (
	"fmt"
)

// A Header has the fields of an entry, without the payload, on which its neighbours in the log depend.
type Header struct {
	Seq, Epoch uint64
	Time       Time
	Kind       Kind
}

// Header returns e's header.
func (e Entry) Header() Header {
	return Header{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Kind: e.Kind()}
}

// Follows returns nil if h may follow prev, otherwise an error with the reason. The sequence number is one higher. The
// epoch is one higher at an EpochStarted, and the same otherwise. The time has not gone back. The zero Header is before
// the first entry, which is an EpochStarted.
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
