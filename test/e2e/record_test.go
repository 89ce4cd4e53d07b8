package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// recordedWorld has the sizes of the cluster that is recorded.
type recordedWorld struct{ nodes, pods int }

// recordedSize is four nodes and some 60 pods; with ROLLCALL_SOAK it is 200 nodes and 2,000 pods.
func recordedSize() recordedWorld {
	if os.Getenv("ROLLCALL_SOAK") == "" {
		return recordedWorld{nodes: 4, pods: 12}
	}
	return recordedWorld{nodes: 200, pods: 480}
}

// TestARecorderHasWhatTheAuditLogHas records a cluster that kube-scheduler schedules, with the service account and the
// rights of deploy/overlays/recorder. The API server is restarted under the recorder, and so is the recorder. Pods are
// created, bound, end, fail, are preempted and drained, also while the recorder is away. The log has each of these
// changes, and each cordon, as the API server's audit log has them: in the same order, and nothing else. So have the
// events of the imported audit log. The log has no decision, and answers claim none. The recorder asked for nothing
// that it has no right to, and has no right that it did not use.
func TestARecorderHasWhatTheAuditLogHas(t *testing.T) {
	if schedulers.Choice() != binaries.Rollcall {
		t.Skip("skipped: the recorder is Rollcall's alone")
	}
	size := recordedSize()
	w := newInstalledWorld(t, size.nodes)
	rights := w.onlyRecords()
	kubeScheduler := schedulers.ForTest(t, w.c, schedulers.Options{
		Choice: binaries.KubeScheduler, User: "kube-scheduler",
		FeatureGates: map[string]bool{"GenericWorkload": true},
	})
	w.recordedHistory(size, kubeScheduler.User)

	// Lists are streamed by default; an older API server does not do that.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	other := w.process("a recorder of another log", rollcallRun(t)[0], "record",
		"--log="+filepath.Join(w.c.Dir(), "another"), "--feature-gates=WatchListClient=false")
	if err := other.Terminate(ctx); err != nil {
		t.Errorf("the recorder of another log ended: %v", err)
	}
	w.rightsAreNeeded(rights)
}

// recordedHistory has two recorders, one after the other, record what a scheduler and others do, and checks the
// recording and the answers of it.
func (w *installedWorld) recordedHistory(size recordedWorld, scheduler string) {
	w.Helper()
	first := w.process("the first recorder", w.recorder()...)
	w.saysWhatTheServerLacks(first)
	w.priority("high", 1000)
	w.create(numbered(w, "early", size.pods, "500m")...)
	w.waitFor("early-", size.pods, bound)

	outage := w.restartAPIServer()
	w.create(numbered(w, "middle", size.pods, "500m")...)
	w.waitFor("middle-", size.pods, bound)
	w.preempted(size.nodes)
	w.cordonAndDrain()
	w.endAndFail(size.pods)

	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	from := time.Now()
	if err := first.Terminate(ctx); err != nil {
		w.Errorf("the first recorder ended: %v", err)
	}
	w.changesMeanwhile(size.pods)
	second := w.process("the second recorder", w.recorder()...)
	meanwhile := away{from, time.Now()}
	for _, p := range numbered(w, "late", size.pods/2, "100m") {
		w.create(p)
	}
	w.waitFor("late-", size.pods/2, bound)
	for _, name := range slices.Sorted(maps.Keys(w.on("early-")))[:4] { // some have been preempted
		w.remove(name)
	}
	w.create(w.pod("wide", "", "100"))
	w.compareWithAuditLog(scheduler, outage, meanwhile)
	w.importedIsTheSame()
	w.answersClaimNoDecision()
	w.answersSayWhoDidIt()
	if err := second.Terminate(ctx); err != nil {
		w.Errorf("the second recorder ended: %v", err)
	}
	w.nothingWasListed(second)
}

// away is a time when no recorder was there.
type away struct{ from, to time.Time }

