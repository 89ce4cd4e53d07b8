package localapi_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
)

// hanging serves a log and tells nothing more once it has come to an entry, as a process that was stopped.
type hanging struct {
	localapi.Log
	seq   uint64
	until <-chan struct{}
}

func (h hanging) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range h.Log.Records(ctx, from) {
			if r.Seq == h.seq {
				<-h.until
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// serveHanging serves a log of 9000 entries, the last of them in no sealed segment, up to one of them.
func serveHanging(t *testing.T, seq uint64) *served {
	t.Helper()
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), 9000, 0)
	s.stop()
	until := make(chan struct{})
	server, err := localapi.Serve(s.dir, hanging{s.log, seq, until}, "", noTrouble(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(until)
		if err := server.Close(s.dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAReaderDoesNotWaitForEverForASchedulerThatHangs(t *testing.T) {
	defer localapi.SetIdleTime(300 * time.Millisecond)()
	for _, seq := range []uint64{1, 8000} { // before the answer begins, and in the middle
		s := serveHanging(t, seq)
		var failed error
		read := uint64(0)
		for e, err := range s.mustJoin().Read(context.Background(), 1) {
			if failed = err; err == nil {
				read = e.Seq
			}
			if e.Seq == 100 {
				time.Sleep(time.Second) // a reader that is slow itself has not waited
			}
		}
		want := fmt.Sprintf(
			"entry %d: the scheduler (process %d) that writes to %s tells no more",
			read+1,
			os.Getpid(),
			s.dir,
		)
		if failed == nil || !strings.Contains(failed.Error(), want) || read >= seq || seq > 100 && read < 100 {
			t.Errorf("stuck at entry %d, it reads up to %d: error %v, want %q", seq, read, failed, want)
		}
	}
}

func TestAReaderThatIsInterruptedWaitsNoMore(t *testing.T) {
	s := serveHanging(t, 8000)
	sealed, err := boltlog.OpenReadOnly(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	j, err := localapi.Join(ctx, s.dir, sealed, s.open)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, interrupt)
	began := time.Now()
	var failed error
	for _, err := range j.Read(context.Background(), 1) {
		failed = err
	}
	if took := time.Since(began); !errors.Is(failed, context.Canceled) || took > 5*time.Second {
		t.Errorf("after %v: error %v", took, failed)
	}
}
