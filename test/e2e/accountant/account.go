package accountant

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// User is the user as whom Look lists the pods.
const User = "accountant"

// GroupLabel names the gang of a pod, with a PodGroup of scheduling.x-k8s.io.
const GroupLabel = "scheduling.x-k8s.io/pod-group"

// Account has the history of the cluster's pods, nodes and PodGroups from an audit log.
type Account struct {
	pods map[string]*pod
	// byName are the pods of a name, in the order in which they were first seen.
	byName map[string][]*pod
	// order are the pods in the order in which they were first seen.
	order  []*pod
	nodes  map[string]*node
	groups map[string]*group
	// quiescent are the quiescent points.
	quiescent []*moment
	// Binds counts the requests for a bind by the code of the answer; 0 is no answer.
	Binds map[int]int
	// Requests counts all requests by verb and resource, such as "create pods/binding".
	Requests map[string]int

	early map[string][]bind // binds that were answered before the event that shows their pods, by UID
}

// pod is one pod: another one of the same name is another pod.
type pod struct {
	uid, name string
	group     string
	requests  map[string]int64
	created   span
	// node is the place where it is bound, and bound when that happened; by is the user who bound it, empty if it was
	// created so.
	node, by string
	bound    span
	binds    []bind
	// deletes are the requests to delete it by name.
	deletes []bind
	// leaving is the time of the first request for its deletion; ended is the time at which it released its room.
	leaving, ended time.Time
}

// bind is a request to bind a pod.
type bind struct {
	span
	// node is empty if the API server died before it answered: the target is logged with the answer.
	user, node string
	// code is the answer's, 0 if none is known.
	code    int
	message string
}

// unsure reports whether the answer leaves open what happened.
func (b bind) unsure() bool { return b.code == 0 || b.code >= 500 }

// node has the amounts that the node could be given, from their times on.
type node struct{ allocatable []amounts }

type amounts struct {
	span
	of map[string]int64
}

// group is a PodGroup, with each minimum that it had.
type group struct {
	minimums []minimum
}

type minimum struct {
	span
	of int
}

// moment is a quiescent point: where each pod was bound then.
type moment struct {
	span
	// pods are the existing pods, by UID.
	pods map[string]standing
}

// standing is a pod at a quiescent point.
type standing struct {
	node  string
	ended bool
}

// Read reads an audit log.
func Read(r io.Reader) (*Account, error) {
	a := &Account{
		pods: map[string]*pod{}, byName: map[string][]*pod{}, nodes: map[string]*node{}, groups: map[string]*group{},
		Binds: map[int]int{}, Requests: map[string]int{}, early: map[string][]bind{},
	}
	if err := readEvents(r, a.take); err != nil {
		return nil, err
	}
	if len(a.early) > 0 {
		uids := slices.Sorted(maps.Keys(a.early))
		return nil, fmt.Errorf("a bind of a pod with UID %q to node %s succeeded, and nothing shows such a pod",
			uids[0], a.early[uids[0]][0].node)
	}
	a.settle()
	return a, nil
}

// take books one request.
func (a *Account) take(e *event) error {
	at := span{e.Begun, e.Ended}
	a.Requests[e.Verb+" "+e.resource()]++
	switch e.resource() {
	case "pods/binding", "bindings":
		return a.takeBind(e, at)
	case "pods/eviction":
		if p := a.named(e.name(), e.Begun); e.done() && p != nil && p.leaving.IsZero() {
			p.leaving = at.begun
		}
	}
	deletes := e.Verb == "delete" || e.Verb == "deletecollection"
	if p := a.named(e.name(), at.ended); e.Verb == "delete" && e.resource() == "pods" && p != nil {
		p.deletes = append(p.deletes, bind{span: at, user: e.User.Username, code: e.Status.Code})
	}
	if deletes && e.Object.Resource == "pods" && (e.Status.Code == 0 || e.Status.Code >= 500) {
		a.mayBeGone(e, at)
	}
	if e.done() && len(e.Response) > 0 {
		return a.takeAnswer(e, at, deletes)
	}
	return nil
}

