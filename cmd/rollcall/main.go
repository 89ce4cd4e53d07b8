// Command rollcall is the gang scheduler that can be rewound. Its commands are in package app.
package main

import (
	"os"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"
)

func main() { os.Exit(app.Run(app.NewCommand())) }
