package snapshot_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/snapshot"
)

func list(t *testing.T, d *snapshot.Dir) []uint64 {
	t.Helper()
	seqs, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

func TestADirectoryKeepsTheLastOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshots")
	d := snapshot.NewDir(path, 2)
	if got := list(t, d); len(got) != 0 {
		t.Errorf("a directory that is not there lists %v", got)
	}
	for _, seq := range []uint64{5, 10, 20} {
		if err := d.Put(seq, []byte{byte(seq)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 20}) {
		t.Errorf("kept %v, want the last two", got)
	}
	if data, err := d.Get(20); err != nil || string(data) != "\x14" {
		t.Errorf("got %v, %v", data, err)
	}
	if _, err := d.Get(5); err == nil {
		t.Error("a dropped snapshot is there")
	}
	// The log lost its end, and has come to entry 15 again.
	if err := d.Put(15, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 15}) {
		t.Errorf("kept %v, want what is not beyond the newest", got)
	}
}

func TestADirectoryPassesOverOtherFiles(t *testing.T) {
	path := t.TempDir()
	unfinished := filepath.Join(path, "00000000000000000003.snapshot.tmp")
	for _, name := range []string{unfinished, filepath.Join(path, "README"), filepath.Join(path, "7.snapshot")} {
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d := snapshot.NewDir(path, 3)
	if got := list(t, d); len(got) != 0 {
		t.Errorf("lists %v", got)
	}
	if err := d.Put(9, []byte("y")); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); !slices.Equal(got, []uint64{9}) {
		t.Errorf("lists %v", got)
	}
	if _, err := os.Stat(unfinished); !os.IsNotExist(err) {
		t.Error("what a crash left unfinished is still there")
	}
	if _, err := os.Stat(filepath.Join(path, "README")); err != nil {
		t.Error("a foreign file was removed")
	}
}

func TestAFailedPutLeavesWhatWasThere(t *testing.T) {
	path := t.TempDir()
	d := snapshot.NewDir(path, 3)
	if err := d.Put(1, []byte("old")); err != nil {
		t.Fatal(err)
	}
	// A directory where the file should go: the write fails.
	if err := os.Mkdir(filepath.Join(path, "00000000000000000002.snapshot"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := d.Put(2, []byte("new")); err == nil {
		t.Error("no error")
	}
	if data, err := d.Get(1); err != nil || string(data) != "old" {
		t.Errorf("the old one is %q, %v", data, err)
	}
	if err := snapshot.NewDir(filepath.Join(path, "no", "where"), 1).Put(1, nil); err == nil {
		t.Error("a directory is made in one that is not there")
	}
}
