package eventlog_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

func TestHeadersFollow(t *testing.T) {
	const began, tick = eventlog.KindEpochStarted, eventlog.KindTick
	for _, tc := range []struct {
		name    string
		prev, h eventlog.Header
		ok      bool
	}{
		{"the first entry", eventlog.Header{}, eventlog.Header{Seq: 1, Epoch: 1, Time: -5, Kind: began}, true},
		{"the next entry", eventlog.Header{Seq: 4, Epoch: 2, Time: 7, Kind: tick}, eventlog.Header{Seq: 5, Epoch: 2,
			Time: 7, Kind: tick}, true},
		{"a new epoch", eventlog.Header{Seq: 4, Epoch: 2, Time: 7, Kind: tick}, eventlog.Header{Seq: 5, Epoch: 3,
			Time: 8, Kind: began}, true},
		{"a gap", eventlog.Header{Seq: 4, Epoch: 2}, eventlog.Header{Seq: 6, Epoch: 2, Kind: tick}, false},
		{"time going back", eventlog.Header{Seq: 4, Epoch: 2, Time: 7}, eventlog.Header{Seq: 5, Epoch: 2, Time: 6,
			Kind: tick}, false},
		{"an epoch that nothing started", eventlog.Header{Seq: 4, Epoch: 2}, eventlog.Header{Seq: 5, Epoch: 3,
			Kind: tick}, false},
		{"an epoch passed over", eventlog.Header{Seq: 4, Epoch: 2}, eventlog.Header{Seq: 5, Epoch: 4, Kind: began},
			false},
		{"a beginning without an epoch", eventlog.Header{}, eventlog.Header{Seq: 1, Kind: tick}, false},
	} {
		if err := tc.h.Follows(tc.prev); (err == nil) != tc.ok {
			t.Errorf("%s: error %v, want none: %t", tc.name, err, tc.ok)
		}
	}
}
