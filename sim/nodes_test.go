package sim_test

import (
	"time"

	"github.com/rollcall-sched/rollcall/sim/workload"
)

// trouble lets some of the nodes fail, join late, be cordoned or drained, or not answer.
func trouble(nodes []workload.NodePlan) {
	nodes[0].Fails = 13 * time.Minute
	nodes[1].Joins, nodes[1].Fails = 6*time.Minute, 22*time.Minute
	nodes[2].Cordoned, nodes[2].Uncordoned = 7*time.Minute, 40*time.Minute
	nodes[3].Outages = []workload.Outage{{From: 8 * time.Minute, Until: 25 * time.Minute, Unreachable: true},
		{From: 30 * time.Minute}}
	nodes[4].Drained = 9 * time.Minute
}
