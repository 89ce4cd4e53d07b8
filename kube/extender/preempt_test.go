package extender_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/extender"
	"github.com/rollcall-sched/rollcall/sim"
)

// victims returns the victims in a preemption question, by UID.
func victims(args *extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
	if args.NodeNameToMetaVictims != nil {
		return args.NodeNameToMetaVictims
	}
	all := map[string]*extenderv1.MetaVictims{}
	for node, whole := range args.NodeNameToVictims {
		all[node] = &extenderv1.MetaVictims{NumPDBViolations: whole.NumPDBViolations}
		for _, pod := range whole.Pods {
			all[node].Pods = append(all[node].Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
	}
	return all
}

// leaving is an extender that leaves these nodes, with the victims of the question.
func leaving(keep ...string) func(*extenderv1.ExtenderPreemptionArgs) any {
	return changing(func(all map[string]*extenderv1.MetaVictims) {
		for node := range all {
			if !slices.Contains(keep, node) {
				delete(all, node)
			}
		}
	})
}

// changing is an extender that changes the objects of the question.
func changing(change func(all map[string]*extenderv1.MetaVictims)) func(*extenderv1.ExtenderPreemptionArgs) any {
	return func(args *extenderv1.ExtenderPreemptionArgs) any {
		all := victims(args)
		change(all)
		return &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: all}
	}
}

// preempter is a configuration with extenders that preempt.
func preempter(more string, servers ...*server) string {
	text := "extenders:\n"
	for _, s := range servers {
		text += fmt.Sprintf("- {urlPrefix: %q, preemptVerb: preempt%s}\n", s.URL, more)
	}
	return text
}

// fullWorld has two pods of two CPUs on each of five nodes, the second of each a little more important, and a pod high
// that comes later and wants two CPUs.
func fullWorld() string {
	var text strings.Builder
	for i := 1; i <= 5; i++ {
		for k, name := range []string{"low", "mid"} {
			fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\n"+
				"metadata: {name: %[1]s-%[2]d, namespace: ns, uid: %[1]s-%[2]d}\nspec: {priority: %[3]d, "+
				"nodeSelector: {kubernetes.io/hostname: machine%[2]d}, "+
				"containers: [{name: c, image: i, resources: {requests: {cpu: \"2\"}}}]}\n---\n", name, i, k)
		}
	}
	return text.String() + highYAML("high")
}

// highYAML is a pod that comes after ten seconds and preempts others.
func highYAML(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: ns, "+
		"annotations: {rollcall.dev/arrival: 10s}}\nspec: {priority: 9, "+
		"containers: [{name: c, image: i, resources: {requests: {cpu: \"2\"}}}]}\n---\n", name)
}

// evicted are the names of the pods that decisions on a pod evict.
func (w *world) evicted(pod string) (names []string) {
	w.t.Helper()
	byUID := map[string]string{}
	for _, d := range w.decisions("") {
		byUID[string(d.UID)] = d.Name
	}
	for _, d := range w.decisions(pod) {
		for _, uid := range d.Victims {
			names = append(names, byUID[string(uid)])
		}
	}
	return names
}

// TestExtendersHaveASayInPreemption has one leave a node, name another victim, and several of them one after the other,
// of which one that fails is skipped. The pods that it does not name stay.
func TestExtendersHaveASayInPreemption(t *testing.T) {
	other := changing(func(all map[string]*extenderv1.MetaVictims) {
		for node := range all {
			if node != "machine4" {
				delete(all, node)
				continue
			}
			all[node].Pods = []*extenderv1.MetaPod{{UID: "mid-4"}}
		}
	})
	fails := func(*extenderv1.ExtenderPreemptionArgs) any { return "no JSON object" }
	for _, row := range []struct {
		name, more, victim string
		preempt            []func(*extenderv1.ExtenderPreemptionArgs) any
	}{
		{"a node", "", "low-3", []func(*extenderv1.ExtenderPreemptionArgs) any{leaving("machine3")}},
		{"by name", ", nodeCacheCapable: true", "low-3",
			[]func(*extenderv1.ExtenderPreemptionArgs) any{leaving("machine3")}},
		{"another victim", "", "mid-4", []func(*extenderv1.ExtenderPreemptionArgs) any{other}},
		{"two", "", "low-2", []func(*extenderv1.ExtenderPreemptionArgs) any{leaving("machine1", "machine2"),
			leaving("machine2", "machine3")}},
		{"one fails", ", ignorable: true", "low-5", []func(*extenderv1.ExtenderPreemptionArgs) any{fails,
			leaving("machine5")}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var servers []*server
			for _, preempt := range row.preempt {
				servers = append(servers, serve(t, &server{preempt: preempt}))
			}
			w := play(t, preempter(row.more, servers...), fullWorld(), time.Minute)
			want := "Asked, Unschedulable, Scheduled machine" + row.victim[len(row.victim)-1:]
			if got := w.story("high"); got != want {
				t.Errorf("got  %s\nwant %s\n%s", got, want, w.text())
			}
			if got := w.evicted("high"); !slices.Equal(got, []string{row.victim}) {
				t.Errorf("evicted are %v, want %s", got, row.victim)
			}
		})
	}
}

