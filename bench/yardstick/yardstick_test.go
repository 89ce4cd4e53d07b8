package yardstick

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/bench/workload"
)

var spec = workload.Spec{Nodes: 2, Pods: 100, Shapes: 1}

// The pods of spec have 2 CPUs of 96 and 16 GiB of 768: shares of 1/48 each, so the allocation stays balanced. For the
// k-th on a node LeastAllocated gives 100 - 100k/48, rounded down; a balance that is perfect before and after gives 75.
func TestTheScoreIsLeastAllocatedAndBalance(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Event
		want   float64
	}{
		{"nothing", nil, 0},
		{"one pod", []Event{{Pod: 0}}, 97 + 75},
		{"two on one node", []Event{{Pod: 0}, {Pod: 1}}, (97 + 95 + 2*75) / 2.0},
		{"two on two nodes", []Event{{Pod: 0}, {Pod: 1, Node: 1}}, 97 + 75},
		{"one after the other", []Event{{Pod: 0}, {Pod: 0, Left: true}, {Pod: 1}}, 97 + 75},
	} {
		got, err := Rate(context.Background(), spec, c.events)
		if err != nil || math.Abs(got.Mean-c.want) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestRunningMeansAreThoseOfWhatWasTakenSoFar(t *testing.T) {
	wide := workload.Spec{Nodes: 600, Pods: 1200, Shapes: 1}
	var events []Event
	for i := range int32(1100) { // the first 600 find an empty node
		events = append(events, Event{Pod: i, Node: i % 600})
	}
	got, err := Rate(context.Background(), wide, events)
	if err != nil || len(got.Running) != 2 || got.Running[0] != 97+75 ||
		got.Running[1] != (600*(97+75)+400*(95+75))/1000.0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestPlacementsThatCannotBeAreRefused(t *testing.T) {
	full := make([]Event, workload.NodeGPUs+1)
	for i := range full {
		full[i].Pod = int32(i)
	}
	for _, c := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"no room", full, "Insufficient nvidia.com/gpu"},
		{"no such node", []Event{{Node: 2}}, "no such pod or node"},
		{"left without having come", []Event{{Left: true}}, "leaves node-000000"},
	} {
		if _, err := Rate(context.Background(), spec, c.events); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