// reconnected is the time after which watches are there again when the API server was restarted.
const reconnected = 20 * time.Second

// restartAPIServer kills the API server, starts it again, and waits until it answers. The result ends when watches are
// there again.
func (w *installedWorld) restartAPIServer() away {
	w.Helper()
	from := time.Now()
	w.c.APIServer.Kill()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := w.c.APIServer.Restart(ctx); err != nil {
		w.Fatal(err)
	}
	w.until("the API server answers", func(ctx context.Context) (bool, error) {
		_, err := w.pods(ctx, "")
		return err == nil, err
	})
	return away{from, time.Now().Add(reconnected)}
}

// endAndFail runs pods to their ends: half of them fail.
func (w *installedWorld) endAndFail(count int) {
	w.Helper()
	pods := numbered(w, "ends", count, "10m")
	for i, p := range pods {
		p.Annotations = map[string]string{nodes.DurationAnnotation: "1s"}
		if i%2 == 1 {
			p.Annotations[nodes.FailsAnnotation] = "OOMKilled"
		}
	}
	w.create(pods...)
	w.waitFor("ends-", count, func(p *v1.Pod) bool {
		return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
	})
	for i := range count / 3 {
		w.remove(fmt.Sprintf("ends-%d", i))
	}
}

// changesMeanwhile changes pods and a node several times each, while no recorder is there.
func (w *installedWorld) changesMeanwhile(count int) {
	w.Helper()
	w.create(numbered(w, "meanwhile", count/2, "20m")...)
	w.waitFor("meanwhile-", count/2, bound)
	w.remove("meanwhile-0")
	w.create(w.pod("meanwhile-0", "", "20m")) // another one of that name
	w.waitFor("meanwhile-0", 1, bound)
	w.remove("meanwhile-0")
	w.remove("meanwhile-1")
	name := w.nodes.Names()[0]
	for _, unschedulable := range []bool{true, false} {
		patch := []byte(fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, unschedulable))
		if _, err := w.client.CoreV1().Nodes().Patch(w.Context(), name, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

// nothingWasListed checks that a recorder has continued its watches of pods and nodes. No change of theirs since it
// began may be missing in its log. The API server, which was restarted, may not have custom resources from before.
func (w *installedWorld) nothingWasListed(p *cluster.Process) {
	w.Helper()
	out := w.rollcall("events", w.recording(), "--kind", "ChangesMissing,EpochStarted")
	at := strings.LastIndex(out, "epoch 2 started")
	if at < 0 || regexp.MustCompile(`(of|,) (pods|nodes)\b`).MatchString(out[max(at, 0):]) {
		w.Errorf("%s has listed:\n%s", p.Name, out)
	}
}

// rollcall runs a command of rollcall and returns its output.
func (w *installedWorld) rollcall(args ...string) string {
	w.Helper()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(w.Context(), rollcallRun(w.T)[0], args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		w.Errorf("rollcall %s: %v\n%s", strings.Join(args, " "), err, &complaint)
	}
	return string(out)
}

// rightsAreNeeded compares the rights with the ones that the recorders used.
func (w *installedWorld) rightsAreNeeded(rights map[right]bool) {
	w.Helper()
	used, forbidden := w.asked()
	for r := range forbidden { // any order
		if !used[r] { // a server that has just started allows nothing yet
			w.Errorf("the recorder wanted to %s, and was not allowed to", r)
		}
	}
	for r := range rights { // any order
		if !used[r] {
			w.Errorf("the recorder may %s, and never does", r)
		}
	}
	for r := range used { // any order
		if !rights[r] && !delegated[r] {
			w.Errorf("the recorder may %s, by a right from elsewhere", r)
		}
	}
}

// process starts a process of rollcall with the service account, and waits until it is ready.
func (w *installedWorld) process(name string, words ...string) *cluster.Process {
	w.Helper()
	w.port = freePort(w.T)
	command := append(words, "--kubeconfig="+w.kubeconfig, "--authentication-kubeconfig="+w.kubeconfig,
		"--authorization-kubeconfig="+w.kubeconfig, fmt.Sprintf("--secure-port=%d", w.port))
	ready := func(ctx context.Context) error {
		status, text, err := w.get(ctx, "/readyz", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz answers %d: %s", status, text)
		}
		return err
	}
	return startProcess(w.T, filepath.Join(w.c.Dir(), name), name, command, ready)
}

// startProcess starts a process and waits until it is ready. It is killed when the test ends.
func startProcess(t *testing.T, dir, name string, command []string,
	ready func(context.Context) error) *cluster.Process {
	t.Helper()
	p := cluster.NewProcess(name, dir, command, nil, ready)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Output, p.Tail(30))
		}
		p.Kill()
	})
	return p
}

