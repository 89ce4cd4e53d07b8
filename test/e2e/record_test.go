package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// TestARecorderHasWhatTheAuditLogHas records a cluster that kube-scheduler schedules, with the service account and the
// rights of deploy/overlays/recorder. The API server is restarted under the recorder, and so is the recorder. The
// log has each pod's creation, bind and deletion, and each cordon, as the API server's audit log has them: in the same
// order, and nothing else. It has no decision, and answers claim none. The recorder asked for nothing that it has no
// right to, and has no right that it did not use.
func TestARecorderHasWhatTheAuditLogHas(t *testing.T) {
	if schedulers.Choice() != binaries.Rollcall {
		t.Skip("skipped: the recorder is Rollcall's alone")
	}
	w := newInstalledWorld(t)
	rights := w.onlyRecords()
	kubeScheduler := schedulers.ForTest(t, w.c, schedulers.Options{
		Choice: binaries.KubeScheduler, User: "kube-scheduler",
		FeatureGates: map[string]bool{"GenericWorkload": true},
	})
	first := w.process("the first recorder", w.recorder()...)
	w.priority("high", 1000)
	w.create(numbered(w, "early", 12, "500m")...)
	w.waitFor("early-", 12, bound)

	w.c.APIServer.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.c.APIServer.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	w.until("the API server answers", func(ctx context.Context) (bool, error) {
		_, err := w.pods(ctx, "")
		return err == nil, err
	})
	w.create(numbered(w, "middle", 12, "500m")...)
	w.waitFor("middle-", 12, bound)
	w.preempted()
	w.cordonAndDrain()

	if err := first.Terminate(ctx); err != nil {
		t.Errorf("the first recorder ended: %v", err)
	}
	second := w.process("the second recorder", w.recorder("--feature-gates=WatchListClient=false")...)
	for _, p := range numbered(w, "late", 6, "100m") {
		w.create(p)
	}
	w.waitFor("late-", 6, bound)
	for _, name := range slices.Sorted(maps.Keys(w.on("early-")))[:4] { // some have been preempted
		w.remove(name)
	}
	w.create(w.pod("wide", "", "100"))
	w.compareWithAuditLog(kubeScheduler.User)
	w.answersClaimNoDecision()
	if err := second.Terminate(ctx); err != nil {
		t.Errorf("the second recorder ended: %v", err)
	}

	used, forbidden := w.asked()
	for r := range forbidden { // any order
		if !used[r] { // a server that has just started allows nothing yet
			t.Errorf("the recorder wanted to %s, and was not allowed to", r)
		}
	}
	for r := range rights { // any order
		if !used[r] {
			t.Errorf("the recorder may %s, and never does", r)
		}
	}
	for r := range used { // any order
		if !rights[r] && !delegated[r] {
			t.Errorf("the recorder may %s, by a right from elsewhere", r)
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
	p := cluster.NewProcess(name, filepath.Join(w.c.Dir(), name), command, nil, ready)
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := p.Start(ctx); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the end of %s:\n%s", p.Output, p.Tail(30))
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

// preempted has a pod that kube-scheduler preempts others for.
func (w *installedWorld) preempted() {
	w.Helper()
	p := w.pod("important", "", "3")
	p.Spec.PriorityClassName = "high"
	w.create(p)
	w.waitFor("important", 1, bound)
}

// cordonAndDrain cordons a node, and evicts its pods by the API.
func (w *installedWorld) cordonAndDrain() {
	w.Helper()
	node := w.on("important")["important"]
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, cordon,
		metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
	zero := int64(0)
	for name, on := range w.on("middle-") { // any order
		if on != node {
			continue
		}
		if err := w.client.PolicyV1().Evictions("default").Evict(w.Context(), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: "default", Name: name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &zero},
		}); err != nil {
			w.Fatal(err)
		}
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
		{[]string{"explain", w.recording(), "pod", "default/wide"}, "Unplaceable"},
		{[]string{"explain", w.recording(), "pod", "default/late-0"}, "its scheduler is default-scheduler"},
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

// A seenChange is a change of a pod or node. It has its time in the log or in the audit log.
type seenChange struct {
	what string
	at   time.Time
}

// compareWithAuditLog waits until the recording has the changes of the audit log, and compares them.
func (w *installedWorld) compareWithAuditLog(scheduler string) {
	w.Helper()
	var want, got map[string][]seenChange
	same := func() bool {
		return maps.EqualFunc(want, got, func(a, b []seenChange) bool {
			return slices.EqualFunc(a, b, func(x, y seenChange) bool { return x.what == y.what })
		})
	}
	w.until("the recording has the audit log's changes", func(context.Context) (bool, error) {
		want, got = w.auditedChanges(scheduler), w.recordedChanges()
		for name := range want { // any order
			if a, b := want[name], got[name]; !slices.EqualFunc(a, b, func(x, y seenChange) bool {
				return x.what == y.what
			}) {
				return false, fmt.Errorf("%s: the audit log has %v, the recording %v", name, a, b)
			}
		}
		return same(), fmt.Errorf("the recording has more objects: %d, the audit log %d", len(got), len(want))
	})
	changes, late := 0, time.Duration(0)
	for name, list := range want { // any order
		for i, change := range list {
			late = max(late, got[name][i].at.Sub(change.at).Abs())
			changes++
		}
	}
	w.Logf("%d changes of %d objects are as in the audit log, at most %s apart", changes, len(want),
		late.Round(time.Millisecond))
	if changes < 60 {
		w.Errorf("only %d changes were compared", changes)
	}
}

// auditedChanges reads the API server's audit log.
func (w *installedWorld) auditedChanges(scheduler string) map[string][]seenChange {
	w.Helper()
	all := map[string][]seenChange{}
	cordoned := map[string]bool{}
	note := func(e *auditv1.Event, name, what string) {
		all[name] = append(all[name], seenChange{what, e.StageTimestamp.Time})
	}
	w.eachAudited(func(e *auditv1.Event) {
		ref := e.ObjectRef
		if e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 || e.Stage != auditv1.StageResponseComplete ||
			ref.Namespace != "default" && ref.Resource == "pods" ||
			slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
			return
		}
		switch what := ref.Resource + "/" + ref.Subresource; {
		case what == "pods/" && e.Verb == "create":
			var p v1.Pod
			if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject.Raw, &p) != nil || isDryRun(e) {
				return
			}
			note(e, "pod "+p.Name, "created")
		case what == "pods/binding":
			var b v1.Binding
			if e.RequestObject == nil || json.Unmarshal(e.RequestObject.Raw, &b) != nil {
				return
			}
			if e.User.Username != scheduler {
				w.Errorf("%s has bound %s", e.User.Username, ref.Name)
			}
			note(e, "pod "+ref.Name, "bound to "+b.Target.Name)
		case what == "pods/" && e.Verb == "delete" || what == "pods/eviction":
			list := all["pod "+ref.Name]
			if removes(e) && (len(list) == 0 || list[len(list)-1].what != "deleted") { // others may ask for it, too
				note(e, "pod "+ref.Name, "deleted")
			}
		case what == "nodes/" && e.Verb == "patch":
			var n v1.Node
			if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject.Raw, &n) != nil ||
				cordoned[n.Name] == n.Spec.Unschedulable {
				return
			}
			cordoned[n.Name] = n.Spec.Unschedulable
			note(e, "node "+n.Name, fmt.Sprintf("cordoned %v", n.Spec.Unschedulable))
		}
	})
	return all
}

