// Command bench measures Rollcall and kube-scheduler side by side: the same workloads, each run in a process of its
// own, the two taking turns.
//
// It owns the scenarios, and what is made of the measurements: a table and charts. How one run is measured is
// bench/throughput's and bench/peer's.
//
// Start reading at newPeer.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(logr.Discard()) // nobody reads it here, and writing it would be measured
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure Rollcall and kube-scheduler side by side",
		Example:       "  bench peer --rounds 5 --table PEER.md --chart peer.svg\n  bench curve --chart curve.svg",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newPeer(), newCurve(), newRun(), newServers())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}