// onlyRecords gives the installed service account the rights of the recorder alone, and returns them.
func (w *installedWorld) onlyRecords() map[right]bool {
	w.Helper()
	file := filepath.Join(manifests, "overlays/recorder/clusterrole.yaml")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(readFile(w.T, file), &role); err != nil {
		w.Fatal(err)
	}
	roles := w.client.RbacV1()
	stands, err := roles.ClusterRoles().Get(w.Context(), role.Name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	stands.Rules = role.Rules
	if _, err := roles.ClusterRoles().Update(w.Context(), stands, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	bindings := roles.RoleBindings("rollcall-system")
	if err := bindings.Delete(w.Context(), "rollcall", metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	rights := map[right]bool{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, res := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[right{verb, group, res}] = true
				}
			}
		}
	}
	return rights
}

// recorder is the command line of a recorder.
func (w *installedWorld) recorder(args ...string) []string {
	w.Helper()
	return slices.Concat([]string{rollcallRun(w.T)[0], "record", "--log=" + w.recording()}, args)
}

func (w *installedWorld) recording() string { return filepath.Join(w.c.Dir(), "recording") }

func numbered(w *installedWorld, prefix string, count int, cpu string) (pods []*v1.Pod) {
	for i := range count {
		pods = append(pods, w.pod(fmt.Sprintf("%s-%d", prefix, i), "", cpu))
	}
	return pods
}

// preempted fills the nodes, and then has a pod that kube-scheduler preempts others for.
func (w *installedWorld) preempted(count int) {
	w.Helper()
	if free := count - 4; free > 0 {
		w.create(numbered(w, "fill", free, "3900m")...)
		w.waitFor("fill-", free, func(p *v1.Pod) bool { return bound(p) || unschedulable(p) })
	}
	p := w.pod("important", "", "3")
	p.Spec.PriorityClassName = "high"
	w.create(p)
	w.waitFor("important", 1, bound)
}

// cordonAndDrain evicts a pod by the API. Then it cordons a node, and evicts its pods.
func (w *installedWorld) cordonAndDrain() {
	w.Helper()
	node := w.on("important")["important"]
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, cordon,
		metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	on := w.on("")
	for _, name := range slices.Sorted(maps.Keys(on)) {
		if on[name] != node && strings.HasPrefix(name, "middle-") {
			w.evict(name)
			break
		}
	}
	for name := range on { // any order
		if on[name] == node && name != "important" {
			w.evict(name)
		}
	}
}

// evict evicts a pod by the API, without a time of grace.
func (w *installedWorld) evict(name string) {
	w.Helper()
	zero := int64(0)
	if err := w.client.PolicyV1().Evictions("default").Evict(w.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: "default", Name: name},
		DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &zero},
	}); err != nil {
		w.Fatal(err)
	}
}

