package scheduler_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/compat"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// oldLogs is the test data of package compat.
const oldLogs = "../test/compat/testdata"

var searches = []string{"domain", "first", "room"}

// TestAnotherSearchRecoversTheSameStates recovers every log with a Machine whose current rules look for domains of
// nodes, for the first entity of a lane and for room, and find something else than this version does. Epochs of
// behaviour 1 are applied by their own rules, later ones by what stands in their decisions: the states are those that
// were recorded.
func TestAnotherSearchRecoversTheSameStates(t *testing.T) {
	compat.Each(t, oldLogs, func(t *testing.T, l *compat.Log) {
		// Behaviour 1 searches when it applies.
		mutate := func(m *scheduler.Machine) {
			for behaviour := uint32(2); behaviour <= scheduler.Behaviour; behaviour++ {
				m.Mutate(behaviour, searches...)
			}
		}
		m := l.Start(t)
		mutate(m)
		l.Run(t, m)
		// any order: each by itself
		for seq := range l.Snapshots {
			m := l.Restore(t, seq)
			mutate(m)
			l.Run(t, m)
		}
	})
}

// TestTheOtherSearchesAreNoticed shows that the mutations of the test above are of what Apply would notice: in epochs
// of behaviour 1 it looks for the same things, and each mutation brings some of those logs into other states.
func TestTheOtherSearchesAreNoticed(t *testing.T) {
	for _, what := range searches {
		other := 0
		compat.Each(t, oldLogs, func(t *testing.T, l *compat.Log) {
			m := l.Start(t)
			if strings.Contains(t.Name(), "behaviour1/") {
				m.Mutate(1, what)
				if l.Compare(m) != nil {
					other++
				}
			}
		})
		if other == 0 {
			t.Errorf("no log of behaviour 1 notices another %s", what)
		}
		t.Logf("%d logs notice another %s", other, what)
	}
}

// TestAnotherSearchLeavesTheStatesOfEveryStory plays the stories of package transcripts: after each entry the state is
// the same, whatever is searched for, and whether somebody asks for decisions in between or not.
func TestAnotherSearchLeavesTheStatesOfEveryStory(t *testing.T) {
	err := filepath.WalkDir("../test/transcripts/testdata", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Run(d.Name(), func(t *testing.T) { searchOtherwise(t, transcripts.PlayFile(t, path)) })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func searchOtherwise(t *testing.T, entries []eventlog.Entry) {
	usual, other := scheduler.New(transcripts.Registry()), scheduler.New(transcripts.Registry())
	other.Mutate(scheduler.Behaviour, searches...)
	for _, e := range entries {
		other.Decide(nil)
		if err := errors.Join(usual.Apply(e), other.Apply(e)); err != nil {
			t.Fatal(err)
		}
		if usual.Hash() != other.Hash() {
			t.Fatalf("after entry %d the state depends on what is searched for", e.Seq)
		}
	}
}

func TestAnEpochOfANewerBehaviourIsRefused(t *testing.T) {
	m := scheduler.New(transcripts.Registry())
	err := m.Apply(eventlog.Entry{Seq: 1, Epoch: 1, Payload: &eventlog.EpochStarted{
		ID: "e", Version: "v", Behaviour: scheduler.Behaviour + 1, Config: defaultConfig(t),
	}})
	want := fmt.Sprintf("apply entry 1: it was decided by behaviour %d, and this version knows behaviours up to %d: "+
		"use a newer version", scheduler.Behaviour+1, scheduler.Behaviour)
	if err == nil || err.Error() != want {
		t.Errorf("it is applied with %v, want %s", err, want)
	}
}

func TestBehavioursAreNumberedFrom1ToTheCurrentOne(t *testing.T) {
	for i, rules := range scheduler.Behaviours {
		if rules.Number != uint32(i+1) || rules.Plugins == "" || len(rules.Changed) == 0 {
			t.Errorf("row %d is %+v", i, rules)
		}
	}
	if n := len(scheduler.Behaviours); n != scheduler.Behaviour {
		t.Errorf("there are %d behaviours, and this version decides by number %d", n, scheduler.Behaviour)
	}
}

// TestEachBehaviourHasLogs looks for a folder of logs for each behaviour: what RELIABILITY promises of it is examined
// with these.
func TestEachBehaviourHasLogs(t *testing.T) {
	for _, rules := range scheduler.Behaviours {
		folder := fmt.Sprintf("%s/behaviour%d", oldLogs, rules.Number)
		if found, err := filepath.Glob(folder + "/*"); err != nil || len(found) == 0 {
			t.Errorf("there are no logs of behaviour %d in %s, error %v", rules.Number, folder, err)
		}
	}
}

// TestTheBehaviourNamesItsPlugins compares go.mod with the last behaviour: with other plugins, Apply may put an entity
// elsewhere in the queue, so a new version of Kubernetes is a new behaviour.
func TestTheBehaviourNamesItsPlugins(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := scheduler.Behaviours[scheduler.Behaviour-1].Plugins
	for _, required := range mod.Require {
		if required.Mod.Path == "k8s.io/kubernetes" {
			if required.Mod.Version != want {
				t.Errorf("go.mod has %s, behaviour %d has %s", required.Mod.Version, scheduler.Behaviour, want)
			}
			return
		}
	}
	t.Error("go.mod does not require k8s.io/kubernetes")
}
