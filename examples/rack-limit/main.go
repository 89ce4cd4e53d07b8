// Command rollcall-racks is rollcall with the plugins RackLimit and RackPorts in it: all of rollcall's commands, and
// two plugins more.
package main

import (
	"os"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"

	"example.com/rack-limit/racklimit"
	"example.com/rack-limit/rackports"
)

func main() {
	os.Exit(app.Run(app.NewCommand(
		app.WithPlugin(racklimit.Name, racklimit.New),
		app.WithPlugin(rackports.Name, rackports.New),
	)))
}
