package verify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/logstest"
	"github.com/rollcall-sched/rollcall/logs/verify"
)

// A stream that has no leader may have entries that cannot be read. The readable ones are good, and the log is not
// called whole.
func TestALogThatMayHaveMoreIsNotWhole(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	name := fmt.Sprintf("nats://%s/jobs?replicas=1", s.Addr())
	kept, err := logs.KeepOptions{}.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(kept.Append(t.Context(), 0, logstest.WellFormed(40)), kept.Close()); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const cut = "$JS.cut.API."
	_, err = nc.Subscribe(cut+">", func(m *nats.Msg) {
		request := strings.TrimPrefix(m.Subject, cut)
		if !strings.HasPrefix(request, "STREAM.INFO.") {
			_ = nc.PublishRequest("$JS.API."+request, m.Reply, m.Data)
			return
		}
		go func() { // the answer comes by the connection that calls this
			info, err := nc.Request("$JS.API."+request, m.Data, 5*time.Second)
			if err != nil {
				return
			}
			var told map[string]json.RawMessage
			_ = json.Unmarshal(info.Data, &told)
			told["cluster"] = json.RawMessage(`{"leader":""}`)
			answer, _ := json.Marshal(told)
			_ = m.Respond(answer)
		}()
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	var reports []string
	opts := verify.Options{Options: logs.Options{Report: func(message string) { reports = append(reports, message) }}}
	r, err := verify.Run(t.Context(), name+"&domain=cut&patience=500ms", opts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Whole || r.Entries != 40 || !strings.Contains(r.Unread, jetstream.ErrNoMajority.Error()) || r.Err() == nil {
		t.Errorf("whole %t, %d entries, unread %q, error %v", r.Whole, r.Entries, r.Unread, r.Err())
	}
	text, want := strings.Join(reports, "; "), "read up to entry 40, behind which there may be more"
	if !strings.Contains(text, want) {
		t.Errorf("reported %q, want %q", text, want)
	}
}
