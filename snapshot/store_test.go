package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/regular"
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
	// A later one may be all that is left of a log that has lost its end.
	if err := d.Put(15, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 15, 20}) {
		t.Errorf("kept %v, want the later one too", got)
	}
	for range 2 {
		if err := d.Drop(20); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 15}) {
		t.Errorf("kept %v after one was dropped", got)
	}
}

func TestOlderSnapshotsAreKeptAtADistance(t *testing.T) {
	put := func(d *snapshot.Dir, from, to uint64) {
		t.Helper()
		for seq := from; seq <= to; seq += 10 {
			if err := d.Put(seq, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spacing, base, to uint64
		want              []uint64
	}{
		"none":                          {0, 0, 300, []uint64{290, 300}},
		"some":                          {100, 0, 340, []uint64{100, 200, 300, 330, 340}},
		"and the one of the beginning":  {100, 135, 340, []uint64{100, 140, 240, 330, 340}},
		"the one of the beginning only": {0, 135, 340, []uint64{140, 330, 340}},
		"which is among the last":       {0, 335, 340, []uint64{330, 340}},
	} {
		t.Run(name, func(t *testing.T) {
			d := snapshot.NewDir(filepath.Join(t.TempDir(), "snapshots"), 2)
			d.Spacing, d.Base = c.spacing, func() (uint64, error) { return c.base, nil }
			put(d, 10, c.to)
			if got := list(t, d); !slices.Equal(got, c.want) {
				t.Errorf("kept %v, want %v", got, c.want)
			}
		})
	}
}

func TestWithoutKnowingWhereTheLogBeginsNothingIsDropped(t *testing.T) {
	d := snapshot.NewDir(filepath.Join(t.TempDir(), "snapshots"), 1)
	unreadable := errors.New("unreadable")
	d.Base = func() (uint64, error) { return 0, unreadable }
	for _, seq := range []uint64{10, 20} {
		if err := d.Put(seq, nil); !errors.Is(err, unreadable) {
			t.Errorf("error %v", err)
		}
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 20}) {
		t.Errorf("kept %v", got)
	}
}

func TestAddDropsNothing(t *testing.T) {
	d := snapshot.NewDir(filepath.Join(t.TempDir(), "snapshots"), 1)
	for _, seq := range []uint64{30, 10, 20} {
		if err := d.Add(seq, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, d); !slices.Equal(got, []uint64{10, 20, 30}) {
		t.Errorf("kept %v", got)
	}
}

func TestOnlyTheOwnerReadsASnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshots")
	d := snapshot.NewDir(path, 1)
	if err := d.Put(1, nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, d.File(1)} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
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

func TestNoSnapshotIsDroppedThroughALink(t *testing.T) {
	there := t.TempDir() + "/elsewhere"
	link := t.TempDir() + "/snapshots"
	if err := snapshot.NewDir(there, 3).Add(7, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(there, link); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.NewDir(link, 3).Drop(7); !errors.Is(err, regular.ErrNotAFile) {
		t.Errorf("%v", err)
	}
	if seqs, err := snapshot.NewDir(there, 3).List(); len(seqs) != 1 || err != nil {
		t.Errorf("%v, %v", seqs, err)
	}
}
