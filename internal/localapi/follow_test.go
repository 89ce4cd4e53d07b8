package localapi_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A follower receives the existing entries, the new ones, and the ones of the process that takes over the log. When no
// process writes to the log any longer, it returns an error after the last entry.
func TestAFollowerGoesOnUntilNobodyWritesToTheLog(t *testing.T) {
	for _, from := range []uint64{1, many, many + 60} {
		s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
		j := s.mustJoin()
		next := from
		var failed error
		s.append(100)
		for r, err := range j.Follow(t.Context(), from) {
			if failed = err; err != nil {
				break
			}
			if r.Seq != next {
				t.Fatalf("record %d, want %d", r.Seq, next)
			}
			switch next++; r.Seq {
			case many + 100:
				s.append(150)
			case many + 250:
				s.end()
				s.takeOver(40)
			case many + 290:
				s.end()
			}
		}
		if next != many+291 || !errors.Is(failed, eventlog.ErrNotFollowed) {
			t.Errorf("followed from %d: up to %d, error %v, want %d and ErrNotFollowed", from, next-1, failed, many+290)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAFollowerEndsWithItsContext(t *testing.T) {
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
	j := s.mustJoin()
	defer j.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("that was enough")
	last, failed := uint64(0), error(nil)
	for r, err := range j.Follow(ctx, many-2) {
		if failed = err; err == nil {
			last = r.Seq
		}
		if last == many {
			cancel(enough)
		}
	}
	if last != many || !errors.Is(failed, enough) {
		t.Errorf("followed up to %d, error %v, want %d and the context's cause", last, failed, many)
	}
}
