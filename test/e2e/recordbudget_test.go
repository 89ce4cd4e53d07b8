package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// The budget of a recorder.
const (
	budgetMemory = 1 << 30
	budgetCPU    = 0.10 // of one processor
	budgetRate   = 200  // changes a second
)

// TestARecorderKeepsItsBudget records 5,000 nodes and 50,000 pods on a real API server, and then 200 changes a second
// for two minutes. It takes minutes, and is skipped without ROLLCALL_BUDGET. ROLLCALL_BUDGET=100x1000x30 has 100 nodes,
// 1,000 pods and 30 seconds.
func TestARecorderKeepsItsBudget(t *testing.T) {
	text := os.Getenv("ROLLCALL_BUDGET")
	if text == "" || schedulers.Choice() != binaries.Rollcall {
		t.Skip("skipped: it measures for minutes; set ROLLCALL_BUDGET=5000x50000x120")
	}
	size := budgetSize{nodes: 5000, pods: 50000, seconds: 120}
	if _, err := fmt.Sscanf(text, "%dx%dx%d", &size.nodes, &size.pods, &size.seconds); err != nil && text != "1" {
		t.Fatalf("ROLLCALL_BUDGET is %q: want NODESxPODSxSECONDS", text)
	}
	c := cluster.ForTest(t, cluster.Options{CheapAudit: true})
	config := rest.CopyConfig(c.Config())
	config.QPS = -1
	w := &budgetWorld{T: t, budgetSize: size, client: kubernetes.NewForConfigOrDie(config)}
	names := nodes.ForTest(t, config, nodes.Options{Count: size.nodes, Heartbeat: -1, WithoutPods: true}).Names()
	w.create(names)

	log := filepath.Join(c.Dir(), "recording")
	command := []string{rollcallRun(t)[0], "record", "--log=" + log, "--kubeconfig=" + c.Kubeconfig(),
		"--secure-port=0"}
	if profile := os.Getenv("ROLLCALL_PROFILE"); profile != "" {
		command = append(command, "--cpuprofile="+profile)
	}
	p := cluster.NewProcess("recorder", filepath.Join(c.Dir(), "recorder"), command,
		[]string{"GOMEMLIMIT=900MiB"}, func(context.Context) error { return recordedAtLeast(log, size.pods) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	listed := w.usage(p)
	t.Logf("listed %d nodes and %d pods in %s: %s of CPU, %d MiB now, %d MiB at most", size.nodes, size.pods,
		time.Since(began).Round(time.Second), listed.CPU, listed.Memory>>20, listed.PeakMemory>>20)
	time.Sleep(10 * time.Second)
	before, from := w.usage(p), time.Now()
	changes := w.change(names)
	after, took := w.usage(p), time.Since(from)
	share := float64(after.CPU-before.CPU) / float64(took)
	t.Logf("%d changes in %s (%.0f a second): %.1f %% of a processor, %d MiB now (of its own: %s), %d MiB at most",
		changes, took.Round(time.Second), float64(changes)/took.Seconds(), 100*share, after.Memory>>20, ownMemory(p),
		after.PeakMemory>>20)
	if after.PeakMemory > budgetMemory {
		t.Errorf("the recorder took %d MiB: its budget is %d", after.PeakMemory>>20, budgetMemory>>20)
	}
	if rate := float64(changes) / took.Seconds(); share > budgetCPU*max(1, rate/budgetRate) {
		t.Errorf("the recorder took %.1f %% of a processor: its budget is %.0f %%", 100*share, 100*budgetCPU)
	}
	if err := p.Terminate(ctx); err != nil {
		t.Error(err)
	}
	if info, err := os.ReadDir(log); err == nil {
		t.Logf("the log has %d files", len(info))
	}
}

type budgetSize struct{ nodes, pods, seconds int }

type budgetWorld struct {
	*testing.T
	budgetSize
	client kubernetes.Interface
}

func (w *budgetWorld) usage(p *cluster.Process) cluster.Usage {
	w.Helper()
	u, err := p.Usage()
	if err != nil {
		w.Fatal(err)
	}
	return u
}

// ownMemory is the resident memory of a process without the pages of files, in /proc's words.
func ownMemory(p *cluster.Process) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return err.Error()
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// recordedAtLeast returns an error until the files of a log have as many bytes as so many pods take.
func recordedAtLeast(log string, pods int) error {
	var size int64
	files, err := filepath.Glob(filepath.Join(log, "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	if err == nil && size < int64(pods)*400 {
		err = fmt.Errorf("the log has %d bytes", size)
	}
	return err
}

// create creates the pods, each bound to a node.
func (w *budgetWorld) create(names []string) {
	w.Helper()
	began := time.Now()
	each(w.T, 32, w.pods, func(i int) error {
		_, err := w.client.CoreV1().Pods("default").Create(w.Context(), w.pod(i, names[i%len(names)]),
			metav1.CreateOptions{})
		return err
	})
	w.Logf("created %d nodes and %d pods in %s", len(names), w.pods, time.Since(began).Round(time.Second))
}

func (w *budgetWorld) pod(i int, node string) *v1.Pod {
	p := (&world{}).pod(fmt.Sprintf("pod-%d", i), "", "100m")
	p.Spec.NodeName = node
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", i%200), "pod-template-hash": "6b54d9f8c"}
	p.Annotations = map[string]string{"example.com/checksum": strings.Repeat("0123456789abcdef", 4)}
	return p
}

// change makes 200 changes a second, and returns how many it made: pods that come, get another status, and go.
func (w *budgetWorld) change(names []string) int {
	w.Helper()
	var made atomic.Int64
	total := w.seconds * budgetRate
	due := time.NewTicker(time.Second / budgetRate)
	defer due.Stop()
	var all sync.WaitGroup
	slots := make(chan struct{}, 32)
	for n := range total {
		<-due.C
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := w.changeOne(n, names); err != nil && !apierrors.IsNotFound(err) {
				w.Error(err)
				return
			}
			made.Add(1)
		})
	}
	all.Wait()
	return int(made.Load())
}

// changeOne makes the nth change. Every tenth creates a pod, every tenth deletes one, and the others change a status.
func (w *budgetWorld) changeOne(n int, names []string) error {
	pods, i := w.client.CoreV1().Pods("default"), n/10
	now := int64(0)
	switch n % 10 {
	case 0:
		_, err := pods.Create(w.Context(), w.pod(w.pods+i, names[i%len(names)]), metav1.CreateOptions{})
		return err
	case 9:
		return pods.Delete(w.Context(), fmt.Sprintf("pod-%d", i), metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
	k := w.pods/2 + n%(w.pods/2)
	status := v1.PodStatus{Phase: v1.PodRunning, StartTime: &metav1.Time{Time: time.Now()},
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		ContainerStatuses: []v1.ContainerStatus{{Name: "c", Image: "registry.k8s.io/pause:3.10", RestartCount: int32(n),
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = pods.Patch(w.Context(), fmt.Sprintf("pod-%d", k), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

// each calls f with the numbers below count, so many at a time.
func each(t *testing.T, workers, count int, f func(int) error) {
	t.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count || t.Context().Err() != nil {
					return
				}
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
