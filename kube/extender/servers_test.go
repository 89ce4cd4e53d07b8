package extender_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/extender"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/simulate"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

// server is an extender whose verbs a test sets. A verb that is nil is answered with 404.
type server struct {
	*httptest.Server
	calls      atomic.Int32
	filter     func(args *extenderv1.ExtenderArgs) any
	prioritize func(args *extenderv1.ExtenderArgs) any
	preempt    func(args *extenderv1.ExtenderPreemptionArgs) any
	// raw, if it is set, answers all.
	raw http.HandlerFunc
}

func serve(t *testing.T, s *server) *server {
	t.Helper()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.calls.Add(1)
		if s.raw != nil {
			s.raw(w, req)
			return
		}
		if req.URL.Path == "/preempt" && s.preempt != nil {
			answerPreempt(t, s, w, req)
			return
		}
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(req.Body).Decode(&args); err != nil || args.Pod == nil {
			t.Errorf("asked without a pod, error %v", err)
		}
		verbs := map[string]func(*extenderv1.ExtenderArgs) any{"/filter": s.filter, "/prioritize": s.prioritize}
		answer := verbs[req.URL.Path]
		if answer == nil {
			http.NotFound(w, req)
			return
		}
		if err := json.NewEncoder(w).Encode(answer(&args)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func answerPreempt(t *testing.T, s *server, w http.ResponseWriter, req *http.Request) {
	t.Helper()
	var args extenderv1.ExtenderPreemptionArgs
	if err := json.NewDecoder(req.Body).Decode(&args); err != nil || args.Pod == nil ||
		(args.NodeNameToMetaVictims == nil) == (args.NodeNameToVictims == nil) {
		t.Errorf("asked about preemption without a pod, or of nothing, error %v", err)
	}
	if err := json.NewEncoder(w).Encode(s.preempt(&args)); err != nil {
		t.Error(err)
	}
}

// names returns the nodes in a question.
func names(args *extenderv1.ExtenderArgs) (names []string) {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	for i := range args.Nodes.Items {
		names = append(names, args.Nodes.Items[i].Name)
	}
	return names
}

// keeping is a filter that keeps these nodes, and fails the others.
func keeping(keep ...string) func(*extenderv1.ExtenderArgs) any {
	return func(args *extenderv1.ExtenderArgs) any {
		result := &extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}}
		kept := []string{}
		for _, name := range names(args) {
			if slices.Contains(keep, name) {
				kept = append(kept, name)
			} else {
				result.FailedNodes[name] = "not one of " + strings.Join(keep, ", ")
			}
		}
		if args.NodeNames != nil {
			result.NodeNames = &kept
			return result
		}
		result.Nodes = &v1.NodeList{}
		for _, node := range args.Nodes.Items {
			if slices.Contains(kept, node.Name) {
				result.Nodes.Items = append(result.Nodes.Items, node)
			}
		}
		return result
	}
}

// scoring prefers one node.
func scoring(best string, score int64) func(*extenderv1.ExtenderArgs) any {
	return func(args *extenderv1.ExtenderArgs) any {
		list := extenderv1.HostPriorityList{}
		for _, name := range names(args) {
			s := extenderv1.HostPriority{Host: name, Score: 1}
			if name == best {
				s.Score = score
			}
			list = append(list, s)
		}
		return list
	}
}

