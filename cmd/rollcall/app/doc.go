// Package app is the command line of rollcall: simulate a workload, schedule a cluster, replay a log, explain a
// decision. A program is the root command that NewCommand returns, executed by Run:
//
//	func main() { os.Exit(app.Run(app.NewCommand())) }
//
// The package wires the others together, and owns flags, exit codes and what is printed. Each subcommand has a file of
// its own; exit.go turns errors into exit codes.
//
// Start reading at root.go.
package app
