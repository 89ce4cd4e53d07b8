package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A cluster is the virtual cluster: the part of an API server that schedulers need. It has nodes, pods and PodGroups,
// which can be listed and watched, accepts binds and deletions, and records who requested them. It also owns the
// lease.
//
// As in Kubernetes a bind names the pod's UID, and a pod that has a node, or is deleted, is not bound.
type cluster struct {
	listen net.Listener
	http   http.Server

	mu      sync.Mutex
	changed chan struct{} // closed with every change
	version int
	objects map[eventlog.Resource]map[types.NamespacedName]eventlog.Object
	changes map[eventlog.Resource][]clusterChange
	calls   []Call
	uids    int
	lease   lease
	hangs   int // number of faults that keep it from answering binds
}

// A clusterChange is one change of an object.
type clusterChange struct {
	version int
	event   []byte
}

// A Call is a bind or a deletion that a scheduler asked the cluster for.
type Call struct {
	At     time.Time
	By     string // the process
	Effect string // "bind" or "evict"
	UID    string
	Node   string `json:",omitempty"`
	Done   bool   // the cluster has done it
}

// A lease says which process may lead. It is a hint, and lies while a fault makes it.
type lease struct {
	term   time.Duration // as in Plan.Lease
	holder string
	asked  time.Time      // by the holder
	lies   map[string]int // number of faults that tell everyone, "" alone, that it leads, or one that it does not
}

// served are the resources that the cluster has, by API group and version.
var served = map[string]map[string]eventlog.Resource{
	"v1":                           {"pods": eventlog.Pods, "nodes": eventlog.Nodes},
	"scheduling.k8s.io/v1beta1":    {"podgroups": eventlog.PodGroups},
	"apps/v1":                      {},
	"policy/v1":                    {},
	"storage.k8s.io/v1":            {},
	"resource.k8s.io/v1":           {},
	"scheduling.k8s.io/v1":         {},
	"scheduling.k8s.io/v1alpha3":   {},
	"scheduling.x-k8s.io/v1alpha1": {},
}

// newCluster returns an empty cluster, which answers at listen.
func newCluster(listen net.Listener) *cluster {
	c := &cluster{
		listen: listen, changed: make(chan struct{}), version: 100,
		objects: map[eventlog.Resource]map[types.NamespacedName]eventlog.Object{},
		changes: map[eventlog.Resource][]clusterChange{},
		lease:   lease{term: Plan{}.leaseTerm(), lies: map[string]int{}},
	}
	for _, group := range served { // any order
		for _, res := range group {
			c.objects[res] = map[types.NamespacedName]eventlog.Object{}
		}
	}
	c.http.Handler = c
	go func() { _ = c.http.Serve(listen) }()
	return c
}

func (c *cluster) addr() string { return c.listen.Addr().String() }

func (c *cluster) close() { _ = c.http.Close() }

func nameOf(o eventlog.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// put makes or changes an object. A new one gets a UID.
func (c *cluster) put(res eventlog.Resource, o eventlog.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(res, o)
}

// set is put with the cluster locked.
func (c *cluster) set(res eventlog.Resource, o eventlog.Object) {
	kind := "MODIFIED"
	if c.objects[res][nameOf(o)] == nil {
		kind = "ADDED"
		c.uids++
		o.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
	}
	c.objects[res][nameOf(o)] = o
	c.note(res, kind, o)
}

// remove removes an object, if it exists.
func (c *cluster) remove(res eventlog.Resource, name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.objects[res][name]; o != nil {
		c.unset(res, o)
	}
}

func (c *cluster) unset(res eventlog.Resource, o eventlog.Object) {
	delete(c.objects[res], nameOf(o))
	c.note(res, "DELETED", o.DeepCopyObject().(eventlog.Object))
}

func (c *cluster) note(res eventlog.Resource, kind string, o eventlog.Object) {
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	c.changes[res] = append(c.changes[res], clusterChange{c.version, clusterEvent(kind, res, o)})
	close(c.changed)
	c.changed = make(chan struct{})
}

func clusterEvent(kind string, res eventlog.Resource, o eventlog.Object) []byte {
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", kind, objectText(res, o))
}

func objectText(res eventlog.Resource, o eventlog.Object) []byte {
	o.GetObjectKind().SetGroupVersionKind(eventlog.KindFor(res))
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("%s %s is no JSON: %v", res, o.GetName(), err))
	}
	return text
}

