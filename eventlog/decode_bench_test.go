package eventlog_test

import (
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// BenchmarkDecodeRecord measures what reading a log spends on each pod.
func BenchmarkDecodeRecord(b *testing.B) {
	record := encode(b, eventlog.Entry{Seq: 1, Epoch: 1, Time: 1, Payload: &eventlog.Upserted{
		Resource: eventlog.Pods, Object: eventlog.Trim(eventlog.Pods, pod("p"))}}, [32]byte{})
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := eventlog.DecodeRecord(record); err != nil {
			b.Fatal(err)
		}
	}
}
