// Command rollcall-racks is rollcall with the plugins RackLimit and RackPorts in it, a lane policy and a victim policy:
// all of rollcall's commands know them.
package main

import (
	"os"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"

	"example.com/rack-limit/policies"
	"example.com/rack-limit/racklimit"
	"example.com/rack-limit/rackports"
)

func main() {
	os.Exit(app.Run(app.NewCommand(
		app.WithPlugin(racklimit.Name, racklimit.New),
		app.WithPlugin(rackports.Name, rackports.New),
		app.WithLanePolicy("ReverseNamespaces", policies.NewReverseNamespaces),
		app.WithVictimPolicy("ByAge", policies.NewByAge),
	)))
}
