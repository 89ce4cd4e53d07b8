package accountant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
)

// history makes up the audit log of a small cluster. Each request takes a millisecond, and the next one comes ten
// milliseconds later.
type history struct {
	now   time.Time
	lines []string
	pods  map[string]object
}

type object = map[string]any

func newHistory() *history {
	return &history{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), pods: map[string]object{}}
}

// request appends one request: a line of it received if code is 0, and a line of the answer otherwise.
func (h *history) request(user, verb, resource, name string, code int, request, response object) {
	h.now = h.now.Add(10 * time.Millisecond)
	ref := object{"namespace": "d", "name": name}
	ref["resource"] = resource
	if r, group, ok := strings.Cut(resource, "."); ok {
		ref["resource"], ref["apiGroup"] = r, group
	}
	if r, sub, ok := strings.Cut(resource, "/"); ok {
		ref["resource"], ref["subresource"] = r, sub
	}
	e := object{
		"kind": "Event", "auditID": fmt.Sprint(len(h.lines)), "verb": verb, "user": object{"username": user},
		"objectRef": ref, "requestReceivedTimestamp": h.now, "stageTimestamp": h.now, "stage": "RequestReceived",
	}
	if code != 0 {
		e["stage"], e["stageTimestamp"] = "ResponseComplete", h.now.Add(time.Millisecond)
		e["responseStatus"] = object{"code": code}
		if request != nil {
			e["requestObject"] = request
		}
		if response != nil {
			e["responseObject"] = response
		}
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	h.lines = append(h.lines, string(text))
}

func (h *history) node(name, cpu string) {
	h.request("kubelet", "create", "nodes", name, 201, nil, object{
		"metadata": object{"name": name}, "status": object{"allocatable": object{"cpu": cpu, "pods": "10"}},
	})
}

// removeNode deletes a node. The pods on it stay.
func (h *history) removeNode(name string) {
	h.request("controller", "delete", "nodes", name, 200, nil, object{"kind": "Status"})
}

func (h *history) group(name string, least int) {
	h.request("user", "create", "podgroups.scheduling.x-k8s.io", name, 201, nil, object{
		"metadata": object{"namespace": "d", "name": name}, "spec": object{"minMember": least},
	})
}

// pod creates a pod that wants a processor; its UID is its name.
func (h *history) pod(name, group string) {
	p := object{
		"metadata": object{"namespace": "d", "name": name, "uid": name, "labels": object{accountant.GroupLabel: group}},
		"spec":     object{"containers": []object{{"resources": object{"requests": object{"cpu": "1"}}}}},
		"status":   object{"phase": "Pending"},
	}
	h.pods[name] = p
	h.request("user", "create", "pods", name, 201, nil, p)
}

// stands sets where a pod is bound, without a request that says so.
func (h *history) stands(name, node string) { h.pods[name]["spec"].(object)["nodeName"] = node }

// bind asks for a bind and has it answered.
func (h *history) bind(user, name, node string, code int) {
	h.request(user, "create", "pods/binding", name, code,
		object{"metadata": object{"namespace": "d", "name": name, "uid": name}, "target": object{"name": node}},
		object{"kind": "Status"})
	if code/100 == 2 {
		h.stands(name, node)
	}
}

// finish reports that a pod has succeeded.
func (h *history) finish(name string) {
	h.pods[name]["status"].(object)["phase"] = "Succeeded"
	h.request("kubelet", "patch", "pods/status", name, 200, nil, h.pods[name])
}

// remove deletes a pod, at once or with 30 seconds for its end.
func (h *history) remove(name string, graceful bool) {
	m := h.pods[name]["metadata"].(object)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = h.now, 0
	if graceful {
		m["deletionGracePeriodSeconds"] = 30
	}
	h.request("user", "delete", "pods", name, 200, nil, h.pods[name])
	if !graceful {
		delete(h.pods, name)
	}
}

// evict has a scheduler delete a pod, with 30 seconds for its end.
func (h *history) evict(user, name string) {
	m := h.pods[name]["metadata"].(object)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = h.now, 30
	h.request(user, "delete", "pods", name, 200, nil, h.pods[name])
}

// look makes a quiescent point.
func (h *history) look() {
	var items []object
	for _, p := range h.pods {
		items = append(items, p)
	}
	h.request(accountant.User, "list", "pods", "", 200, nil, object{"kind": "PodList", "items": items})
}

// wait lets time pass.
func (h *history) wait(d time.Duration) { h.now = h.now.Add(d) }

func (h *history) account(t *testing.T) *accountant.Account {
	t.Helper()
	a, err := accountant.Read(strings.NewReader(strings.Join(h.lines, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}
