package effect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/kube/effect"
)

// reporter is a *testing.T or a *rapid.T.
type reporter interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
}

// server is an API server with pods, volumes, claims and nodes that answers as kube-apiserver 1.37 was seen to.
type server struct {
	t reporter

	mu      sync.Mutex
	version int
	pods    map[string]*v1.Pod
	volumes map[string]*v1.PersistentVolume
	claims  map[string]*v1.PersistentVolumeClaim
	devices map[string]*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	nodes   map[string]*v1.Node
	// binds are the nodes to which each UID was bound, deletes how often each was deleted.
	binds   map[types.UID][]string
	deletes map[types.UID]int
	// requests are the verbs and paths that came in.
	requests []string
	// before is called with the server locked before a request is carried out; nil for not.
	before func(request string)
	// raw is given each request with the server locked, and says whether it is held up: it is not carried out, and its
	// sender gets no answer in time; nil for not.
	raw func(*http.Request) bool
	// fault is asked how a request goes wrong; nil for none.
	fault func(request string) fault
}

// fault says how a request goes wrong.
type fault struct {
	// code is the status of the answer; 0 for the server's own, -1 for a time-out, -2 for a connection that breaks.
	code int
	// after says that the request was carried out.
	after bool
	// wait is the header Retry-After, seconds the time in the answer's details.
	wait    string
	seconds int
}

func newServer(t reporter) *server {
	return &server{
		t: t, pods: map[string]*v1.Pod{}, volumes: map[string]*v1.PersistentVolume{},
		claims: map[string]*v1.PersistentVolumeClaim{}, devices: map[string]*resourcev1.ResourceClaim{},
		classes: map[string]*resourcev1.DeviceClass{},
		nodes:   map[string]*v1.Node{}, binds: map[types.UID][]string{}, deletes: map[types.UID]int{},
	}
}

// client returns a client of the server, without a socket between them.
func (s *server) client() kubernetes.Interface {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://server", QPS: -1, Transport: s,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

// timedOut is the error of a request without an answer in time.
type timedOut struct{}

func (timedOut) Error() string { return "context deadline exceeded (no answer in time)" }
func (timedOut) Timeout() bool { return true }

// RoundTrip carries out a request, as far as its fault lets it.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Method + " " + r.URL.Path
	s.mu.Lock()
	s.requests = append(s.requests, request)
	var f fault
	if s.fault != nil {
		f = s.fault(request)
	}
	if s.before != nil {
		s.before(request)
	}
	held := s.raw != nil && s.raw(r)
	s.mu.Unlock()
	if held {
		return nil, timedOut{}
	}
	w := httptest.NewRecorder()
	if f == (fault{}) || f.after {
		s.ServeHTTP(w, r)
	}
	switch f.code {
	case 0:
		return w.Result(), nil
	case -1:
		return nil, timedOut{}
	case -2:
		return nil, fmt.Errorf("read tcp: %w", syscall.EPIPE)
	}
	w = httptest.NewRecorder()
	if f.wait != "" {
		w.Header().Set("Retry-After", f.wait)
	}
	answer(w, apierrors.NewGenericServerResponse(f.code, r.Method, schema.GroupResource{}, "", "no", f.seconds, true))
	return w.Result(), nil
}