// TestExtendersThatSpoilAPreemption has servers that are slow, lie, or leave nothing. Nobody is evicted, the pod is
// tried again later, and an extender that may be ignored is skipped where kube-scheduler skips it.
func TestExtendersThatSpoilAPreemption(t *testing.T) {
	named := func(node, uid string) func(*extenderv1.ExtenderPreemptionArgs) any {
		return changing(func(all map[string]*extenderv1.MetaVictims) {
			clear(all)
			all[node] = &extenderv1.MetaVictims{Pods: []*extenderv1.MetaPod{{UID: uid}}}
		})
	}
	for _, row := range []struct {
		name, says string
		server     *server
		stays      bool // also if the extender may be ignored
	}{
		{"slow", "Client.Timeout exceeded", &server{raw: func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		}}, false},
		{"refuses", "answered 500", &server{raw: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
		}}, false},
		{"another node", "about which it was not asked", &server{preempt: named("elsewhere", "low-1")}, false},
		{"another node's pod", "is not on the node", &server{preempt: named("machine2", "low-1")}, false},
		{"no pod at all", "is not on the node", &server{preempt: named("machine2", "nobody")}, false},
		{"violates less than no budget", "disruption budgets are violated", &server{preempt: changing(
			func(all map[string]*extenderv1.MetaVictims) { all["machine1"].NumPDBViolations = -1 })}, false},
		{"no victims", "", &server{preempt: changing(func(all map[string]*extenderv1.MetaVictims) {
			for node := range all {
				all[node] = nil
			}
		})}, true},
		{"leaves nothing", "", &server{preempt: leaving()}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.server)
			w := play(t, preempter(", httpTimeout: 300ms", s), fullWorld(), time.Minute)
			if got := w.story("high"); got != "Asked, Unschedulable" {
				t.Errorf("got %s", got)
			}
			if !strings.Contains(w.text(), row.says) || len(w.evicted("")) > 0 {
				t.Errorf("the log does not say %q, or %v are evicted", row.says, w.evicted(""))
			}
			w = play(t, preempter(", httpTimeout: 300ms, ignorable: true", s), fullWorld(), time.Minute)
			want := "Asked, Unschedulable, Scheduled machine1"
			if row.stays {
				want = "Asked, Unschedulable"
			}
			if got := w.story("high"); got != want {
				t.Errorf("with an extender that may be ignored: got %s, want %s", got, want)
			}
		})
	}
}

// TestWhatASpoiltPreemptionIsTriedAgainFor has an extender that fails at first be asked again after five minutes,
// though nothing has changed.
func TestWhatASpoiltPreemptionIsTriedAgainFor(t *testing.T) {
	s := &server{}
	s.preempt = func(args *extenderv1.ExtenderPreemptionArgs) any {
		if s.calls.Load() == 1 {
			return "not now"
		}
		return leaving("machine3")(args)
	}
	w := play(t, preempter("", serve(t, s)), fullWorld(), 20*time.Minute)
	if got := w.story("high"); got != "Asked, Unschedulable, Asked, Unschedulable, Scheduled machine3" {
		t.Errorf("got %s", got)
	}
}

// TestAVictimThatMayNotBeEvictedIsNone has an extender name a pod that is more important than the one that preempts.
func TestAVictimThatMayNotBeEvictedIsNone(t *testing.T) {
	s := serve(t, &server{preempt: changing(func(all map[string]*extenderv1.MetaVictims) {
		all["machine1"].Pods = []*extenderv1.MetaPod{{UID: "mid-1"}}
		for node := range all {
			if node != "machine1" {
				delete(all, node)
			}
		}
	})})
	manifests := strings.Replace(fullWorld(), "{name: mid-1, namespace: ns, uid: mid-1}\nspec: {priority: 1,",
		"{name: mid-1, namespace: ns, uid: mid-1}\nspec: {priority: 50,", 1)
	w := play(t, preempter("", s), manifests, time.Minute)
	if got := w.story("high"); got != "Asked, Unschedulable" {
		t.Errorf("got %s", got)
	}
}

