package dump_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/kube/dump"
	"github.com/rollcall-sched/rollcall/kube/dump/dumptest"
)

var write = flag.String("write-dump", "", "write a dump of 5,000 nodes and 50,000 pods to this file")

// TestWriteADump makes the file that the time of explain is measured with.
func TestWriteADump(t *testing.T) {
	if *write == "" {
		t.Skip("-write-dump is not given")
	}
	f, err := os.Create(*write)
	if err != nil {
		t.Fatal(err)
	}
	if err := (dumptest.Cluster{Nodes: 5000, Pods: 50000, Pending: 20}).Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "dump.json")
	f, err := os.Create(path)
	if err == nil {
		err = dumptest.Cluster{Nodes: 1000, Pods: 10000, Pending: 20}.Write(f)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	info, _ := os.Stat(path)
	b.SetBytes(info.Size())
	for b.Loop() {
		d, err := dump.Options{Now: time.Now}.Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		if last, _ := d.Last(); last != 11001 {
			b.Fatalf("%d entries", last)
		}
	}
}
