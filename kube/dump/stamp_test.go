package dump

import (
	"testing"
	"time"
)

// TestASlowWriteDelaysNoOther has a write whose answer took ten seconds, and one that came and was answered meanwhile.
func TestASlowWriteDelaysNoOther(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	slow, quick := &event{came: at(1), at: at(11)}, &event{came: at(3), at: at(4)}
	stamp([]*found{{event: slow}, {event: quick}})
	if !slow.at.Equal(at(3)) || !quick.at.Equal(at(4)) {
		t.Errorf("the writes are of %s and %s", slow.at, quick.at)
	}
}
