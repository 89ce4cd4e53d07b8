// Package e2e holds the tests of Rollcall against a real API server: etcd, kube-apiserver and kube-controller-manager
// of Kubernetes 1.37, built from the module cache and started as processes on the loopback interface. With
// ROLLCALL_SOAK=1 there are tests against kube-apiserver 1.31 too, which the module in older/ has.
//
// It is a module of its own, so that its dependencies are none of the product's. Its packages:
//
//   - binaries builds the programs once, into bin/.
//   - cluster starts etcd and kube-apiserver, and kills, suspends and restarts them.
//   - nodes plays the kubelets.
//   - schedulers starts the scheduler that is tested: rollcall run, or kube-scheduler in its place.
//   - accountant reads the API server's audit log and reports what must never happen.
//   - faults is between a scheduler and the API server and breaks answers.
//   - webhook is an admission webhook that refuses binds, statuses and deletions.
//   - exam runs Kubernetes' own scheduler tests with rollcall run in kube-scheduler's place: "make exam".
//   - bench measures schedulers side by side: "make bench-live".
//
// By hand: "make cluster" (or "go run ./cmd/cluster" in this folder) starts a cluster and prints how to use it. In a
// test:
//
//	c := cluster.ForTest(t, cluster.Options{})
//	client := kubernetes.NewForConfigOrDie(c.Config())
//	nodes.ForTest(t, c.Config(), nodes.Options{Count: 10})
//	s := schedulers.ForTest(t, c, schedulers.Options{})
//
// The first use builds the programs, which takes several minutes and 3.5 GB of Go's build cache; they take 330 MB in
// bin/. After that a cluster starts in about 4 seconds.
package e2e
