package queue

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// manyGangs returns a queue of 10,000 gangs of 22, the first 5,000 of them unschedulable, 20 s later.
func manyGangs(b *testing.B, p Profile, change ...func(*Options)) *Queue {
	q := newQueue(b, p, change...)
	for g := range 10_000 {
		key := addGang(q, fmt.Sprintf("g%05d", g), 22)
		if g < 5_000 {
			fail(q, key, "Fit", "Gang")
		}
	}
	q.SetTime(epoch + 20*sec)
	return q
}

// BenchmarkMove measures one event told to a queue with 5,000 unschedulable gangs of 22 pods.
func BenchmarkMove(b *testing.B) {
	skip := says(fwk.QueueSkip, nil)
	one := fwk.ClusterEventWithHint{Event: podDelete, QueueingHintFn: skip,
		PreQueueingHintFn: func(klog.Logger, any, any) (fwk.PreQueueingHintResult, error) {
			return fwk.PreQueueingHintResult{Pods: []types.NamespacedName{{Namespace: "ns", Name: "g00007-3"}}}, nil
		}}
	for _, c := range []struct {
		name  string
		hints map[string][]fwk.ClusterEventWithHint
	}{
		{"nobody registered the event", hints("Fit", on(nodeAdd, skip), "Gang")},
		{"the hint names one pod", hints("Fit", "Gang", one)},
		{"every member's hint says skip", hints("Fit", on(podDelete, skip), "Gang")},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := manyGangs(b, Profile{Hints: c.hints})
			obj := any(&v1.Pod{})
			q.Move(podDelete, obj, nil)
			b.ReportAllocs()
			for b.Loop() {
				q.Move(podDelete, obj, nil)
			}
		})
	}
}

// BenchmarkFullCluster measures an event that would retry every unschedulable gang, when none has room: the
// steady state of a cluster with more work than it can do.
func BenchmarkFullCluster(b *testing.B) {
	for _, c := range []struct {
		name   string
		bumped bool
	}{{"room may have grown", true}, {"room has not grown", false}} {
		b.Run(c.name, func(b *testing.B) {
			free, version := 21, uint64(0)
			q := manyGangs(b, Profile{Hints: hints("Fit", on(podDelete, nil), "Gang")}, func(o *Options) {
				o.Room = func(e *Entity) bool { return e.NumReady() <= free }
				o.RoomVersion = func() uint64 { return version }
			})
			for q.ChooseHead(); q.Head() != nil; q.ChooseHead() {
				fail(q, q.Head().Key(), "Fit", "Gang")
			}
			q.SetTime(epoch + 40*sec)
			obj := any(&v1.Pod{})
			q.Move(podDelete, obj, nil)
			q.ChooseHead()
			b.ReportAllocs()
			for b.Loop() {
				q.Move(podDelete, obj, nil)
				if c.bumped {
					version++
				}
				q.ChooseHead()
			}
			if q.Head() != nil || q.Counts().Unschedulable != 10_000 {
				b.Fatal("this is not the case to be measured")
			}
		})
	}
}

// BenchmarkAttempt measures a gang's whole way: retried, attempted, failed.
func BenchmarkAttempt(b *testing.B) {
	q := manyGangs(b, Profile{Hints: hints("Fit", on(podDelete, nil), "Gang")})
	b.ReportAllocs()
	for b.Loop() {
		if q.Head() == nil {
			q.SetTime(q.now + 20*sec)
			q.Move(podDelete, nil, nil)
		}
		q.ChooseHead()
		fail(q, q.Head().Key(), "Fit", "Gang")
	}
}

// BenchmarkAppendState measures the encoding of 10,000 gangs of 22 pods.
func BenchmarkAppendState(b *testing.B) {
	q := manyGangs(b, Profile{})
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = q.AppendState(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}
