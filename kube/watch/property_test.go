package watch

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// model is a world of pods and nodes, and the reports to a Watch about it: every change, or a list after some changes
// that it missed.
type model struct {
	t      *rapid.T
	watch  *Watch
	state  *logState
	stores map[eventlog.Resource]*store
	world  map[eventlog.Resource]map[string]eventlog.Object
	behind map[eventlog.Resource]bool // changes were missed
	uids   int

	changed func(res eventlog.Resource, obj eventlog.Object, gone bool) // hears each change, unless it is nil
	taken   func([]eventlog.Payload)                                    // hears what was taken, unless it is nil
}

// begin makes a Watch that knows the objects of the log, and gives it the first lists.
func (m *model) begin() {
	m.beginAs(false)
	m.listAll()
}

// beginAs is begin without the lists.
func (m *model) beginAs(following bool) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	w, err := New(Options{
		Client: kubernetes.NewForConfigOrDie(config), Config: config, Known: m.state.all(), Following: following,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.watch, m.stores = w, map[eventlog.Resource]*store{}
	for place, k := range kinds {
		m.stores[k.resource] = &store{watch: w, place: place, kind: k}
	}
	if got := w.Take(); got != nil {
		m.t.Fatalf("took %v before the lists", got)
	}
}

// listAll gives a Watch the first lists.
func (m *model) listAll() {
	for _, k := range kinds {
		m.list(k.resource)
	}
}

// list tells the Watch of all objects of a resource.
func (m *model) list(res eventlog.Resource) {
	var objects []any
	for _, name := range m.shuffled(res) {
		objects = append(objects, m.world[res][name].DeepCopyObject())
	}
	s := m.stores[res]
	if rapid.Bool().Draw(m.t, "streamed") {
		for i, object := range objects {
			var err error
			if objects[i], err = s.Transformer()(object); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	if err := s.Replace(objects, ""); err != nil {
		m.t.Fatal(err)
	}
	m.behind[res] = false
}

func (m *model) shuffled(res eventlog.Resource) []string {
	return rapid.Permutation(slices.Sorted(maps.Keys(m.world[res]))).Draw(m.t, "order")
}

// tell tells the Watch of a change, unless its watch is broken.
func (m *model) tell(res eventlog.Resource, obj eventlog.Object, gone bool) {
	if m.changed != nil {
		m.changed(res, obj, gone)
	}
	if m.behind[res] {
		return
	}
	obj = obj.DeepCopyObject().(eventlog.Object)
	tell := m.stores[res].Update
	if gone {
		tell = m.stores[res].Delete
	}
	if err := tell(obj); err != nil {
		m.t.Fatal(err)
	}
}

// change changes the world in some way.
func (m *model) change() {
	res := rapid.SampledFrom([]eventlog.Resource{eventlog.Pods, eventlog.Nodes}).Draw(m.t, "resource")
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(m.t, "name")
	was := m.world[res][name]
	if was != nil && rapid.IntRange(0, 3).Draw(m.t, "delete") == 0 {
		last := was
		if p, ok := was.(*corev1.Pod); ok && rapid.Bool().Draw(m.t, "finished") {
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodSucceeded
			last = p
		}
		delete(m.world[res], name)
		m.tell(res, last, true)
		return
	}
	uid := types.UID("")
	if was == nil {
		m.uids++
		uid = types.UID(fmt.Sprint(m.uids))
	} else {
		uid = was.GetUID()
	}
	var obj eventlog.Object
	if res == eventlog.Pods {
		p := pod(name, string(uid))
		p.Spec.NodeName = rapid.SampledFrom([]string{"", "", "n1", "n2"}).Draw(m.t, "node")
		p.Spec.Containers[0].Args = []string{rapid.SampledFrom([]string{"x", "y"}).Draw(m.t, "not logged")}
		if old, ok := was.(*corev1.Pod); ok && isFinished(old) || rapid.IntRange(0, 4).Draw(m.t, "finish") == 0 {
			p.Status.Phase = corev1.PodFailed
		}
		obj = p
	} else {
		n := node(name, string(uid), heartbeat)
		n.Spec.Unschedulable = rapid.Bool().Draw(m.t, "unschedulable")
		cores := rapid.SampledFrom([]string{"1", "1", "-1", "9e18", "8e18"}).Draw(m.t, "cores")
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}
		obj = n
	}
	m.world[res][name] = obj
	m.tell(res, obj, false)
}

// take applies all waiting changes. A name that has another object than the log had needs two inputs, a name whose
// object has changed needs one, and others need none.
func (m *model) take() {
	had := maps.Clone(m.state.text)
	uids := map[string]types.UID{}
	for key, obj := range m.state.has {
		uids[key] = obj.GetUID()
	}
	inputs := m.watch.Take()
	m.state.apply(inputs)
	if m.taken != nil {
		m.taken(inputs)
	}
	needed := 0
	for key := range had {
		now := m.state.has[key]
		switch {
		case now == nil:
			needed++
		case now.GetUID() != uids[key]:
			needed += 2
		case string(had[key]) != string(m.state.text[key]):
			needed++
		}
	}
	for key := range m.state.text {
		if had[key] == nil {
			needed++
		}
	}
	if len(inputs) > needed {
		m.t.Errorf("%d inputs, and %d were needed", len(inputs), needed)
	}
	if m.watch.Waiting() != 0 {
		m.t.Errorf("%d wait after everything was taken", m.watch.Waiting())
	}
}

// check reports if the log differs from the world.
func (m *model) check() {
	for res, behind := range m.behind {
		if behind {
			m.list(res)
		}
	}
	m.take()
	var all []eventlog.Object
	for _, res := range []eventlog.Resource{eventlog.Pods, eventlog.Nodes} {
		all = slices.AppendSeq(all, maps.Values(m.world[res]))
	}
	m.state.is(all...)
}

func TestWhatWasTakenIsTheTrimmedWorldWhateverHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, behind: map[eventlog.Resource]bool{}, world: map[eventlog.Resource]map[string]eventlog.Object{
			eventlog.Pods: {}, eventlog.Nodes: {}}}
		m.state = newLogState(t)
		for range rapid.IntRange(0, 3).Draw(t, "at first") {
			m.behind[eventlog.Pods], m.behind[eventlog.Nodes] = true, true
			m.change()
		}
		m.begin()
		t.Repeat(map[string]func(*rapid.T){
			"change":  func(*rapid.T) { m.change() },
			"change ": func(*rapid.T) { m.change() },
			"take":    func(*rapid.T) { m.take() },
			"miss": func(t *rapid.T) {
				m.behind[rapid.SampledFrom([]eventlog.Resource{eventlog.Pods, eventlog.Nodes}).Draw(t, "of")] = true
			},
			"list": func(t *rapid.T) {
				m.list(rapid.SampledFrom([]eventlog.Resource{eventlog.Pods, eventlog.Nodes}).Draw(t, "of"))
			},
			"check": func(*rapid.T) { m.check() },
			"restart": func(*rapid.T) { // what waited is lost, and what happens meanwhile is not seen
				m.behind[eventlog.Pods], m.behind[eventlog.Nodes] = true, true
				for range rapid.IntRange(0, 3).Draw(t, "meanwhile") {
					m.change()
				}
				m.begin()
			},
		})
		m.check()
	})
}