// sorted returns the objects of a resource by name.
func (c *cluster) sorted(res eventlog.Resource) []eventlog.Object {
	var out []eventlog.Object
	for _, name := range slices.SortedFunc(maps.Keys(c.objects[res]), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	}) {
		out = append(out, c.objects[res][name])
	}
	return out
}

// pods returns the pods by name, each as it is now.
func (c *cluster) pods() (out []*v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.sorted(eventlog.Pods) {
		out = append(out, o.DeepCopyObject().(*v1.Pod))
	}
	return out
}

// groups returns the PodGroups.
func (c *cluster) groups() (out []*schedulingv1beta1.PodGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.sorted(eventlog.PodGroups) {
		out = append(out, o.DeepCopyObject().(*schedulingv1beta1.PodGroup))
	}
	return out
}

// called returns the schedulers' requests.
func (c *cluster) called() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// ServeHTTP implements http.Handler.
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch parts[0] {
	case "lease":
		answer(w, http.StatusOK, c.mayLead(r.FormValue("by")))
		return
	case "vacate":
		c.release(r.FormValue("of"))
		return
	case "api":
		c.serveGroup(w, r, parts[1], parts[2:])
		return
	case "apis":
		if len(parts) >= 3 {
			c.serveGroup(w, r, parts[1]+"/"+parts[2], parts[3:])
			return
		}
	}
	refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "")
}

// serveGroup serves the resources of an API group.
func (c *cluster) serveGroup(w http.ResponseWriter, r *http.Request, group string, path []string) {
	resources := served[group]
	switch {
	case len(path) == 0 && resources != nil:
		list := metav1.APIResourceList{GroupVersion: group}
		for name := range resources { // any order
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		answer(w, http.StatusOK, list)
	case len(path) == 1 && resources[path[0]] != "":
		c.serveResource(w, r, resources[path[0]])
	case len(path) >= 4 && path[0] == "namespaces" && path[2] == "pods":
		c.servePod(w, r, types.NamespacedName{Namespace: path[1], Name: path[3]}, path[4:])
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "")
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // or the client went
}

// refuse answers as an API server does. name is the object that is meant.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, name string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: string(reason), Details: &metav1.StatusDetails{Name: name},
	})
}

// serveResource lists and watches.
func (c *cluster) serveResource(w http.ResponseWriter, r *http.Request, res eventlog.Resource) {
	query := r.URL.Query()
	if watch := query.Get("watch"); watch == "" || watch == "0" || watch == "false" {
		c.list(w, res)
		return
	}
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	var first []byte
	if query.Get("sendInitialEvents") == "true" {
		first, from = c.initial(res)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(first)
	w.(http.Flusher).Flush()
	for {
		c.mu.Lock()
		wait, text := c.changed, []byte(nil)
		all := c.changes[res]
		at, _ := slices.BinarySearchFunc(all, from+1, func(x clusterChange, v int) int { return x.version - v })
		for _, change := range all[at:] {
			text, from = append(text, change.event...), change.version
		}
		c.mu.Unlock()
		if _, err := w.Write(text); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-wait:
		}
	}
}

func (c *cluster) list(w http.ResponseWriter, res eventlog.Resource) {
	c.mu.Lock()
	gvk := eventlog.KindFor(res)
	text := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"},"items":[`,
		gvk.GroupVersion().String(), gvk.Kind+"List", c.version)
	for i, o := range c.sorted(res) {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, objectText(res, o)...)
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, "]}"...))
}

// initial returns the events that begin a watch with a list.
func (c *cluster) initial(res eventlog.Resource) (events []byte, version int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.sorted(res) {
		events = append(events, clusterEvent("ADDED", res, o)...)
	}
	end := eventlog.NewObject(res)
	end.SetResourceVersion(strconv.Itoa(c.version))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(events, clusterEvent("BOOKMARK", res, end)...), c.version
}

