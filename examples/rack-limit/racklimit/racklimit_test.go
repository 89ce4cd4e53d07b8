package racklimit

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// handle shows the plugin some nodes, and has nothing else.
type handle struct {
	fwk.Handle
	fwk.SharedLister
	fwk.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (h *handle) SnapshotSharedLister() fwk.SharedLister { return h }
func (h *handle) NodeInfos() fwk.NodeInfoLister          { return h }
func (h *handle) List() ([]fwk.NodeInfo, error)          { return h.nodes, nil }

func node(name, rack string, pods ...*v1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	labels := map[string]string{}
	if rack != "" {
		labels["rack"] = rack
	}
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	return info
}

func pod(namespace, name, app string) *v1.Pod {
	labels := map[string]string{}
	if app != "" {
		labels["app"] = app
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// args are arguments as a factory is given them.
func args(text string) runtime.Object {
	return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
}

func newPlugin(t *testing.T, nodes ...fwk.NodeInfo) *RackLimit {
	t.Helper()
	plugin, err := New(t.Context(), args(`{"rackLabel":"rack","appLabel":"app","limit":2}`), &handle{nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*RackLimit)
}

func TestArgumentsThatAreMissingOrWrongAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "rackLabel is needed",
		`{"rackLabel":"rack"}`:             "appLabel is needed",
		`{"rackLabel":"r","appLabel":"a"}`: "limit is 0: want at least 1",
		`{"rackLabel":5}`:                  "cannot unmarshal number",
		`{"rackLabel":"r","appLabel":"a","limit":-1}`: "limit is -1",
	} {
		var obj runtime.Object
		if text != "" {
			obj = args(text)
		}
		if _, err := New(t.Context(), obj, &handle{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q in it", text, err, want)
		}
	}
}

// world is two racks: a, with two pods of web on two nodes, and b, with one; and a node without a rack.
func world() []fwk.NodeInfo {
	return []fwk.NodeInfo{
		node("a1", "a", pod("ns", "web-0", "web"), pod("other", "web-9", "web")),
		node("a2", "a", pod("ns", "web-1", "web")),
		node("b1", "b", pod("ns", "web-2", "web"), pod("ns", "db-0", "db")), node("free", ""),
	}
}

// filtered returns the nodes that take the pod, and what the plugin left for the rest of the cycle.
func filtered(t *testing.T, p *RackLimit, pod *v1.Pod, nodes []fwk.NodeInfo) (string, fwk.CycleState) {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := p.PreFilter(t.Context(), state, pod, nodes); !status.IsSuccess() && !status.IsSkip() {
		t.Fatal(status)
	}
	var taken []string
	for _, n := range nodes {
		if p.Filter(t.Context(), state, pod, n).IsSuccess() {
			taken = append(taken, n.Node().Name)
		}
	}
	return strings.Join(taken, " "), state
}

func TestARackTakesNoMorePodsOfAnAppThanItsLimit(t *testing.T) {
	for _, tc := range []struct {
		pod  *v1.Pod
		want string
	}{
		{pod("ns", "web-3", "web"), "b1"},
		{pod("other", "web-3", "web"), "a1 a2 b1"}, // another namespace's app
		{pod("ns", "db-1", "db"), "a1 a2 b1"},
		{pod("ns", "plain", ""), "a1 a2 b1 free"}, // no app, no limit
	} {
		nodes := world()
		if got, _ := filtered(t, newPlugin(t, nodes...), tc.pod, nodes); got != tc.want {
			t.Errorf("%s/%s fits on %q, want %q", tc.pod.Namespace, tc.pod.Name, got, tc.want)
		}
	}
}

// TestPodsThatPreemptionThinksAwayDoNotCount takes a pod of the app off rack a, on a copy of the state.
func TestPodsThatPreemptionThinksAwayDoNotCount(t *testing.T) {
	nodes := world()
	p, wanting := newPlugin(t, nodes...), pod("ns", "web-3", "web")
	_, state := filtered(t, p, wanting, nodes)
	tried := state.Clone()
	victim := nodes[0].GetPods()[0]
	fits := func(state fwk.CycleState) bool { return p.Filter(t.Context(), state, wanting, nodes[1]).IsSuccess() }
	p.RemovePod(context.Background(), tried, wanting, victim, nodes[0])
	if !fits(tried) || fits(state) {
		t.Errorf("without a pod of the app in the rack: fits %t, want true; with it, where it stays: %t, want false",
			fits(tried), fits(state))
	}
	p.AddPod(context.Background(), tried, wanting, victim, nodes[0])
	if fits(tried) {
		t.Error("the pod that is added again does not count")
	}
}

func TestTheRackWithTheFewestPodsOfTheAppScoresMost(t *testing.T) {
	nodes := world()
	p, db := newPlugin(t, nodes...), pod("ns", "db-1", "db")
	_, state := filtered(t, p, db, nodes)
	var scores fwk.NodeScoreList
	for _, n := range nodes[:3] {
		score, _ := p.Score(t.Context(), state, db, n)
		scores = append(scores, fwk.NodeScore{Name: n.Node().Name, Score: score})
	}
	p.NormalizeScore(t.Context(), state, db, scores)
	if scores[0].Score != 100 || scores[1].Score != 100 || scores[2].Score != 0 {
		t.Errorf("the scores are %v, want 100 in rack a and 0 in rack b", scores)
	}
	_, plain := filtered(t, p, pod("ns", "plain", ""), nodes)
	if status := p.PreScore(t.Context(), plain, nil, nil); !status.IsSkip() {
		t.Errorf("a pod of no app is scored: %v", status)
	}
}

func TestOnlyWhatCanMakeRoomHasAPodTriedAgain(t *testing.T) {
	p, waits := newPlugin(t), pod("ns", "web-3", "web")
	at := func(rack string) *v1.Node { return node("n", rack).Node() }
	web, db := pod("ns", "web-0", "web"), pod("ns", "web-0", "db")
	for name, tc := range map[string]struct {
		hint          fwk.QueueingHintFn
		before, after any
		want          fwk.QueueingHint
	}{
		"a pod of the app is gone":          {p.afterPod, web, nil, fwk.Queue},
		"a pod of another app is gone":      {p.afterPod, db, nil, fwk.QueueSkip},
		"one of another namespace is gone":  {p.afterPod, pod("other", "web-0", "web"), nil, fwk.QueueSkip},
		"a pod has left the app":            {p.afterPod, web, db, fwk.Queue},
		"a pod has other labels":            {p.afterPod, web, web.DeepCopy(), fwk.QueueSkip},
		"a node of a rack has come":         {p.afterNode, nil, at("c"), fwk.Queue},
		"a node without a rack has come":    {p.afterNode, nil, at(""), fwk.QueueSkip},
		"a node has been put into a rack":   {p.afterNode, at(""), at("c"), fwk.Queue},
		"a node of a rack has other labels": {p.afterNode, at("c"), at("c"), fwk.QueueSkip},
	} {
		if got, err := tc.hint(klog.Background(), waits, tc.before, tc.after); got != tc.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tc.want)
		}
	}
}
