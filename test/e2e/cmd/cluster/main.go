// Command cluster starts a Kubernetes cluster on the loopback interface, without containers: etcd, kube-apiserver,
// kube-controller-manager, and nodes that run pods in name only. It has no scheduler; the commands that it prints
// start one. It runs until ^C, and then leaves nothing behind unless --dir says where.
//
//	go run ./cmd/cluster [--nodes 10] [--dir DIR] [--generic-workload] [--controller-manager=false]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
)

// next is printed once the cluster runs.
const next = `
A cluster with %d nodes runs at %s. It has no scheduler yet. ^C ends it.

  export KUBECONFIG=%s
  kubectl get nodes
  rollcall run --kubeconfig $KUBECONFIG --bind-address 127.0.0.1 --log %s

Without kubectl, any client that reads a kubeconfig will do. The servers' outputs and the audit log are in %s.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	var o cluster.Options
	var n nodes.Options
	flag.StringVar(&o.Dir, "dir", "", "folder for the cluster's files; they stay at the end (default: a temporary one)")
	flag.BoolVar(&o.GenericWorkload, "generic-workload", false,
		"feature gate GenericWorkload: PodGroups of scheduling.k8s.io/v1beta1")
	flag.BoolVar(&o.ControllerManager, "controller-manager", true,
		"start kube-controller-manager, for Jobs and the like")
	flag.IntVar(&n.Count, "nodes", 10, "how many nodes, of 16 CPUs, 64Gi of memory and 110 pods each")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: cluster takes flags only, see --help", flag.Arg(0))
	}
	begun := time.Now()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	played, err := nodes.Start(ctx, c.Config(), n)
	if err != nil {
		return err
	}
	defer played.Stop()
	fmt.Fprintf(os.Stderr, "started in %v\n", time.Since(begun).Round(100*time.Millisecond))
	fmt.Printf(next, n.Count, c.URL(), c.Kubeconfig(), c.Dir()+"/rollcall-log", c.Dir())
	<-ctx.Done()
	return nil
}
