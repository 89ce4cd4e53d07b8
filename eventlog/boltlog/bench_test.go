package boltlog

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

func BenchmarkAppend(b *testing.B) {
	for _, batch := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			l, err := Create(filepath.Join(b.TempDir(), "a.log"))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			next := uint64(1)
			for b.Loop() {
				b.StopTimer()
				entries := logtest.Entries(next, batch)
				b.StartTimer()
				if err := l.Append(context.Background(), next-1, entries); err != nil {
					b.Fatal(err)
				}
				next += uint64(batch)
			}
			b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkRotate measures the cost of beginning a segment for an Append of one entry.
func BenchmarkRotate(b *testing.B) {
	l, err := Options{SegmentBytes: 1}.Create(filepath.Join(b.TempDir(), "a.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	next := uint64(1)
	for b.Loop() {
		if err := l.Append(context.Background(), next-1, logtest.Entries(next, 1)); err != nil {
			b.Fatal(err)
		}
		next++
	}
}

func BenchmarkRead(b *testing.B) {
	const total = 100_000
	path := newLog(b, total)
	l, err := OpenReadOnly(path)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.Run("entries", func(b *testing.B) {
		for b.Loop() {
			for _, err := range l.Read(context.Background(), 1) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(total*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
	b.Run("records", func(b *testing.B) {
		for b.Loop() {
			c := cursor{next: 1}
			for c.next <= total {
				if err := c.fill(l.tail, total); err != nil {
					b.Fatal(err)
				}
				c.next += uint64(len(c.ends))
			}
		}
		b.ReportMetric(total*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	})
}
