package scheduler_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// oldLogs is the test data of package compat.
const oldLogs = "../test/compat/testdata"

func TestEpochsOfOtherBehavioursAreRefused(t *testing.T) {
	older := ", before the first release of Rollcall: this version knows behaviour 10 and later: " +
		"read it with the program that wrote it, or with one built from commit " + eventlog.LastPrerelease
	for number, want := range map[uint32]string{
		0: "behaviour 1" + older, // the first one recorded no number
		1: "behaviour 1" + older,
		9: "behaviour 9" + older,
		scheduler.Behaviour + 1: fmt.Sprintf("behaviour %d, and this version knows behaviours up to %d: "+
			"use a newer version", scheduler.Behaviour+1, scheduler.Behaviour),
	} {
		m := scheduler.New(transcripts.Registry())
		err := m.Apply(eventlog.Entry{Seq: 1, Epoch: 1, Payload: &eventlog.EpochStarted{
			ID: "e", Version: "v", Behaviour: number, Config: defaultConfig(t),
		}})
		want = "apply entry 1: it was decided by " + want
		if err == nil || err.Error() != want {
			t.Errorf("%d: it is applied with %v, want %s", number, err, want)
		}
		var unknown *scheduler.BehaviourError
		if !errors.As(err, &unknown) || unknown.Lowest != 10 || unknown.Highest != scheduler.Behaviour {
			t.Errorf("%d: the error is %#v", number, err)
		}
	}
}

func TestBehavioursAreInAscendingOrderUpToTheCurrentOne(t *testing.T) {
	for i, rules := range scheduler.Behaviours {
		if rules.Number < 10 || i > 0 && rules.Number <= scheduler.Behaviours[i-1].Number || rules.Plugins == "" ||
			len(rules.Changed) == 0 {
			t.Errorf("row %d is %+v", i, rules)
		}
	}
	if last := scheduler.Behaviours[len(scheduler.Behaviours)-1]; last.Number != scheduler.Behaviour || !last.Kept {
		t.Errorf("the last row is %+v, and this version decides by number %d", last, scheduler.Behaviour)
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
	want := scheduler.Behaviours[len(scheduler.Behaviours)-1].Plugins
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
