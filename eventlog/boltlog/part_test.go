package boltlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// A log that is made from a part of another continues its chain and its tree.
func TestALogMadeFromAPartContinuesItsChainAndTree(t *testing.T) {
	whole, err := OpenReadOnly(newSegments(t, 3, 10))
	must(t, err)
	defer whole.Close()
	for _, from := range []uint64{0, 1, 9, 10, 17, 30} {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			origin, err := eventlog.OriginAt(context.Background(), whole, from)
			must(t, err)
			path := filepath.Join(t.TempDir(), "part.log")
			l, err := everyAppend.CreateFrom(path, origin)
			must(t, err)
			wantEntries(t, l, from+1, from)
			for last := from; last < from+12; last += 3 {
				must(t, l.Append(context.Background(), last, logtest.Entries(last+1, 3)))
			}
			last, _ := l.Last()
			wantEntries(t, l, from+1, last)
			must(t, l.Close())
			openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, from+1, last) })
			if from == 0 {
				if _, err := os.Stat(filepath.Join(path, originName)); err == nil {
					t.Error("a whole log says that it is not")
				}
				return
			}
			_, err = Archive(path, from+7, path+".old", nil)
			must(t, err)
			openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) { wantEntries(t, l, from+1, last) })
			must(t, os.RemoveAll(path+".old"))
			openBoth(t, DefaultOptions(), path, func(t *testing.T, l *Log) {
				wantEntries(t, l, from+7, last)
				for seq, dirs := range map[uint64]int{from: 0, from + 1: 1} {
					var archived *eventlog.ArchivedError
					if errors.As(onlyError(l.Read(context.Background(), seq)), &archived); len(archived.Dirs) != dirs {
						t.Errorf("entry %d: %v", seq, archived)
					}
				}
			})
		})
	}
	origin, err := eventlog.OriginAt(context.Background(), whole, 5)
	must(t, err)
	for name, change := range map[string]func(o *eventlog.Origin){
		"another number": func(o *eventlog.Origin) { o.Seq++ },
		"a node missing": func(o *eventlog.Origin) { o.Tree.Nodes = o.Tree.Nodes[1:] },
		"a hash of none": func(o *eventlog.Origin) { o.Seq, o.Tree.Size, o.Tree.Nodes = 0, 0, nil },
	} {
		o := origin
		change(&o)
		if _, err := DefaultOptions().CreateFrom(filepath.Join(t.TempDir(), "a.log"), o); err == nil {
			t.Errorf("%s: a log was made", name)
		}
	}
}

// The log of a running scheduler that was made from a part, and has sealed nothing yet.
func TestALogMadeFromAPartIsReadBesideItsWriter(t *testing.T) {
	whole, err := OpenReadOnly(newSegments(t, 3, 10))
	must(t, err)
	defer whole.Close()
	origin, err := eventlog.OriginAt(context.Background(), whole, 12)
	must(t, err)
	path := filepath.Join(t.TempDir(), "part.log")
	w, err := DefaultOptions().CreateFrom(path, origin)
	must(t, err)
	defer w.Close()
	must(t, w.Append(context.Background(), 12, logtest.Entries(13, 5)))
	r, err := OpenReadOnly(path)
	must(t, err)
	defer r.Close()
	wantEntries(t, r, 13, 12)
}
