package jetstream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A writer that is gone is known to be within some seconds, one that exists is not, and one that was never heard about
// is not said to be gone.
func TestAWriterThatIsGoneIsAbandoned(t *testing.T) {
	s := startServer(t, nil)
	at := addressOf(t, s, "jobs")
	writer, err := at.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	reader, err := at.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	if err := reader.Announce("x"); !errors.Is(err, eventlog.ErrReadOnly) {
		t.Errorf("a reader announces itself: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if name, err := reader.Abandoned(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a writer that never answered is abandoned: %q, %v", name, err)
	}
	must(t, writer.Announce("writer-1"))
	short, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if name, err := reader.Abandoned(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a writer that answers is abandoned: %q, %v", name, err)
	}
	gone := make(chan string, 1)
	go func() {
		name, err := reader.Abandoned(t.Context())
		if err != nil {
			name = err.Error()
		}
		gone <- name
	}()
	time.Sleep(time.Second)
	must(t, writer.Close())
	if name := <-gone; name != "writer-1" {
		t.Errorf("abandoned is %q, want writer-1", name)
	}
}

// A standby without the permission to ask gets an error, and does not wait.
func TestAWriterThatMayNotBeAskedFor(t *testing.T) {
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "all", Password: "p"},
			{Username: "few", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"rollcall.jobs.>"}},
			}},
		}
	})
	all := parse(t, "nats://all:p@"+s.Addr().String()+"/jobs?replicas=1")
	writer, err := all.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer writer.Close()
	few := parse(t, "nats://few:p@"+s.Addr().String()+"/jobs?replicas=1")
	reader, err := few.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := reader.Abandoned(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("error %v, want that it is denied", err)
	}
}