const podsYAML = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: ns}
spec: {schedulerName: default-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
`

// world is a simulation with extenders.
type world struct {
	t      *testing.T
	log    *eventlog.Memory
	config []byte
	nodes  int

	extenders []config.Extender
	manifests string
}

// play simulates the workload with real calls to the extenders of a configuration, and replays the log without them.
func play(t *testing.T, extenders, manifests string, until time.Duration) *world {
	t.Helper()
	return playWith(t, extenders, manifests, sim.Options{Until: until})
}

func playWith(t *testing.T, extenders, manifests string, options sim.Options) *world {
	t.Helper()
	cfg, err := framework.LoadConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\n"+
		"kind: KubeSchedulerConfiguration\n"+extenders), "config")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, log: eventlog.NewMemory(), nodes: 5, extenders: cfg.Extenders, manifests: manifests}
	if w.config, err = framework.EncodeConfig(cfg); err != nil {
		t.Fatal(err)
	}
	w.run(options, false)
	w.replay()
	return w
}

// run simulates, or resumes the simulation behind the log's last entry.
func (w *world) run(options sim.Options, resume bool) {
	t := w.t
	t.Helper()
	var cluster *sim.Cluster
	client, err := extender.New(extender.Options{Extenders: w.extenders,
		Node: func(name string) *v1.Node { return cluster.Node(name) }})
	if err != nil {
		t.Fatal(err)
	}
	var objects strings.Builder
	for i := range w.nodes {
		fmt.Fprintf(&objects, "apiVersion: v1\nkind: Node\nmetadata: {name: machine%d, "+
			"labels: {kubernetes.io/hostname: machine%[1]d}}\n"+
			"status: {allocatable: {cpu: \"4\", memory: 8Gi, pods: \"10\"}}\n---\n", i+1)
	}
	nodes, work, err := workload.Parse("test.yaml", strings.NewReader(objects.String()+w.manifests))
	if err != nil {
		t.Fatal(err)
	}
	options.Extenders = client
	if cluster, err = sim.New(nodes, work, options); err != nil {
		t.Fatal(err)
	}
	if _, err := simulate.Run(t.Context(), cluster, simulate.Options{Log: w.log, Resume: resume, Engine: engine.Options{
		Registry: plugins.NewRegistry(), Config: w.config, Version: "test", NewID: func() string { return "epoch" },
	}}); err != nil {
		t.Fatal(err)
	}
}

// replay decides the log again. There is no server in it.
func (w *world) replay() {
	w.t.Helper()
	report, err := replay.Verify(context.Background(), w.log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()})
	if err != nil || !report.Identical() || report.Decisions == 0 {
		w.t.Errorf("the replay: %+v, error %v", report, err)
	}
}

// decisions returns the decisions of the log on a pod, or on all.
func (w *world) decisions(pod string) (all []*eventlog.Decision) {
	w.t.Helper()
	for e, err := range w.log.Read(context.Background(), 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		if d, ok := e.Payload.(*eventlog.Decision); ok && (pod == "" || d.Name == pod) {
			all = append(all, d)
		}
		if last, _ := w.log.Last(); e.Seq == last {
			break
		}
	}
	return all
}

// story returns the decisions on a pod, in short.
func (w *world) story(pod string) string {
	w.t.Helper()
	var words []string
	for _, d := range w.decisions(pod) {
		word := d.Outcome.String()
		if d.Node != "" {
			word += " " + d.Node
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// TestExtendersFilterAndPrioritize is Kubernetes' own TestSchedulerExtender, with its servers. The first and the third
// keep machines 1, 2 and 3, the second machines 2, 3 and 5; the second prefers machine 3, the others machine 2.
func TestExtendersFilterAndPrioritize(t *testing.T) {
	of123, of235 := keeping("machine1", "machine2", "machine3"), keeping("machine2", "machine3", "machine5")
	first := serve(t, &server{filter: of123, prioritize: scoring("machine2", 10)})
	second := serve(t, &server{filter: of235, prioritize: scoring("machine3", 10)})
	third := serve(t, &server{filter: of123, prioritize: scoring("machine2", 50)})
	w := play(t, fmt.Sprintf(`extenders:
- {urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: 3}
- {urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: 4}
- {urlPrefix: %q, filterVerb: filter, prioritizeVerb: prioritize, weight: 10, nodeCacheCapable: true}
`, first.URL, second.URL, third.URL), fmt.Sprintf(podsYAML, "p"), time.Hour)
	if got := w.story("p"); got != "Asked, Scheduled machine2" {
		t.Fatalf("got %s", got)
	}
	d := w.decisions("p")[1]
	if d.Feasible != 2 || d.Evaluated != 5 {
		t.Errorf("%d of %d nodes were feasible, want 2 of 5", d.Feasible, d.Evaluated)
	}
	if least := int64(10 * (10*3 + 1*4 + 50*10)); d.Score < least || d.Score > least+1000 {
		t.Errorf("the score is %d, want the extenders' %d and what the plugins give", d.Score, least)
	}
	if first.calls.Load() != 2 || second.calls.Load() != 2 || third.calls.Load() != 2 {
		t.Error("each was to be asked twice")
	}
}

// one is a configuration with one extender.
func one(s *server, more string) string {
	return fmt.Sprintf("extenders: [{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true%s}]\n", s.URL, more)
}

// TestExtendersThatFail has servers that are slow, die, lie, and never end. A pod waits for its backoff then and is
// tried again, and goes anywhere if the extender may be ignored. None of it takes longer than the extender's timeout,
// and no answer of a server reaches the log unchecked.
func TestExtendersThatFail(t *testing.T) {
	names := func(names ...string) func(*extenderv1.ExtenderArgs) any {
		return func(*extenderv1.ExtenderArgs) any {
			return &extenderv1.ExtenderFilterResult{NodeNames: &names}
		}
	}
	for _, row := range []struct {
		name, want string
		server     *server
	}{
		{"slow", "Client.Timeout exceeded", &server{raw: func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}}},
		{"dies", "EOF", &server{raw: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}},
		{"refuses", "answered 500", &server{raw: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }}},
		{"no JSON", "invalid character", &server{raw: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}}},
		{"never ends", "answered more than", &server{raw: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Error": "`)
			for line := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}}},
		{"says so", "no idea", &server{filter: func(*extenderv1.ExtenderArgs) any {
			return &extenderv1.ExtenderFilterResult{Error: "no idea, ask https://user:secret@example.com"}
		}}},
		{"another node", "about which it was not asked", &server{filter: names("machine1", "elsewhere")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.server)
			began := time.Now()
			w := play(t, one(s, ", httpTimeout: 300ms"), fmt.Sprintf(podsYAML, "p"), 2*time.Second)
			if got := w.story("p"); got != "Asked, Error, Asked, Error" {
				t.Errorf("got %s", got)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			text := w.text()
			if !strings.Contains(text, row.want) || strings.Contains(text, "secret") || len(text) > 1<<16 {
				t.Errorf("the log does not say %q, or says too much: %.2000s", row.want, text)
			}
			again := play(t, one(s, ", httpTimeout: 300ms, ignorable: true"), fmt.Sprintf(podsYAML, "p"), time.Second)
			if got := again.story("p"); got != "Asked, Scheduled machine1" {
				t.Errorf("with an extender that may be ignored: %s", got)
			}
		})
	}
}

