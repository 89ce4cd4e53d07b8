package boltlog

import (
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/internal/crashfs"
)

// The search of crash states must be able to fail. Here a sync that the run made is taken out of the recording,
// as if the program had forgotten it: the search has to find what that loses.
func TestAForgottenSyncIsFound(t *testing.T) {
	r := recordRun(t)
	after := func(i int, kind crashfs.Kind) bool { return i >= 0 && i < len(r) && r[i].Kind == kind }
	acked := func(i int) bool { return after(i, crashfs.Note) && strings.HasPrefix(r[i].Text, noteAcked) }
	metaPage := func(i int) bool {
		return after(i, crashfs.Write) && r[i].Offset < 2*pageSize && len(r[i].Data) == pageSize
	}
	for _, tc := range []struct {
		name string
		is   func(i int) bool
		want string
	}{
		{"of a commit's pages, before the page that makes them count", func(i int) bool {
			return !metaPage(i-1) && after(i-1, crashfs.Write) && metaPage(i+1) && after(i+2, crashfs.Sync) &&
				acked(i+3)
		}, ""},
		{"of the page that makes a commit count", func(i int) bool { return metaPage(i-1) && acked(i+1) },
			"was acknowledged"},
		{"of the directory that a new segment is in", func(i int) bool {
			return after(i-1, crashfs.Link) && !after(i+2, crashfs.Rename)
		}, ""},
		{"of the directory that a new log is in", func(i int) bool { return after(i-1, crashfs.Rename) }, "open"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const enough = 4
			tried := 0
			for i := range r {
				if r[i].Kind != crashfs.Sync || !tc.is(i) || tried == enough {
					continue
				}
				tried++
				faulty := r.Without(i)
				search := crashSearch{
					recording: faulty,
					oracle:    newCrashOracle(t, faulty),
					scratch:   scratchDir(t),
					seed:      1,
					from:      i,
					to:        min(i+20, len(faulty)+1),
					stopAt:    1,
					effort:    crashfs.Effort{Subsets: 4, Tears: 2, LastWrites: 1},
				}
				found := search.run().failures
				if len(found) == 0 {
					t.Errorf(
						"without operation %d (%s), which follows %q, no state was found to be wrong",
						i,
						r[i],
						r[i-1],
					)
				} else if !strings.Contains(found[0], tc.want) {
					t.Errorf("without operation %d: %s\nwant it to say %q", i, found[0], tc.want)
				}
			}
			if tried == 0 {
				t.Error("the run has no such sync")
			}
		})
	}
}