// takeAnswer books what the answer to a request shows.
func (a *Account) takeAnswer(e *event, at span, deletes bool) error {
	switch e.resource() {
	case "pods":
		switch {
		case e.Verb == "list" && e.User.Username == User:
			return a.takeMoment(e, at)
		case deletes:
			return a.takeDelete(e, at)
		}
		return a.takePod(e.Response, at)
	case "pods/status", "pods/resize", "pods/ephemeralcontainers":
		return a.takePod(e.Response, at)
	case "nodes", "nodes/status":
		if !deletes {
			return a.takeNode(e.Response, at)
		}
		a.nodeGone(e.Object.Name, at)
	case "podgroups.scheduling.x-k8s.io", "podgroups.scheduling.k8s.io":
		if !deletes {
			return a.takeGroup(e.Response, at)
		}
	}
	return nil
}

// takePod books what an answer shows of a pod.
func (a *Account) takePod(text json.RawMessage, at span) error {
	var o v1.Pod
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("read a pod: %w", err)
	}
	a.see(&o, at)
	return nil
}

func (a *Account) see(o *v1.Pod, at span) *pod {
	p := a.pods[string(o.UID)]
	if p == nil {
		p = &pod{uid: string(o.UID), name: o.Namespace + "/" + o.Name, created: at, requests: requestsOf(o)}
		a.pods[p.uid] = p
		a.byName[p.name] = append(a.byName[p.name], p)
		a.order = append(a.order, p)
		for _, b := range a.early[p.uid] {
			p.take(b)
		}
		delete(a.early, p.uid)
	}
	// A resize: what it has for certain is the less of both.
	for r, n := range requestsOf(o) {
		p.requests[r] = min(n, p.requests[r])
	}
	if g := o.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		p.group = o.Namespace + "/" + *g.PodGroupName
	} else if name := o.Labels[GroupLabel]; name != "" {
		p.group = o.Namespace + "/" + name
	}
	if o.Spec.NodeName != "" && p.node == "" {
		p.node, p.bound = o.Spec.NodeName, at
	}
	if o.DeletionTimestamp != nil && p.leaving.IsZero() {
		p.leaving = at.begun
	}
	if o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed {
		p.end(at.begun)
	}
	return p
}

func (p *pod) end(at time.Time) {
	if p.ended.IsZero() || at.Before(p.ended) {
		p.ended = at
	}
	if p.leaving.IsZero() || at.Before(p.leaving) {
		p.leaving = at
	}
}

// requestsOf are a pod's requests, one pod included; processors in thousandths.
func requestsOf(o *v1.Pod) map[string]int64 {
	m := amountsOf(resourcehelper.PodRequests(o, resourcehelper.PodResourcesOptions{}))
	m[string(v1.ResourcePods)] = 1
	return m
}

func amountsOf(l v1.ResourceList) map[string]int64 {
	m := map[string]int64{}
	for name, q := range l {
		m[string(name)] = q.Value()
		if name == v1.ResourceCPU {
			m[string(name)] = q.MilliValue()
		}
	}
	return m
}

// named is the pod that a request by name meant: the last one that existed before the request ended.
func (a *Account) named(name string, at time.Time) *pod {
	all := a.byName[name]
	for i := len(all) - 1; i >= 0; i-- {
		if !all[i].created.begun.After(at) {
			return all[i]
		}
	}
	return nil
}

func (a *Account) takeBind(e *event, at span) error {
	var o v1.Binding
	if len(e.Request) > 0 {
		if err := json.Unmarshal(e.Request, &o); err != nil {
			return fmt.Errorf("read a bind: %w", err)
		}
	}
	b := bind{span: at, user: e.User.Username, node: o.Target.Name, code: e.Status.Code, message: e.Status.Message}
	a.Binds[b.code]++
	uid := string(o.UID)
	if uid == "" {
		uid = e.Object.UID
	}
	p := a.pods[uid]
	if uid == "" {
		p = a.named(e.name(), at.ended)
	}
	switch {
	case p != nil:
		p.take(b)
	case b.code/100 != 2:
	case uid == "":
		return fmt.Errorf("a bind of pod %s succeeded, and nothing shows such a pod", e.name())
	default:
		a.early[uid] = append(a.early[uid], b)
	}
	return nil
}

func (p *pod) take(b bind) {
	p.binds = append(p.binds, b)
	if b.code/100 == 2 && p.by == "" {
		p.node, p.by, p.bound = b.node, b.user, b.span
	}
}

