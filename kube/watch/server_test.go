package watch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// apiServer is a fake API server with as much as reflectors ask for. It serves discovery, lists, and bookmarks. It
// serves watches from a resource version or with the list before them, and answers 410 for a version that is too old.
// It speaks JSON.
type apiServer struct {
	t    testing.TB
	http *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed with every change
	rv      int
	objects map[eventlog.Resource]map[types.NamespacedName]eventlog.Object
	history map[eventlog.Resource][]change
	oldest  map[eventlog.Resource]int // watches from before it are too old
	broken  map[eventlog.Resource]int // counts how often watches were broken
	absent  map[eventlog.Resource]bool
	lacking map[eventlog.Resource]int // counts the next discoveries without the resource
	refused map[string]bool           // verb and resource
	stalled map[eventlog.Resource]bool
	noLists bool // watches cannot list
	asked   map[string]int
	own     []kind // of plugins
}

// change is one change of an object.
type change struct {
	rv     int
	kind   string
	object json.RawMessage
}

func newServer(t testing.TB) *apiServer {
	s := &apiServer{
		t:       t,
		changed: make(chan struct{}),
		objects: map[eventlog.Resource]map[types.NamespacedName]eventlog.Object{},
		history: map[eventlog.Resource][]change{},
		oldest:  map[eventlog.Resource]int{},
		broken:  map[eventlog.Resource]int{},
		absent:  map[eventlog.Resource]bool{},
		lacking: map[eventlog.Resource]int{},
		refused: map[string]bool{},
		stalled: map[eventlog.Resource]bool{},
		asked:   map[string]int{},
		rv:      100,
	}
	for _, res := range eventlog.Resources() {
		s.objects[res] = map[types.NamespacedName]eventlog.Object{}
	}
	s.http = httptest.NewServer(s)
	return s
}

func (s *apiServer) close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// config returns how to reach the server.
func (s *apiServer) config() *rest.Config { return &rest.Config{Host: s.http.URL, QPS: -1} }

func (s *apiServer) client() kubernetes.Interface {
	c, err := kubernetes.NewForConfig(s.config())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// edit changes the server, and has its watches look.
func (s *apiServer) edit(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// put makes or changes an object.
func (s *apiServer) put(objects ...eventlog.Object) {
	s.edit(func() {
		for _, obj := range objects {
			res := resourceOf(obj)
			obj = obj.DeepCopyObject().(eventlog.Object)
			if s.objects[res] == nil {
				s.objects[res] = map[types.NamespacedName]eventlog.Object{}
			}
			kind := "MODIFIED"
			if s.objects[res][nameOf(obj)] == nil {
				kind = "ADDED"
			}
			s.note(res, kind, obj)
			s.objects[res][nameOf(obj)] = obj
		}
	})
}

// delete deletes an object; last, if there is any, is its last state.
func (s *apiServer) delete(res eventlog.Resource, namespace, name string, last ...eventlog.Object) {
	s.edit(func() {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		obj := s.objects[res][key]
		for _, other := range last {
			obj = other
		}
		delete(s.objects[res], key)
		s.note(res, "DELETED", obj.DeepCopyObject().(eventlog.Object))
	})
}

func (s *apiServer) note(res eventlog.Resource, kind string, obj eventlog.Object) {
	s.rv++
	obj.SetResourceVersion(strconv.Itoa(s.rv))
	s.history[res] = append(s.history[res], change{s.rv, kind, s.text(res, obj)})
}

func (s *apiServer) text(res eventlog.Resource, obj eventlog.Object) json.RawMessage {
	if !eventlog.IsOwn(res) {
		obj.GetObjectKind().SetGroupVersionKind(eventlog.KindFor(res))
	}
	text, err := json.Marshal(obj)
	if err != nil {
		s.t.Error(err)
	}
	return text
}

// breakWatches ends the watches of a resource; forget has the changes up to now be too old to be watched from.
func (s *apiServer) breakWatches(res eventlog.Resource, forget bool) {
	s.edit(func() {
		s.broken[res]++
		if forget {
			s.rv++
			s.oldest[res] = s.rv
		}
	})
}

// times returns the number of requests with a verb for a resource.
func (s *apiServer) times(verb string, res eventlog.Resource) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[verb+" "+string(res)]
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := strings.Join(parts[1:min(len(parts), 3)], "/")
	if parts[0] == "api" {
		group = parts[1]
		parts = append([]string{"apis", ""}, parts[1:]...)
	}
	if len(parts) == 3 {
		s.discover(w, group)
		return
	}
	for _, k := range slices.Concat(kinds, s.own) {
		if k.group().GroupVersion().String() == group && k.group().Resource == parts[3] {
			s.serve(w, r, k)
			return
		}
	}
	s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
}

func (s *apiServer) discover(w http.ResponseWriter, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked["discover "+group]++
	list := metav1.APIResourceList{GroupVersion: group}
	for _, k := range slices.Concat(kinds, s.own) {
		if k.group().GroupVersion().String() != group {
			continue
		}
		if s.lacking[k.resource]--; s.lacking[k.resource] < 0 && !s.absent[k.resource] {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.group().Resource})
		}
	}
	if len(list.APIResources) == 0 {
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	s.answer(w, list)
}