// answer writes an object, or the status of an error.
func answer(w http.ResponseWriter, result any) {
	code := http.StatusOK
	if status, ok := result.(*apierrors.StatusError); ok {
		code = int(status.ErrStatus.Code)
		status.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		result = status.ErrStatus
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(result); err != nil {
		panic(err)
	}
}

// ServeHTTP carries out a request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(readerOf(r), 1<<20))
	if err != nil {
		s.t.Error(err)
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	clusterwide := []string{"namespaces", "persistentvolumes", "nodes", "deviceclasses"}
	for len(parts) > 0 && !slices.Contains(clusterwide, parts[0]) {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if parts[0] == "resourceclaims" && r.Method == http.MethodPost {
		answer(w, s.makeClaim(body))
		return
	}
	resource, name := parts[0], parts[1]
	switch {
	case len(parts) == 3 && parts[2] == "binding":
		answer(w, s.bind(name, body))
	case resource == "pods":
		answer(w, s.pod(r, name, body))
	case resource == "persistentvolumes":
		answer(w, object(s, s.volumes, "persistentvolumes", name, body))
	case resource == "persistentvolumeclaims":
		answer(w, object(s, s.claims, "persistentvolumeclaims", name, body))
	case resource == "resourceclaims":
		if r.Method == http.MethodDelete {
			answer(w, s.deleteClaim(name, body))
			return
		}
		answer(w, s.resourceClaim(name, len(parts) == 3, body))
	case resource == "deviceclasses":
		answer(w, object(s, s.classes, "deviceclasses", name, body))
	case resource == "nodes":
		answer(w, object(s, s.nodes, "nodes", name, body))
	default:
		s.t.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
	}
}

func readerOf(r *http.Request) io.Reader {
	if r.Body == nil {
		return strings.NewReader("")
	}
	return r.Body
}

// put stores an object in a new version.
func put[T metav1.Object](s *server, all map[string]T, o T) T {
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	all[o.GetName()] = o
	return o
}

// object reads an object, or writes it if there is a body.
func object[T metav1.Object](s *server, all map[string]T, resource, name string, body []byte) any {
	of := schema.GroupResource{Resource: resource}
	old, ok := all[name]
	if !ok {
		return apierrors.NewNotFound(of, name)
	}
	if len(body) == 0 {
		return old
	}
	var o T
	if err := json.Unmarshal(body, &o); err != nil {
		s.t.Error(err)
	}
	if o.GetResourceVersion() != old.GetResourceVersion() {
		return apierrors.NewConflict(of, name, fmt.Errorf("the object has been modified"))
	}
	return put(s, all, o)
}

// resourceClaim is object of a ResourceClaim: the status is written apart from the rest of it, and the rest apart from
// the status.
func (s *server) resourceClaim(name string, status bool, body []byte) any {
	old := s.devices[name]
	result := object(s, s.devices, "resourceclaims", name, body)
	claim, ok := result.(*resourcev1.ResourceClaim)
	switch {
	case !ok || len(body) == 0:
	case status:
		version := claim.ResourceVersion
		claim.ObjectMeta, claim.Spec = *old.ObjectMeta.DeepCopy(), old.Spec
		claim.ResourceVersion = version
	default:
		claim.Status = *old.Status.DeepCopy()
	}
	return result
}

// makeClaim makes a ResourceClaim with a UID; its status is not taken.
func (s *server) makeClaim(body []byte) any {
	claim := &resourcev1.ResourceClaim{}
	if err := json.Unmarshal(body, claim); err != nil {
		s.t.Error(err)
	}
	if s.devices[claim.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "resourceclaims"}, claim.Name)
	}
	claim.UID, claim.Status = types.UID(fmt.Sprint("made-", s.version)), resourcev1.ResourceClaimStatus{}
	return put(s, s.devices, claim)
}

// deleteClaim deletes a ResourceClaim, if its UID is given. One with a finalizer stays.
func (s *server) deleteClaim(name string, body []byte) any {
	of := schema.GroupResource{Resource: "resourceclaims"}
	var o metav1.DeleteOptions
	if err := json.Unmarshal(body, &o); err != nil || o.Preconditions == nil || o.Preconditions.UID == nil {
		s.t.Errorf("a claim is deleted without a UID as precondition: %s, %v", body, err)
		return apierrors.NewBadRequest("no precondition")
	}
	claim := s.devices[name]
	switch {
	case claim == nil:
		return apierrors.NewNotFound(of, name)
	case claim.UID != *o.Preconditions.UID:
		return apierrors.NewConflict(of, name, fmt.Errorf("the UID in the precondition (%s) does not match",
			*o.Preconditions.UID))
	case o.Preconditions.ResourceVersion == nil || claim.ResourceVersion != *o.Preconditions.ResourceVersion:
		return apierrors.NewConflict(of, name, fmt.Errorf("the ResourceVersion in the precondition does not match"))
	case len(claim.Finalizers) > 0:
		s.t.Errorf("claim %s is deleted with the finalizers %v", name, claim.Finalizers)
		claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
		return put(s, s.devices, claim)
	}
	delete(s.devices, name)
	return claim
}