// takeDelete books a deletion. A pod that has no node, has ended, or is given no time, is gone at once.
func (a *Account) takeDelete(e *event, at span) error {
	var list v1.PodList
	if err := json.Unmarshal(e.Response, &list); err != nil {
		return fmt.Errorf("read the answer to a deletion: %w", err)
	}
	pods := list.Items
	if list.Kind != "PodList" {
		pods = make([]v1.Pod, 1)
		if err := json.Unmarshal(e.Response, &pods[0]); err != nil {
			return fmt.Errorf("read the answer to a deletion: %w", err)
		}
	}
	for i := range pods {
		o := &pods[i]
		p := a.pods[string(o.UID)]
		if o.Kind == "Status" || p == nil && o.UID == "" {
			p = a.named(e.name(), at.ended)
		} else {
			p = a.see(o, at)
		}
		if p == nil {
			continue
		}
		if p.leaving.IsZero() {
			p.leaving = at.begun
		}
		if o.Kind == "Status" || o.DeletionGracePeriodSeconds == nil || *o.DeletionGracePeriodSeconds == 0 {
			p.end(at.begun)
		}
	}
	return nil
}

// mayBeGone books a deletion of which nobody knows what it did: the pods take no room for certain any more.
func (a *Account) mayBeGone(e *event, at span) {
	for _, p := range a.order {
		namespace, name, _ := strings.Cut(p.name, "/")
		if namespace == e.Object.Namespace && (name == e.Object.Name || e.Object.Name == "") {
			p.end(at.begun)
		}
	}
}

func (a *Account) takeNode(text json.RawMessage, at span) error {
	var o v1.Node
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("read a node: %w", err)
	}
	n := a.nodes[o.Name]
	if n == nil {
		n = &node{}
		a.nodes[o.Name] = n
	}
	of := amountsOf(o.Status.Allocatable)
	if k := len(n.allocatable); k == 0 || !maps.Equal(n.allocatable[k-1].of, of) {
		n.allocatable = append(n.allocatable, amounts{at, of})
	}
	return nil
}

// nodeGone books the deletion of a node: from then on it can be given nothing, until it comes back. An empty name
// means all nodes.
func (a *Account) nodeGone(name string, at span) {
	for _, known := range slices.Sorted(maps.Keys(a.nodes)) {
		if name == "" || name == known {
			n := a.nodes[known]
			n.allocatable = append(n.allocatable, amounts{at, nil})
		}
	}
}

func (a *Account) takeGroup(text json.RawMessage, at span) error {
	var o struct {
		Metadata struct{ Namespace, Name string }
		Spec     struct {
			MinMember        int
			SchedulingPolicy struct {
				Gang *struct{ MinCount int }
			}
		}
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("read a PodGroup: %w", err)
	}
	least := o.Spec.MinMember
	if g := o.Spec.SchedulingPolicy.Gang; g != nil {
		least = g.MinCount
	}
	name := o.Metadata.Namespace + "/" + o.Metadata.Name
	g := a.groups[name]
	if g == nil {
		g = &group{}
		a.groups[name] = g
	}
	if k := len(g.minimums); k == 0 || g.minimums[k-1].of != least {
		g.minimums = append(g.minimums, minimum{at, least})
	}
	return nil
}

// takeMoment books a quiescent point.
func (a *Account) takeMoment(e *event, at span) error {
	var list v1.PodList
	if err := json.Unmarshal(e.Response, &list); err != nil {
		return fmt.Errorf("read a list of pods: %w", err)
	}
	m := &moment{span: at, pods: map[string]standing{}}
	for i := range list.Items {
		o := &list.Items[i]
		p := a.see(o, at)
		ended := o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed
		m.pods[p.uid] = standing{node: o.Spec.NodeName, ended: ended}
	}
	a.quiescent = append(a.quiescent, m)
	return nil
}

// settle decides what is known about the binds with an unknown outcome: one that asked for the node where the pod was
// seen later, and that no other bind explains, did happen.
func (a *Account) settle() {
	slices.SortStableFunc(a.quiescent, func(x, y *moment) int { return x.begun.Compare(y.begun) })
	for _, p := range a.order {
		if p.node == "" || p.by != "" {
			continue
		}
		for _, b := range p.binds {
			if b.unsure() && (b.node == p.node || b.node == "") && !b.begun.After(p.bound.ended) {
				p.by, p.bound = b.user, span{b.begun, p.bound.ended}
				break
			}
		}
	}
}
