package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// withPlugin is a configuration that enables a plugin of the stories.
func withPlugin(t *testing.T, name string) []byte {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1",
		"kind":"KubeSchedulerConfiguration","profiles":[{"plugins":{"multiPoint":{"enabled":[{"name":"`+name+`"}]}}}]}`),
		"test")
	if err != nil {
		t.Fatal(err)
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestAPluginsMemoryIsRecovered runs the gang story with a plugin that can encode its memory, and with one that cannot.
// The first is recovered from a snapshot. The second is recovered from the whole log, and a message says that there are
// no snapshots of it. The state is the same.
func TestAPluginsMemoryIsRecovered(t *testing.T) {
	for _, name := range []string{"RackLimit", "ForgetfulRackLimit"} {
		t.Run(name, func(t *testing.T) {
			var said []string
			store := &memoryStore{kept: map[uint64][]byte{}}
			log := eventlog.NewMemory()
			w := newWorld(t)
			open := func() *engine.Engine {
				e, err := engine.Open(context.Background(), log, w.now, engine.Options{
					Registry: transcripts.Registry(), Config: withPlugin(t, name), Version: "test", Snapshots: store,
					SnapshotEvery: 1, Report: func(m string) { said = append(said, m) },
				})
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			e, now := open(), w.now
			for _, m := range gangStory() {
				now = now.Add(m.after)
				if _, err := e.Step(context.Background(), now, m.inputs); err != nil {
					t.Fatal(err)
				}
				e.AwaitSnapshot()
			}
			want := e.Machine().Hash()
			e.Close()
			forgetful := strings.Contains(strings.Join(said, "\n"), "has no snapshots")
			if forgets := name == "ForgetfulRackLimit"; forgetful != forgets || (len(store.kept) == 0) != forgets {
				t.Errorf("%d snapshots; it said %q", len(store.kept), said)
			}

			plain := scheduler.New(transcripts.Registry())
			for entry, err := range log.Read(t.Context(), 1) {
				if err == nil {
					err = plain.Apply(entry)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if plain.Hash() != want {
				t.Error("the log alone makes another state")
			}
			again := open()
			defer again.Close()
			if r := again.Recovery(); (r.Snapshot > 0) != (name == "RackLimit") {
				t.Errorf("%v", r)
			}
		})
	}
}
