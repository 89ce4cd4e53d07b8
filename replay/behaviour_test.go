package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// readAll reads the entries as a log would.
func readAll(entries []eventlog.Entry) func(yield func(eventlog.Entry, error) bool) {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestADecisionThatChangedRulesMakeDifferentIsNotCountedAsDivergence(t *testing.T) {
	entries := gangLog(t)
	at := decisions(entries)[0]
	changed := *entries[at].Payload.(*eventlog.Decision)
	changed.Score++
	entries[at].Payload = &changed
	behaviours := slices.Clone(scheduler.Behaviours)
	behaviours[len(behaviours)-1].Kept = false
	behaviours = append(
		behaviours,
		scheduler.Rules{Number: scheduler.Behaviour + 1, Changed: []string{"Scores are lower."}, Kept: true},
	)
	report, err := replay.Verify(
		t.Context(),
		readAll(entries),
		replay.Options{Registry: plugins.NewRegistry(), Behaviours: behaviours},
	)
	if err != nil {
		t.Fatal(err)
	}
	if report.Diverged != 0 || report.Identical() || len(report.OtherRules) != 1 {
		t.Fatalf("%+v", report)
	}
	want := fmt.Sprintf("decided by behaviour %d, this version decides by %d: 1 decisions differ, by rules that were "+
		"changed\n  Scores are lower.", scheduler.Behaviour, scheduler.Behaviour+1)
	other := report.OtherRules[0]
	if other.String() != want || other.Differences[0].Field != "score" {
		t.Errorf("%s\n%+v", other.String(), other.Differences)
	}
}

func TestAnEpochOfANewerBehaviourIsNoDivergence(t *testing.T) {
	entries := gangLog(t)
	epoch := *entries[0].Payload.(*eventlog.EpochStarted)
	epoch.Behaviour = scheduler.Behaviour + 1
	entries[0].Payload = &epoch
	_, err := replay.Verify(t.Context(), readAll(entries), replay.Options{Registry: plugins.NewRegistry()})
	if newer := (*scheduler.BehaviourError)(nil); !errors.As(err, &newer) {
		t.Errorf("it is verified with %v", err)
	}
}

// TestAMissingPluginIsNoDivergence: a plugin that this program lacks is named, and is not a fault of the log.
func TestAMissingPluginIsNoDivergence(t *testing.T) {
	registry := plugins.NewRegistry()
	delete(registry.Factories, "TaintToleration")
	report, err := replay.Verify(t.Context(), readAll(gangLog(t)), replay.Options{Registry: registry})
	var missing *framework.MissingPluginError
	if !errors.As(err, &missing) || missing.Plugin != "TaintToleration" || report.Diverged != 0 {
		t.Errorf("it is verified with %v, %d divergences", err, report.Diverged)
	}
}
