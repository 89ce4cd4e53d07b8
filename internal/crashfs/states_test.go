package crashfs

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// replaced is the textbook way to replace a file: write another, sync it, rename it, sync the directory.
var replaced = Recording{
	{Kind: Create, File: 1, Name: "a"},
	{Kind: Write, File: 1, Data: []byte(strings.Repeat("old.", 300))},
	{Kind: Sync, File: 1},
	{Kind: Sync, File: Root},
	{Kind: Create, File: 2, Name: "a.tmp"},
	{Kind: Write, File: 2, Data: []byte(strings.Repeat("new.", 300))},
	{Kind: Sync, File: 2},
	{Kind: Rename, File: 2, Name: "a", OldName: "a.tmp"},
	{Kind: Sync, File: Root},
}

func TestWhatASyncCoversIsNotPending(t *testing.T) {
	for ops, want := range [][]int{{}, {0}, {0, 1}, {0}, {}, {4}, {4, 5}, {4}, {4, 7}, {}} {
		if got := replaced.Pending(ops); !slices.Equal(got, want) {
			t.Errorf("after %d operations %v are pending, want %v", ops, got, want)
		}
	}
}

// contents returns the contents of file a in each state of a recording from one moment on; "-" if it does not exist.
func contents(t *testing.T, r Recording, from int) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	disk := NewDisk(r)
	chance := rand.New(rand.NewPCG(1, 2))
	for ops := from; ops <= len(r); ops++ {
		for s := range r.Moment(ops, Effort{Subsets: 3, Tears: 6, LastWrites: 2}, chance) {
			dir := t.TempDir()
			if err := disk.Content(s).Build(dir); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(filepath.Join(dir, "a"))
			if err != nil {
				found["-"] = true
				continue
			}
			found[string(content)] = true
		}
	}
	return found
}

func TestAFileReplacedAsItShouldBeIsTheOldOrTheNewOne(t *testing.T) {
	old, new := strings.Repeat("old.", 300), strings.Repeat("new.", 300)
	if got := contents(t, replaced, 4); len(got) != 2 || !got[old] || !got[new] {
		t.Errorf("%d contents: %v", len(got), got)
	}
}

func TestAFileReplacedWithoutASyncMayBeEmptyTornOrMissing(t *testing.T) {
	got := contents(t, replaced.Without(6), 4)
	if !got[""] {
		t.Error("it is never empty")
	}
	torn := false
	for content := range got {
		torn = torn || strings.HasPrefix(content, "new.") && strings.Contains(content, "\x00")
	}
	if !torn {
		t.Error("it is never torn")
	}
	if got := contents(t, replaced.Without(3), 3); !got["-"] {
		t.Error("without a sync of its directory it is never missing")
	}
}

func TestStatesOfAMomentDoNotDependOnThoseBefore(t *testing.T) {
	disk := NewDisk(replaced)
	for _, ops := range []int{9, 2, 6, 6, 0, 8} {
		s := State{Ops: ops, Lost: replaced.Pending(ops)}
		if got, want := disk.Content(s).Sum(), NewDisk(replaced).Content(s).Sum(); got != want {
			t.Errorf("after %d operations the content depends on what was asked before", ops)
		}
	}
}

func TestTruncatedBytesComeBackAsZeros(t *testing.T) {
	r := Recording{
		{Kind: Create, File: 1, Name: "a"},
		{Kind: Write, File: 1, Data: []byte("abcdef")},
		{Kind: Truncate, File: 1, Offset: 2},
		{Kind: Write, File: 1, Offset: 4, Data: []byte("x")},
		{Kind: Sync, File: 1}, {Kind: Sync, File: Root},
	}
	if got := contents(t, r, len(r)); len(got) != 1 || !got["ab\x00\x00x"] {
		t.Errorf("contents %v", got)
	}
}
