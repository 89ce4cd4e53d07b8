// Command exam runs the scheduler tests of Kubernetes 1.37 with rollcall run in kube-scheduler's place, and reports
// the results. The tests are the ones of k8s.io/kubernetes/test/integration, unchanged; the script that builds and
// runs them lies beside a checkout, in ../shared/upstream-exam. Without it no test is run, and the command says so.
//
//	go run ./exam                              every test that kube-scheduler was tried with as another process
//	go run ./exam --part                       a few of them, for continuous integration
//	go run ./exam scheduler TestHostPorts      a package, or some of its tests
//
// Each test starts an API server of its own, and a scheduler for each of its cases. Rollcall keeps its log on disk,
// and replay must find each log identical.
//
// docs/CONFORMANCE.md has the results, which --table writes, and the reasons of failures, which people write. A case
// that fails without a reason there is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
)

// part has the tests for continuous integration: from the packages that build fastest, such that together they cover
// each path.
var part = []test{
	{"scheduler/podgroup", "TestCPGQueueing"},
	{"scheduler/podgroup", "TestPodGroupSchedulingWithPodAntiAffinity"},
	{"scheduler/podgroup", "TestPodGroupSchedulingWithReadWriteOncePodPVC"},
	{"scheduler/podgroup", "TestWorkloadAwarePreemptionInvocation"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "exam:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	inPart := flag.Bool("part", false, "run only what continuous integration runs")
	table := flag.String("table", "", "write the results of all tests' last runs into this `file`, between its marks")
	readOnly := flag.Bool("read", false, "run nothing: read the results of the last runs again")
	flag.Parse()

	module, err := binaries.ModuleDir()
	if err != nil {
		return err
	}
	root := filepath.Join(module, "..", "..")
	dir := filepath.Join(root, "..", "shared", "upstream-exam")
	peerTable, err := readPeerTable(filepath.Join(dir, "STANDIN.md"))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("Kubernetes' own tests are not run: there is no %s\n", dir)
		return nil
	}
	if err != nil {
		return err
	}
	reasons, err := readReasons(filepath.Join(root, "docs", "CONFORMANCE.md"))
	if err != nil {
		return err
	}
	chosen, err := choose(peerTable, *inPart, flag.Args())
	if err != nil {
		return err
	}
	e := exam{dir: dir, scratch: scratch(), peerTable: peerTable}
	if !*readOnly {
		if err := e.prepare(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, e.close()) }()
	}
	var outcomes []outcome
	for _, t := range chosen {
		o, err := e.take(ctx, t, *readOnly)
		if err != nil {
			return err
		}
		fmt.Println(o)
		outcomes = append(outcomes, o)
	}
	if *table != "" {
		last, err := e.last()
		if err != nil {
			return err
		}
		if err := writeTable(*table, last, peerTable); err != nil {
			return err
		}
	}
	return judge(os.Stdout, outcomes, peerTable, reasons)
}

// choose returns the tests to run: all without plugins of their own, the part, or the ones that the words name.
func choose(peerTable []peerRow, inPart bool, words []string) ([]test, error) {
	if inPart {
		return part, nil
	}
	var all, named []test
	for _, r := range peerTable {
		if !r.ownPlugins {
			all = append(all, r.test)
		}
	}
	if len(words) == 0 {
		return all, nil
	}
	if len(words) > 1 {
		for _, name := range words[1:] {
			named = append(named, test{words[0], name})
		}
		return named, nil
	}
	for _, t := range all {
		if t.pkg == words[0] {
			named = append(named, t)
		}
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("no test of a package %q stands in STANDIN.md", words[0])
	}
	return named, nil
}

// scratch is the folder that the script works in.
func scratch() string {
	if dir := os.Getenv("EXAM_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(os.TempDir(), "rollcall-exam")
}
