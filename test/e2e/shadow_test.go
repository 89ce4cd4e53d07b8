package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
)

// comparedBinds is the summary of diff --with rollcall.
type comparedBinds struct {
	Binds, Same, Other, Infeasible, Unrated, Tied, Together int
	Ranks                                                   struct{ First, From2To5, From6To20, Beyond20 int }
	Refused                                                 []struct {
		Reason string
		Count  int
	}
}

// TestBindsOfKubeSchedulerAreCompared has kube-scheduler bind 1,000 pods of three sizes to 150 nodes, while nodes are
// cordoned. A shadow runs beside it. For nearly all binds the node is feasible on the state just before, and its rank
// is among the first ones that kube-scheduler's sample has. The metrics of the shadow have the counts of diff. The
// shadow has bound nothing.
func TestBindsOfKubeSchedulerAreCompared(t *testing.T) {
	needsRollcall(t, "the shadow is Rollcall's alone")
	w := newWorldOf(t, true, cluster.Options{}, nodes.Options{
		Count: 150, Capacity: nodes.Capacity("16", "64Gi", "110"), WithoutPods: true,
	})
	o := w.options()
	o.Choice, o.User = binaries.KubeScheduler, "kube-scheduler"
	w.start(o)
	log, port := filepath.Join(w.c.Dir(), "shadow-log"), freePort(t)
	shadow := w.shadow(log, port)

	const pods = 1000
	for batch := range 10 {
		var some []*v1.Pod
		for i := range pods / 10 {
			p := w.pod(fmt.Sprintf("p-%d-%d", batch, i), "", []string{"100m", "500m", "1"}[i%3])
			p.Labels = map[string]string{"app": strconv.Itoa(i % 7)}
			some = append(some, p)
		}
		w.create(some...)
		cordon := []byte(`{"spec":{"unschedulable":true}}`)
		if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), w.nodeName(batch), types.MergePatchType, cordon,
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.waitFor("p-", pods, bound)
	var got struct{ Summary comparedBinds }
	w.untilTrue("the log has all binds", func() (bool, error) {
		out, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], "diff", log, "--with", "rollcall",
			"-o", "json").Output()
		if err != nil {
			return false, err
		}
		return json.Unmarshal(out, &got) == nil && got.Summary.Binds == pods, nil
	})
	s := got.Summary
	text, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], "diff", log, "--with", "rollcall",
		"--show", "5").CombinedOutput()
	t.Logf("%v\n%s", err, text)
	if s.Unrated > 0 || s.Same+s.Other+s.Infeasible != pods || s.Infeasible > pods/50 {
		t.Errorf("%+v", s)
	}
	counted := shadowMetrics(t, port)
	for verdict, want := range map[string]int{"Same": s.Same, "Other": s.Other, "Infeasible": s.Infeasible} {
		if n := counted[`rollcall_shadow_binds_total{verdict="`+verdict+`"}`]; n != want {
			t.Errorf("the metrics have %d binds of verdict %s, diff has %d", n, verdict, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := shadow.Terminate(ctx); err != nil {
		t.Errorf("the shadow ended: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], "explain", log, "pod", "default/p-9-0").Output()
	if err != nil || !strings.Contains(string(out), "nodes were feasible; ") {
		t.Errorf("explain: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	if out, err := exec.CommandContext(t.Context(), rollcallRun(t)[0], "log", "cat", log).Output(); err != nil ||
		strings.Contains(string(out), `"kind":"Decision"`) {
		t.Errorf("log cat: %v; the log has a decision: %v", err, strings.Contains(string(out), `"kind":"Decision"`))
	}
}

// shadow starts a shadow, whose metrics anybody may read, and waits until it is ready.
func (w *world) shadow(log string, port int) *cluster.Process {
	w.Helper()
	kubeconfig, err := w.c.KubeconfigFor("", "shadow", "system:masters")
	if err != nil {
		w.Fatal(err)
	}
	command := []string{rollcallRun(w.T)[0], "run", "--shadow", "--log=" + log, "--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--authorization-always-allow-paths=/readyz,/metrics", fmt.Sprintf("--secure-port=%d", port)}
	ready := func(ctx context.Context) error {
		status, _, err := getOf(ctx, port, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d", status)
		}
		return err
	}
	return startProcess(w.T, filepath.Join(w.c.Dir(), "shadow"), "shadow", command, ready)
}

// getOf asks a process on this machine.
func getOf(ctx context.Context, port int, path string) (status int, text string, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://127.0.0.1:%d%s", port, path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// shadowMetrics returns the shadow's metrics that are whole numbers.
func shadowMetrics(t *testing.T, port int) map[string]int {
	t.Helper()
	status, text, err := getOf(t.Context(), port, "/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatalf("/metrics answers %d, %v", status, err)
	}
	counted := map[string]int{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "rollcall_shadow_") {
			if n, err := strconv.Atoi(value); err == nil {
				counted[name] = n
			}
		}
	}
	return counted
}

// nodeName returns the name of one of the nodes.
func (w *world) nodeName(i int) string {
	w.Helper()
	list, err := w.client.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items[i].Name
}

// untilTrue waits until something holds.
func (w *world) untilTrue(what string, holds func() (bool, error)) {
	w.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		ok, err := holds()
		if ok {
			return
		}
		if time.Since(begun) > patience {
			w.Fatalf("after %v: not yet: %s (%v)", patience, what, err)
		}
	}
}