func (s *apiServer) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Log(err) // the client went
	}
}

func (s *apiServer) fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	s.answer(w, status(code, reason))
}

func status(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Code: int32(code), Reason: reason, Message: "the test says so"}
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request, k kind) {
	query := r.URL.Query()
	verb := "list"
	if query.Get("watch") != "" && query.Get("watch") != "0" && query.Get("watch") != "false" {
		verb = "watch"
	}
	s.mu.Lock()
	s.asked[verb+" "+string(k.resource)]++
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	streamed := query.Get("sendInitialEvents") == "true"
	code, reason := 0, metav1.StatusReasonUnknown
	switch {
	case s.absent[k.resource]:
		code, reason = http.StatusNotFound, metav1.StatusReasonNotFound
	case s.refused[verb+" "+string(k.resource)]:
		code, reason = http.StatusForbidden, metav1.StatusReasonForbidden
	case verb == "watch" && streamed && s.noLists:
		code, reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	case verb == "watch" && !streamed && from < s.oldest[k.resource]:
		code, reason = http.StatusGone, metav1.StatusReasonExpired
	}
	if code != 0 {
		s.mu.Unlock()
		s.fail(w, code, reason)
		return
	}
	if verb == "list" {
		text := s.listed(k)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
		return
	}
	broken := s.broken[k.resource]
	var first [][]byte
	if streamed {
		first, from = s.streamed(k), s.rv
	}
	s.mu.Unlock()
	s.stream(w, r, k, first, from, broken)
}

// gvk is the kind of the resource's objects.
func (k kind) gvk() schema.GroupVersionKind {
	if k.own != nil {
		return k.own.GroupVersionKind()
	}
	return eventlog.KindFor(k.resource)
}

// resourceOf returns the resource of an object, also of one of the tests' own.
func resourceOf(obj eventlog.Object) eventlog.Resource {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		for _, res := range eventlog.Resources() {
			if eventlog.KindFor(res) == custom.GroupVersionKind() {
				return res
			}
		}
		return declaredQuotas[0].Resource
	}
	res, _ := eventlog.ResourceOf(obj)
	return res
}

// listed returns the list of a resource.
func (s *apiServer) listed(k kind) []byte {
	var out bytes.Buffer
	gvk := k.gvk()
	fmt.Fprintf(&out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"},"items":[`,
		gvk.GroupVersion().String(), gvk.Kind+"List", s.rv)
	for i, name := range slices.SortedFunc(maps.Keys(s.objects[k.resource]), compareNames) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(s.text(k.resource, s.objects[k.resource][name]))
	}
	out.WriteString("]}")
	return out.Bytes()
}

// streamed returns the events that begin a watch with a list.
func (s *apiServer) streamed(k kind) [][]byte {
	var events [][]byte
	for _, name := range slices.SortedFunc(maps.Keys(s.objects[k.resource]), compareNames) {
		events = append(events, event("ADDED", s.text(k.resource, s.objects[k.resource][name])))
	}
	end := k.example().(eventlog.Object)
	end.SetResourceVersion(strconv.Itoa(s.rv))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(events, event("BOOKMARK", s.text(k.resource, end)))
}

func event(kind string, object []byte) []byte {
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", kind, object)
}

// stream sends changes until the client goes or the watch is broken.
func (s *apiServer) stream(w http.ResponseWriter, r *http.Request, k kind, first [][]byte, from, broken int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for _, e := range first {
		_, _ = w.Write(e)
	}
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		if s.broken[k.resource] != broken || s.absent[k.resource] {
			s.mu.Unlock()
			return
		}
		wait, events := s.changed, [][]byte(nil)
		for _, c := range s.history[k.resource] {
			if c.rv > from && !s.stalled[k.resource] {
				events = append(events, event(c.kind, c.object))
				from = c.rv
			}
		}
		s.mu.Unlock()
		for _, e := range events {
			_, _ = w.Write(e)
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-wait:
		}
	}
}