// servePod reads, binds or deletes a pod.
func (c *cluster) servePod(w http.ResponseWriter, r *http.Request, name types.NamespacedName, what []string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went
	}
	if len(what) == 1 && what[0] == "binding" && !c.answers(r.Context()) {
		return // it went before anything was done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, _ := c.objects[eventlog.Pods][name].(*v1.Pod)
	switch {
	case r.Method == http.MethodGet && len(what) == 0 && pod != nil:
		answer(w, http.StatusOK, json.RawMessage(objectText(eventlog.Pods, pod)))
	case r.Method == http.MethodGet && len(what) == 0:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name.Name)
	case r.Method == http.MethodPost && len(what) == 1 && what[0] == "binding":
		c.bind(w, r.UserAgent(), name, pod, body)
	case r.Method == http.MethodDelete && len(what) == 0:
		c.evict(w, r.UserAgent(), name, pod, body)
	case r.Method == http.MethodPatch && len(what) == 1 && what[0] == "status" && pod != nil: // which nobody here reads
		answer(w, http.StatusOK, json.RawMessage(objectText(eventlog.Pods, pod)))
	default:
		refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, name.Name)
	}
}

// hang adds a fault, or, for -1, removes one, that keeps binds from being carried out and answered.
func (c *cluster) hang(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs += by
	close(c.changed)
	c.changed = make(chan struct{})
}

// answers waits until binds are answered. It reports whether the client still waits.
func (c *cluster) answers(ctx context.Context) bool {
	for {
		c.mu.Lock()
		wait, hangs := c.changed, c.hangs > 0
		c.mu.Unlock()
		if !hangs {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-wait:
		}
	}
}

func (c *cluster) bind(w http.ResponseWriter, by string, name types.NamespacedName, pod *v1.Pod, body []byte) {
	var binding v1.Binding
	if err := json.Unmarshal(body, &binding); err != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, name.Name)
		return
	}
	call := Call{At: time.Now(), By: by, Effect: "bind", UID: string(binding.UID), Node: binding.Target.Name}
	switch {
	case pod == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name.Name)
	case pod.UID != binding.UID || pod.Spec.NodeName != "":
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, name.Name)
	default:
		call.Done = true
		bound := pod.DeepCopy()
		bound.Spec.NodeName = binding.Target.Name
		c.set(eventlog.Pods, bound)
		answer(w, http.StatusCreated, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		})
	}
	c.calls = append(c.calls, call)
}

func (c *cluster) evict(w http.ResponseWriter, by string, name types.NamespacedName, pod *v1.Pod, body []byte) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(body, &options); err != nil && !errors.Is(err, io.EOF) {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, name.Name)
		return
	}
	call := Call{At: time.Now(), By: by, Effect: "evict"}
	if p := options.Preconditions; p != nil && p.UID != nil {
		call.UID = string(*p.UID)
	}
	switch {
	case pod == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name.Name)
	case string(pod.UID) != call.UID:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, name.Name)
	default:
		call.Done = true
		c.unset(eventlog.Pods, pod)
		answer(w, http.StatusOK, json.RawMessage(objectText(eventlog.Pods, pod)))
	}
	c.calls = append(c.calls, call)
}

// everyone means all processes in lease.lies.
const everyone = ""

// mayLead answers a process that asks for the lease.
func (c *cluster) mayLead(by string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, now := &c.lease, time.Now()
	if l.lies[everyone] > 0 {
		return true
	}
	if l.holder == "" || l.holder != by && now.Sub(l.asked) > l.term+l.term/2 {
		l.holder = by
	}
	if l.holder == by {
		l.asked = now
	}
	return l.holder == by
}

// release takes the lease from a process.
func (c *cluster) release(of string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lease.holder == of {
		c.lease.holder = ""
	}
}

// holder returns the process that may lead, "" for none.
func (c *cluster) holder() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease.holder
}

// lie makes the lease tell everyone that it may lead; honest ends one such lie.
func (c *cluster) lie() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease.lies[everyone]++
}

func (c *cluster) honest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease.lies[everyone]--
}