// TestNobodyIsAskedAboutAGangsPreemption has a gang take the place of others, as in kube-scheduler 1.37.
func TestNobodyIsAskedAboutAGangsPreemption(t *testing.T) {
	s := serve(t, &server{preempt: leaving()})
	gang := strings.ReplaceAll(gangYAML("g", 2, "2"), "spec: {containers", "spec: {priority: 9, containers")
	gang = strings.ReplaceAll(gang, "namespace: ns, labels",
		"namespace: ns, annotations: {rollcall.dev/arrival: 10s}, labels")
	manifests, _, _ := strings.Cut(fullWorld(), highYAML("high"))
	w := play(t, preempter("", s), manifests+gang, time.Minute)
	if calls := s.calls.Load(); calls > 0 || len(w.evicted("")) != 2 {
		t.Errorf("%d calls, evicted are %v: %s\n%s", calls, w.evicted(""), w.story("g-0"), w.story("g-1"))
	}
}

// TestAPodPreemptsNoNodeAgainThatAnExtenderRefuses has an extender refuse each node that was made free for a pod. The
// pods that went come again, so that without a memory of the refusal they would be evicted without end.
func TestAPodPreemptsNoNodeAgainThatAnExtenderRefuses(t *testing.T) {
	for _, row := range []struct {
		name, manifests string
		preemptor       string
		most            int
	}{
		{"a pod", fullWorld(), "high", 5},
		{"a gang", "", "g", 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, &server{filter: func(args *extenderv1.ExtenderArgs) any {
				all := names(args)
				if args.Pod.Spec.Priority != nil && *args.Pod.Spec.Priority == 9 {
					all = []string{}
				}
				return &extenderv1.ExtenderFilterResult{NodeNames: &all}
			}})
			manifests := row.manifests
			if manifests == "" {
				gang := strings.ReplaceAll(gangYAML("g", 2, "2"), "spec: {containers", "spec: {priority: 9, containers")
				gang = strings.ReplaceAll(gang, "namespace: ns, labels",
					"namespace: ns, annotations: {rollcall.dev/arrival: 10s}, labels")
				low, _, _ := strings.Cut(fullWorld(), highYAML("high"))
				manifests = low + gang
			}
			w := playWith(t, one(s, ""), manifests, sim.Options{Until: 2 * time.Hour, Requeue: sim.RequeueAll})
			evictions := 0
			for _, d := range w.decisions("") {
				evictions += len(d.Victims)
				if d.Outcome == eventlog.Scheduled && strings.HasPrefix(d.Name, row.preemptor) {
					t.Errorf("%s is placed on %s", d.Name, d.Node)
				}
			}
			t.Logf("%d evictions, %d decisions", evictions, len(w.decisions("")))
			if evictions == 0 || evictions > row.most {
				t.Errorf("%d pods were evicted in vain, want 1 to %d", evictions, row.most)
			}
		})
	}
}

// TestAVictimThatIsGoneSpoilsNoAnswer has pods be gone by the time that the question is asked: their candidates are
// others by now. Nobody is asked about these, and the answer about the rest counts.
func TestAVictimThatIsGoneSpoilsNoAnswer(t *testing.T) {
	candidates := []eventlog.Candidate{
		{Node: "n1", Victims: []types.UID{"a", "b"}}, {Node: "n2", Victims: []types.UID{"c"}},
	}
	pods := func(uids ...string) (list []*v1.Pod) {
		for _, uid := range uids {
			list = append(list, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}})
		}
		return list
	}
	for _, more := range []string{"", ", nodeCacheCapable: true"} {
		for _, row := range []struct {
			there map[string][]*v1.Pod
			want  []eventlog.Candidate
			calls int32
		}{
			{map[string][]*v1.Pod{"n1": pods("a", "b"), "n2": pods("c")}, candidates, 1},
			{map[string][]*v1.Pod{"n1": pods("a"), "n2": pods("c")}, candidates[1:], 1},
			{map[string][]*v1.Pod{"n1": pods("a")}, candidates, 0},
		} {
			s := serve(t, &server{preempt: leaving("n1", "n2")})
			cfg, err := framework.LoadConfig([]byte("apiVersion: kubescheduler.config.k8s.io/v1\n"+
				"kind: KubeSchedulerConfiguration\n"+preempter(more, s)), "config")
			if err != nil {
				t.Fatal(err)
			}
			client, err := extender.New(extender.Options{Extenders: cfg.Extenders})
			if err != nil {
				t.Fatal(err)
			}
			answers := client.Preempt(t.Context(), pods("high")[0], candidates, row.there)
			if len(answers) != 1 || answers[0].PreemptError != "" ||
				!reflect.DeepEqual(answers[0].Candidates, row.want) || s.calls.Load() != row.calls {
				t.Errorf("with %v: %d calls, answered is %+v", row.there, s.calls.Load(), answers)
			}
		}
	}
}