// answersClaimNoDecision asks the recording about a pod that waits and one that kube-scheduler has placed.
func (w *installedWorld) answersClaimNoDecision() {
	w.Helper()
	for _, question := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", w.recording(), "pod", "default/wide"}, "it has no decisions"},
		{[]string{"explain", w.recording(), "pod", "default/wide"}, "NeverFits"},
		{[]string{"explain", w.recording(), "pod", "default/late-0"}, "Its scheduler is default-scheduler"},
		{[]string{"get", w.recording(), "pending"}, "default/wide"},
		{[]string{"audit", "order", w.recording()}, ""},
		{[]string{"replay", w.recording()}, "identical"},
	} {
		out, err := exec.CommandContext(w.Context(), rollcallRun(w.T)[0], question.args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), question.want) || strings.Contains(string(out), "cycle ") {
			w.Errorf("rollcall %s: %v, want %q\n%s", strings.Join(question.args, " "), err, question.want, out)
		}
	}
}

// answersSayWhoDidIt asks the recording who preempted, evicted and bound pods.
func (w *installedWorld) answersSayWhoDidIt() {
	w.Helper()
	events := w.rollcall("events", w.recording())
	for _, want := range []string{"evicted by the eviction API", "preempted by default-scheduler",
		"OOMKilled, exit code 137", "not scheduled by default-scheduler: Unschedulable: 0/", "may be missing"} {
		if !strings.Contains(events, want) {
			w.Errorf("the events do not say %q:\n%s", want, events)
		}
	}
	for _, kind := range []string{"Preempted", "Evicted", "Lost"} {
		var e struct{ Names []string }
		first, _, _ := strings.Cut(w.rollcall("events", w.recording(), "--kind", kind, "-o", "json"), "\n")
		if first == "" || json.Unmarshal([]byte(first), &e) != nil || len(e.Names) == 0 {
			w.Errorf("no event of kind %s: %s", kind, first)
			continue
		}
		eviction, pod := w.rollcall("explain", w.recording(), "eviction", e.Names[0]),
			w.rollcall("explain", w.recording(), "pod", e.Names[0])
		w.Logf("%s\n%s", eviction, pod)
		by := map[string]string{"Preempted": "was preempted by default-scheduler for default/important",
			"Evicted": "was evicted by the eviction API", "Lost": "as kubectl drain does"}[kind]
		if !strings.Contains(eviction, by) || !strings.Contains(pod, by) {
			w.Errorf("the answers do not say %q", by)
		}
	}
}

// importedIsTheSame compares the events of the recording with the events of the audit log, which "rollcall events"
// reads too: for each pod, the same kinds of events in the same order.
func (w *installedWorld) importedIsTheSame() {
	w.Helper()
	kinds := "Created,Placed,Preempted,Evicted,Lost,Succeeded,Failed,Deleted,NodeCordoned,NodeUncordoned"
	stories := func(log string) map[string][]string {
		all, created := map[string][]string{}, 0
		for line := range strings.Lines(w.rollcall("events", log, "--kind", kinds, "-o", "json")) {
			var e struct {
				Kind, Namespace, Node string
				Pods                  int
				Names                 []string
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				w.Fatalf("%v: %s", err, line)
			}
			if strings.HasPrefix(e.Kind, "Node") {
				all[e.Node] = append(all[e.Node], e.Kind)
				continue
			}
			if e.Namespace != "default" {
				continue
			}
			if e.Kind == "Created" { // many are one event, which names 20 of them
				created += e.Pods
				continue
			}
			for _, name := range e.Names {
				all[name] = append(all[name], e.Kind)
			}
		}
		all["created"] = []string{fmt.Sprint(created)}
		return all
	}
	got, want := stories(w.recording()), stories(w.c.AuditLog())
	differ := 0
	for name := range want { // any order
		if !slices.Equal(got[name], want[name]) {
			if differ++; differ <= 5 {
				w.Errorf("%s: the recording has the events %v, the imported audit log %v", name, got[name], want[name])
			}
		}
	}
	w.Logf("the events of %d pods and nodes are the same in the imported audit log, %d differ", len(want), differ)
	if len(got) != len(want) || len(want) < 40 {
		w.Errorf("the recording has events of %d objects, the imported audit log of %d", len(got), len(want))
	}
}
