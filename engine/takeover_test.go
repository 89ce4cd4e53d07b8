package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
)

// Two engines have the same stream. The second, once its EpochStarted is in, has the log: what the first decides then
// is not in the log, and it gives out no effect of it.
func TestAnEngineThatLostItsStreamGivesOutNoEffect(t *testing.T) {
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
	at, err := jetstream.Parse(fmt.Sprintf("nats://%s/jobs?replicas=1", s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	first, err := at.Create(t.Context(), eventlog.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	old := open(t, first, now)
	effects, err := effectsOf(old.Step(t.Context(), now, []eventlog.Payload{node("n1", "4"), pod("a", "1", "")}))
	if err != nil || len(effects) != 1 {
		t.Fatalf("effects %v, error %v, want the bind of a", effects, err)
	}
	second, err := at.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	leader := open(t, second, now)
	effects, err = effectsOf(old.Advance(t.Context(), now, []eventlog.Payload{pod("b", "1", "")}))
	for err == nil {
		if len(effects) > 0 {
			t.Fatalf("the engine that lost its stream gives out %v", effects)
		}
		<-old.Appended()
		effects, err = effectsOf(old.Advance(t.Context(), now, nil))
	}
	var superseded *eventlog.SupersededError
	var appending *engine.AppendError
	if !errors.As(err, &superseded) || !errors.As(err, &appending) || superseded.Epoch != 2 || len(effects) > 0 {
		t.Errorf("effects %v, error %v, want none and that epoch 2 has the log", effects, err)
	}
	effects, err = effectsOf(leader.Step(t.Context(), now, []eventlog.Payload{pod("c", "1", "")}))
	if err != nil || len(effects) != 2 { // the effect of a, which has no result yet, and the effect of c
		t.Errorf("the one that has it: effects %v, error %v, want the binds of a and c", effects, err)
	}
	verify(t, second, false)
}
