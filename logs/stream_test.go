package logs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// startNATS starts a server with JetStream and returns its address.
func startNATS(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.Addr().String()
}

func TestALogInAStreamIsKeptAndReadByItsName(t *testing.T) {
	name := fmt.Sprintf("nats://%s/jobs?replicas=1", startNATS(t))
	if _, err := (logs.KeepOptions{}).Continue(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is no stream: error %v", err)
	}
	kept, err := logs.KeepOptions{}.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (logs.KeepOptions{}).Create(t.Context(), name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("there is a log: error %v", err)
	}
	if n := kept.Replicas(); n != 1 {
		t.Errorf("%d servers keep it, want 1", n)
	}
	entries := logstest.WellFormed(40)
	if err := kept.Append(t.Context(), 0, entries); err != nil {
		t.Fatal(err)
	}
	source, err := logs.Options{}.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	n := 0
	for _, err := range source.Read(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	size, err := source.Size()
	if n != 40 || err != nil || size.Files != 2 || size.Bytes == 0 {
		t.Errorf("%d entries, size %+v, error %v, want 40 entries in 2 messages", n, size, err)
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	again, err := logs.KeepOptions{}.Continue(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := again.Last(); last != 40 || err != nil {
		t.Errorf("it ends with entry %d, error %v", last, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatALogInAStreamDoesNotHaveIsRefused(t *testing.T) {
	const name = "nats://me:secret@127.0.0.1:1/jobs"
	for what, open := range map[string]func() error{
		"--archive": func() error {
			_, err := logs.Options{Archives: []string{"a"}}.Open(t.Context(), name)
			return err
		},
		"--segment-size": func() error {
			_, err := logs.KeepOptions{SegmentBytes: 1}.Create(t.Context(), name)
			return err
		},
		"log copy": func() error {
			_, err := logs.Path(name)
			return err
		},
		"want nats://": func() error {
			_, err := logs.Options{}.Open(t.Context(), "nats://me:secret@127.0.0.1:1/jobs?replica=1")
			return err
		},
	} {
		err := open()
		var request *logs.RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(),
			"secret") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// A log that is copied to a stream, in two turns, and back to a directory has the same records in all three.
func TestACopyHasTheSameRecords(t *testing.T) {
	dir, back := logstest.Segmented(t, logstest.WellFormed(90), 30), filepath.Join(t.TempDir(), "back")
	stream := fmt.Sprintf("nats://%s/jobs?replicas=1", startNATS(t))
	for _, c := range []struct {
		from, to    string
		upTo, added uint64
	}{{dir, stream, 40, 40}, {dir, stream, 0, 50}, {dir, stream, 0, 0}, {stream, back, 0, 90}} {
		made, err := logs.Options{}.Copy(t.Context(), c.from, c.to, c.upTo, logs.KeepOptions{})
		if err != nil || made.Added != c.added {
			t.Fatalf("copy %s to %s: %+v, error %v, want %d entries added", c.from, c.to, made, err, c.added)
		}
	}
	want := recordsOf(t, dir)
	for _, name := range []string{stream, back} {
		if got := recordsOf(t, name); !slices.Equal(got, want) {
			t.Errorf("%s has other records", name)
		}
	}
	other := logstest.Segmented(t, logstest.WellFormed(7), 30)
	var request *logs.RequestError
	if _, err := (logs.Options{}).Copy(t.Context(), other, stream, 0, logs.KeepOptions{}); !errors.As(err, &request) {
		t.Errorf("a copy to a longer log: error %v", err)
	}
}

// recordsOf returns the records of a log.
func recordsOf(t *testing.T, name string) (records []string) {
	t.Helper()
	source, err := logs.Options{}.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for r, err := range source.Records(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, string(r.Bytes))
	}
	return records
}