func (s *server) bind(name string, body []byte) any {
	pods := schema.GroupResource{Resource: "pods"}
	conflict := func(format string, args ...any) any {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, name, fmt.Errorf(format, args...))
	}
	var b v1.Binding
	if err := json.Unmarshal(body, &b); err != nil {
		s.t.Error(err)
	}
	if b.UID == "" {
		s.t.Error("a binding without a UID")
	}
	pod := s.pods[name]
	switch {
	case pod == nil:
		return apierrors.NewNotFound(pods, name)
	case b.UID != pod.UID:
		return conflict("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", name)
	case pod.Spec.NodeName != "":
		return conflict("pod %s is already assigned to node %q", name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return conflict("pod %s has non-empty .spec.schedulingGates", name)
	}
	pod.Spec.NodeName = b.Target.Name
	s.binds[pod.UID] = append(s.binds[pod.UID], b.Target.Name)
	put(s, s.pods, pod)
	return metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
}

func (s *server) pod(r *http.Request, name string, body []byte) any {
	pods := schema.GroupResource{Resource: "pods"}
	pod := s.pods[name]
	if pod == nil {
		return apierrors.NewNotFound(pods, name)
	}
	switch r.Method {
	case http.MethodPatch:
		return s.patch(pod, body)
	case http.MethodDelete:
		var o metav1.DeleteOptions
		if err := json.Unmarshal(body, &o); err != nil || o.Preconditions == nil || o.Preconditions.UID == nil {
			s.t.Errorf("a pod is deleted without a UID as precondition: %s, %v", body, err)
			return apierrors.NewBadRequest("no precondition")
		}
		if *o.Preconditions.UID != pod.UID {
			return apierrors.NewConflict(pods, name, fmt.Errorf("the UID in the precondition (%s) does not match",
				*o.Preconditions.UID))
		}
		if pod.DeletionTimestamp == nil {
			s.deletes[pod.UID]++
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
		}
		return put(s, s.pods, pod)
	}
	return pod
}

func (s *server) patch(pod *v1.Pod, body []byte) any {
	var meta struct{ Metadata struct{ UID types.UID } }
	if err := json.Unmarshal(body, &meta); err != nil || meta.Metadata.UID == "" {
		s.t.Errorf("a patch without a UID: %s, %v", body, err)
	}
	if meta.Metadata.UID != pod.UID {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, nil)
	}
	old, err := json.Marshal(pod)
	if err != nil {
		s.t.Error(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(old, body, v1.Pod{})
	if err != nil {
		s.t.Error(err)
	}
	var changed v1.Pod
	if err := json.Unmarshal(patched, &changed); err != nil {
		s.t.Error(err)
	}
	return put(s, s.pods, &changed)
}

// addPod makes a pod with a name and a UID.
func (s *server) addPod(name string, uid types.UID) *v1.Pod {
	return put(s, s.pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, Generation: 3}})
}

// count returns the number of requests whose method and path end so.
func (s *server) count(method, end string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countLocked(method, end)
}

// countLocked is count with the server locked.
func (s *server) countLocked(method, end string) int {
	n := 0
	for _, r := range s.requests {
		if strings.HasPrefix(r, method+" ") && strings.HasSuffix(r, end) {
			n++
		}
	}
	return n
}

// jumpingClock is at the time of every wait at once.
type jumpingClock struct {
	mu    sync.Mutex
	now   time.Time
	waits []time.Duration
}

func (c *jumpingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *jumpingClock) waited() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waits)
}

func (c *jumpingClock) AfterFunc(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	go f()
}

// shortClock never reaches the end of a wait of a second or more, and reaches the end of a shorter wait at once.
type shortClock struct{}

func (*shortClock) Now() time.Time { return time.Unix(1000, 0) }
func (*shortClock) AfterFunc(d time.Duration, f func()) {
	if d < time.Second {
		go f()
	}
}

// running is Effects that run, until the test ends or stop is called.
type running struct {
	*effect.Effects
	stop  func()
	clock *jumpingClock

	mu      sync.Mutex
	reports []string
}

// discarding takes an answer that nobody gets.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (*discarding) Write(b []byte) (int, error) { return len(b), nil }
func (*discarding) WriteHeader(int)             {}

// overSocket binds pod a over a real connection and returns the counts. handle returns false for requests that the
// server answers itself.
func overSocket(t *testing.T, s *server, handle func(http.ResponseWriter, *http.Request) bool) effect.Counts {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			s.ServeHTTP(w, r)
		}
	}))
	defer web.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: web.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	e := effect.New(effect.Options{Client: client, Clock: &jumpingClock{}, CallTimeout: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	e.Carry(ready(bind("a", "u", "n1")))
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	return e.Counts()
}
