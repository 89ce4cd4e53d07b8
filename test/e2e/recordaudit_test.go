package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// A seenChange is a change of a pod or node. It has its time in the log or in the audit log.
type seenChange struct {
	what string
	at   time.Time
	came time.Time // of the request; zero in the log
}

// compareWithAuditLog waits until the recording has the changes of the audit log, and compares them.
func (w *installedWorld) compareWithAuditLog(scheduler string, outage, meanwhile away) {
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
	changes, missed, late, afterOutage := 0, 0, time.Duration(0), time.Duration(0)
	for name, list := range want { // any order
		for i, change := range list {
			changes++
			if !change.at.Before(meanwhile.from) && change.at.Before(meanwhile.to) {
				missed++ // they come with the recorder's start
				continue
			}
			if change.at.After(outage.from) && change.at.Before(outage.to) {
				afterOutage = max(afterOutage, got[name][i].at.Sub(change.at).Abs())
				continue
			}
			late = max(late, got[name][i].at.Sub(change.at).Abs())
		}
	}
	w.Logf("%d changes of %d objects are as in the audit log, %d of them from a time without a recorder, and the "+
		"others at most %s apart, after the API server's restart %s", changes, len(want), missed,
		late.Round(time.Millisecond), afterOutage.Round(time.Millisecond))
	if late > time.Second {
		w.Errorf("a change is in the recording %s after it was made", late)
	}
	if changes < 120 || missed < 10 {
		w.Errorf("only %d changes were compared", changes)
	}
}

// auditedChanges reads the API server's audit log.
func (w *installedWorld) auditedChanges(scheduler string) map[string][]seenChange {
	w.Helper()
	all := map[string][]seenChange{}
	cordoned := map[string]bool{}
	note := func(e *auditv1.Event, name, what string) {
		all[name] = append(all[name], seenChange{what, e.StageTimestamp.Time, e.RequestReceivedTimestamp.Time})
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
		case what == "pods/status" && e.Verb == "patch":
			var p v1.Pod
			if e.ResponseObject == nil || json.Unmarshal(e.ResponseObject.Raw, &p) != nil {
				return
			}
			noteStatus(all, &p, e.StageTimestamp.Time, e.RequestReceivedTimestamp.Time)
		case what == "pods/" && e.Verb == "delete" || what == "pods/eviction":
			list := all["pod "+ref.Name]
			if what == "pods/eviction" {
				at := len(list)
				if at > 0 && e.RequestReceivedTimestamp.Time.Before(list[at-1].at) && list[at-1].what == "deleted" {
					at-- // somebody has ended the pod before the eviction was answered
				}
				list = slices.Insert(list, at, seenChange{"disrupted: EvictionByEvictionAPI", e.StageTimestamp.Time,
					e.RequestReceivedTimestamp.Time})
				all["pod "+ref.Name] = list
			}
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
	for _, list := range all { // any order
		// A request that follows from another one may be answered before it.
		slices.SortStableFunc(list, func(a, b seenChange) int { return a.came.Compare(b.came) })
	}
	return all
}

// noteStatus notes the disruption and the end of a pod, once.
func noteStatus(all map[string][]seenChange, p *v1.Pod, at, came time.Time) {
	name := "pod " + p.Name
	since := all[name] // of this pod
	for i, c := range since {
		if c.what == "created" {
			since = all[name][i:]
		}
	}
	once := func(what string) {
		if !slices.ContainsFunc(since, func(c seenChange) bool { return c.what == what }) {
			all[name] = append(all[name], seenChange{what, at, came})
		}
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
			once("disrupted: " + c.Reason)
		}
	}
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		once("ended: " + string(p.Status.Phase))
	}
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
				Status v1.PodStatus
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			w.Fatal(err)
		}
		if e.Kind == "Decision" {
			w.Fatalf("the recording has a decision: %s", line)
		}
		meta := e.Object.Metadata
		note := func(name, what string) { all[name] = append(all[name], seenChange{what: what, at: e.Time}) }
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
			noteStatus(all, &v1.Pod{ObjectMeta: meta, Status: e.Object.Status}, e.Time, time.Time{})
		case e.Kind == "Upserted" && e.Resource == "nodes":
			if is := e.Object.Spec.Unschedulable; is != objects["node "+meta.Name].cordoned {
				note("node "+meta.Name, fmt.Sprintf("cordoned %v", is))
			}
			objects["node "+meta.Name] = known{cordoned: e.Object.Spec.Unschedulable}
		}
	}
	return all
}