// text is the log as log cat prints it.
func (w *world) text() string {
	w.t.Helper()
	var text []byte
	last, _ := w.log.Last()
	for e, err := range w.log.Read(context.Background(), 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		if text, err = eventlog.AppendJSON(text, e); err != nil {
			w.t.Fatal(err)
		}
		if text = append(text, '\n'); e.Seq == last {
			break
		}
	}
	return string(text)
}

// TestExtendersRefuseAllNodes has a pod be refused with the extender's words, and tried again when something changes.
func TestExtendersRefuseAllNodes(t *testing.T) {
	s := serve(t, &server{filter: func(args *extenderv1.ExtenderArgs) any {
		return &extenderv1.ExtenderFilterResult{NodeNames: &[]string{},
			FailedNodes:                extenderv1.FailedNodesMap{"machine1": "no licence", "machine2": "no licence"},
			FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{"machine2": "on fire"}}
	}})
	w := play(t, one(s, ""), fmt.Sprintf(podsYAML, "p"), time.Second)
	all := w.decisions("p")
	if got := w.story("p"); got != "Asked, Unschedulable" {
		t.Fatalf("got %s", got)
	}
	want := []eventlog.Rejection{
		{Plugin: "Extender", Code: "Unschedulable", Reason: "no licence", Nodes: 1},
		{Plugin: "Extender", Code: "UnschedulableAndUnresolvable", Reason: "on fire", Nodes: 1},
		{Plugin: "Extender", Code: "UnschedulableAndUnresolvable", Reason: "the extender left the node out", Nodes: 3},
	}
	var got []eventlog.Rejection
	for _, r := range all[1].Rejections {
		if r.Plugin == "Extender" {
			got = append(got, r)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", all[1].Rejections)
	}
}

// TestAGangAsksForAllOfItsMembersAtOnce places a gang of three on the nodes that an extender leaves it, and asks with
// one Decision. A gang that finds no room there is placed nowhere.
func TestAGangAsksForAllOfItsMembersAtOnce(t *testing.T) {
	s := serve(t, &server{filter: keeping("machine2", "machine4")})
	w := play(t, one(s, ""), gangYAML("g", 3, "2"), time.Second)
	all := w.decisions("")
	if len(all) != 4 || all[0].Outcome != eventlog.Asked || len(all[0].Questions) != 1 ||
		len(all[0].Questions[0].UIDs) != 3 || len(all[3].Allowed) != 2 {
		t.Fatalf("decided is %s, %s, %s", w.story("g-0"), w.story("g-1"), w.story("g-2"))
	}
	for _, d := range all[1:] {
		if d.Node != "machine2" && d.Node != "machine4" {
			t.Errorf("%s went to node %q", d.Name, d.Node)
		}
	}
	if calls := s.calls.Load(); calls != 3 {
		t.Errorf("the extender was asked %d times", calls)
	}
	w = play(t, one(s, ""), gangYAML("g", 5, "2"), time.Second)
	for _, d := range w.decisions("") {
		if len(d.Allowed) > 0 || d.Outcome == eventlog.Scheduled {
			t.Errorf("a gang of five that has room for four is placed: %+v", d)
		}
	}
}

// gangYAML is a gang whose members want so many CPUs each.
func gangYAML(name string, members int, cpu string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\n"+
		"metadata: {name: %s, namespace: ns}\nspec: {minMember: %d}\n---\n", name, members)
	for i := range members {
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s-%d, namespace: ns, "+
			"labels: {scheduling.x-k8s.io/pod-group: %s}}\n"+
			"spec: {containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}\n---\n", name, i, name, cpu)
	}
	return text.String()
}

// TestExtendersAreAskedOnlyWhereTheyCare has an extender that manages a resource, which the scheduler ignores.
func TestExtendersAreAskedOnlyWhereTheyCare(t *testing.T) {
	s := serve(t, &server{filter: keeping("machine3")})
	w := play(t, one(s, ", managedResources: [{name: foo.com/bar, ignoredByScheduler: true}]"),
		fmt.Sprintf(podsYAML, "plain")+strings.Replace(fmt.Sprintf(podsYAML, "other"), `{requests: {cpu: "1"}}`,
			`{requests: {foo.com/bar: "1"}, limits: {foo.com/bar: "1"}}`, 1), time.Second)
	if got := w.story("plain"); got != "Scheduled machine1" {
		t.Errorf("the pod that the extender does not care for: %s", got)
	}
	if got := w.story("other"); got != "Asked, Scheduled machine3" {
		t.Errorf("the pod that it cares for: %s", got)
	}
}