func isDryRun(e *auditv1.Event) bool { return strings.Contains(e.RequestURI, "dryRun=") }

// removes reports whether a deletion takes its pod away at once, and not after a grace period.
func removes(e *auditv1.Event) bool {
	var o struct {
		GracePeriodSeconds *int64
		DeleteOptions      struct{ GracePeriodSeconds *int64 }
	}
	if e.RequestObject == nil || json.Unmarshal(e.RequestObject.Raw, &o) != nil {
		return false
	}
	for _, seconds := range []*int64{o.GracePeriodSeconds, o.DeleteOptions.GracePeriodSeconds} {
		if seconds != nil && *seconds == 0 {
			return true
		}
	}
	return false
}

// recordedChanges reads the recording by log cat.
func (w *installedWorld) recordedChanges() map[string][]seenChange {
	w.Helper()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(w.Context(), rollcallRun(w.T)[0], "log", "cat", w.recording())
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("log cat: %v\n%s", err, &complaint)
	}
	type known struct {
		node     string
		cordoned bool
	}
	all, objects := map[string][]seenChange{}, map[string]known{}
	for line := range bytes.Lines(out) {
		var e struct {
			Kind, Resource, Namespace, Name string
			Time                            time.Time
			Object                          struct {
				Metadata metav1.ObjectMeta
				Spec     struct {
					NodeName      string
					Unschedulable bool
				}
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			w.Fatal(err)
		}
		if e.Kind == "Decision" {
			w.Fatalf("the recording has a decision: %s", line)
		}
		meta := e.Object.Metadata
		note := func(name, what string) { all[name] = append(all[name], seenChange{what, e.Time}) }
		switch {
		case e.Kind == "Deleted" && e.Resource == "pods" && e.Namespace == "default":
			note("pod "+e.Name, "deleted")
			delete(objects, "pod "+e.Name)
		case e.Kind == "Upserted" && e.Resource == "pods" && meta.Namespace == "default":
			was, there := objects["pod "+meta.Name]
			if !there {
				note("pod "+meta.Name, "created")
			}
			if is := e.Object.Spec.NodeName; is != was.node {
				note("pod "+meta.Name, "bound to "+is)
			}
			objects["pod "+meta.Name] = known{node: e.Object.Spec.NodeName}
		case e.Kind == "Upserted" && e.Resource == "nodes":
			if is := e.Object.Spec.Unschedulable; is != objects["node "+meta.Name].cordoned {
				note("node "+meta.Name, fmt.Sprintf("cordoned %v", is))
			}
			objects["node "+meta.Name] = known{cordoned: e.Object.Spec.Unschedulable}
		}
	}
	return all
}
