package jetstream_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// startServer starts a server of its own for a test, with JetStream on, unless change says otherwise.
func startServer(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	}
	if change != nil {
		change(opts)
	}
	return runServer(t, opts)
}

func runServer(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(opts)
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
	return s
}

// addressOf returns the address of a stream on a server, for one replica.
func addressOf(t *testing.T, s *server.Server, stream string) *jetstream.Address {
	t.Helper()
	return parse(t, fmt.Sprintf("nats://%s/%s?replicas=1", s.Addr(), stream))
}

func parse(t *testing.T, name string) *jetstream.Address {
	t.Helper()
	a, err := jetstream.Parse(name)
	must(t, err)
	return a
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConforms(t *testing.T) {
	s := startServer(t, nil)
	n := 0
	logtest.Run(t, logtest.Backend{
		Create: func(t *testing.T, origin eventlog.Origin) eventlog.Log {
			n++
			log, err := addressOf(t, s, fmt.Sprint("log", n)).Create(t.Context(), origin)
			must(t, err)
			return log
		},
		ReadOnly: func(t *testing.T, log eventlog.Log) eventlog.Log {
			again, err := jetstream.AddressOf(log).OpenReadOnly(t.Context())
			must(t, err)
			return again
		},
		TakeOver: func(t *testing.T, log eventlog.Log) eventlog.Log {
			other, err := jetstream.AddressOf(log).Open(context.Background())
			must(t, err)
			return other
		},
	})
}
