package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestNoNodeIsOverbookedAndNoGangIsBoundInPart adds up requests by node from nothing but the output of log cat. It
// finds no node over its allocatable at any entry, no gang bound below its minimum, and no bind without a decision
// before it.
func TestNoNodeIsOverbookedAndNoGangIsBoundInPart(t *testing.T) {
	for _, w := range []struct{ name, nodes, workload string }{
		{"gangs in turn", "4x4cpu", "testdata/gangs.swf"},
		{"lublin_256, first 400 jobs", "16x16cpu", head(t, sharedData(t, "swf/lublin_256.swf"), 407)},
		{"openb, first 300 pods", sharedData(t, "openb/openb_node_list_all_node.csv"), head(t, sharedData(t,
			"openb/openb_pod_list_default.csv"), 301)},
	} {
		t.Run(w.name, func(t *testing.T) {
			if w.nodes == "" || w.workload == "" {
				t.Skip("skipped: the workload data is not beside the project (../shared/data)")
			}
			log := filepath.Join(t.TempDir(), "a.db")
			rollcall(t, "simulate", "--nodes", w.nodes, "--workload", w.workload, "--log", log)
			a := audited(t, log)
			if a.bound == 0 || a.gangsBound == 0 && strings.HasSuffix(w.workload, ".swf") {
				t.Fatalf("the log binds %d pods, %d of gangs: nothing was tested", a.bound, a.gangsBound)
			}
			t.Logf("%d pods bound, %d of them of gangs, %d releases", a.bound, a.gangsBound, a.released)
		})
	}
}

// audited runs a new accountant over the log.
func audited(t *testing.T, log string) *accountant {
	t.Helper()
	a := newAccountant()
	catEach(t, log, func(line []byte) {
		fields := catLines(t, line)[0]
		if err := a.entry(fields); err != nil {
			t.Fatalf("entry %v: %v", fields["seq"], err)
		}
	})
	if err := a.wholeGangs(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestOverbookingAndGangsBoundInPartAreFound plants faults that the accountant must find.
func TestOverbookingAndGangsBoundInPartAreFound(t *testing.T) {
	node := `{"kind":"Upserted","resource":"nodes","object":{"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"2","pods":"10"}}}}`
	pod := func(name, group string) string {
		return fmt.Sprintf(
			`{"kind":"Upserted","resource":"pods","object":{"metadata":{"name":%q,"namespace":"d","uid":%q},"spec":{"schedulingGroup":{"podGroupName":%q},"containers":[{"resources":{"requests":{"cpu":"1500m"}}}]}}}`,
			name,
			name,
			group,
		)
	}
	scheduled := func(name string) string {
		return fmt.Sprintf(
			`{"kind":"Decision","decision":{"pod":"d/%s","uid":%q,"outcome":"Scheduled","node":"n"}}`,
			name,
			name,
		)
	}
	small := func(name, group string) string { return strings.Replace(pod(name, group), "1500m", "500m", 1) }
	letGo := func(name, other string) string {
		return fmt.Sprintf(
			`{"kind":"Decision","decision":{"pod":"d/%s","uid":%q,"outcome":"Waiting","node":"n"}}`,
			other,
			other,
		) + "\n" +
			fmt.Sprintf(
				`{"kind":"Decision","decision":{"pod":"d/%s","uid":%q,"outcome":"Scheduled","node":"n","allowed":[%q]}}`,
				name,
				name,
				other,
			)
	}
	bound := func(name string) string {
		return fmt.Sprintf(`{"kind":"BindResult","uid":%q,"node":"n","outcome":"Bound"}`, name)
	}
	group := `{"kind":"Upserted","resource":"podgroups.scheduling.k8s.io","object":{"metadata":{"name":"g","namespace":"d"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}}`
	for _, c := range []struct {
		name, want string
		lines      []string
	}{
		{"two pods on a node for one", "over its allocatable", []string{node, pod("a", ""), pod("b", ""),
			scheduled("a"), scheduled("b")}},
		{"half a gang", "below its minimum", []string{node, group, pod("a", "g"), scheduled("a")}},
		{"half a gang bound", "1 of its minimum of 2 pods bound", []string{node, group, small("a", "g"), small("b",
			"g"), letGo("b", "a"), bound("a")}},
		{"a bind that nobody decided", "no decision", []string{node, pod("a", ""), `{"kind":"BindResult","uid":"a","node":"n","outcome":"Bound"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAccountant()
			var err error
			for _, line := range catLines(t, []byte(strings.Join(c.lines, "\n"))) {
				if err == nil {
					err = a.entry(line)
				}
			}
			if err == nil {
				err = a.wholeGangs()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("the accountant says %v, want an error with %q", err, c.want)
			}
		})
	}
}

// accountant knows only the output of log cat.
type accountant struct {
	allocatable map[string]map[string]int64 // node -> resource -> thousandths
	used        map[string]map[string]int64
	pods        map[string]*accountedPod // by UID
	minimum     map[string]int           // by group
	going       map[string]int           // by group: members that are placed permanently
	boundOf     map[string]int           // by group: members that were ever bound
	bound       int
	gangsBound  int
	released    int
}

type accountedPod struct {
	name, group, node string
	requests          map[string]int64
	going             bool // decided permanently, not only held
}

func newAccountant() *accountant {
	return &accountant{allocatable: map[string]map[string]int64{}, used: map[string]map[string]int64{},
		pods: map[string]*accountedPod{}, minimum: map[string]int{}, going: map[string]int{}, boundOf: map[string]int{}}
}

// at walks into nested JSON objects. It returns nil if a step does not exist.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

func (a *accountant) entry(line map[string]any) error {
	switch line["kind"] {
	case "Upserted":
		a.upserted(text(line, "resource"), line["object"])
	case "Deleted":
		if text(line, "resource") == "pods" {
			a.release(text(line, "uid"))
			delete(a.pods, text(line, "uid"))
		}
	case "Decision":
		return a.decision(line["decision"])
	case "BindResult":
		return a.bindResult(line)
	}
	return nil
}

func (a *accountant) upserted(res string, obj any) {
	key := text(obj, "metadata", "namespace") + "/" + text(obj, "metadata", "name")
	switch res {
	case "nodes":
		a.allocatable[text(obj, "metadata", "name")] = amounts(at(obj, "status", "allocatable"))
	case "podgroups.scheduling.k8s.io":
		n, _ := at(obj, "spec", "schedulingPolicy", "gang", "minCount").(float64)
		a.minimum[key] = int(n)
	case "podgroups.scheduling.x-k8s.io":
		n, _ := at(obj, "spec", "minMember").(float64)
		a.minimum[key] = int(n)
	case "pods":
		uid := text(obj, "metadata", "uid")
		if a.pods[uid] != nil {
			return
		}
		p := &accountedPod{name: key, requests: map[string]int64{"pods": 1000}}
		group := text(obj, "spec", "schedulingGroup", "podGroupName")
		if group == "" {
			group = text(obj, "metadata", "labels", "scheduling.x-k8s.io/pod-group")
		}
		if group != "" {
			p.group = text(obj, "metadata", "namespace") + "/" + group
		}
		containers, _ := at(obj, "spec", "containers").([]any)
		for _, c := range containers {
			for name, n := range amounts(at(c, "resources", "requests")) {
				p.requests[name] += n
			}
		}
		a.pods[uid] = p
	}
}

// amounts reads a resource list as thousandths.
func amounts(v any) map[string]int64 {
	out := map[string]int64{}
	list, _ := v.(map[string]any)
	for name, q := range list {
		parsed := resource.MustParse(q.(string))
		out[name] = parsed.MilliValue()
	}
	return out
}

func (a *accountant) decision(d any) error {
	for _, uid := range list(d, "rejected") {
		a.release(uid)
		a.released++
	}
	uid, node := text(d, "uid"), text(d, "node")
	p := a.pods[uid]
	if p == nil {
		return fmt.Errorf("decision on a pod that is not there: %v", d)
	}
	going := slices.Clone(list(d, "allowed"))
	switch text(d, "outcome") {
	case "Scheduled":
		going = append(going, uid)
		fallthrough
	case "Waiting":
		if err := a.take(p, node); err != nil {
			return err
		}
	}
	for _, uid := range going {
		if p := a.pods[uid]; !p.going {
			p.going = true
			a.going[p.group]++
		}
	}
	for _, uid := range going {
		p := a.pods[uid]
		if n := a.going[p.group]; p.group != "" && n < a.minimum[p.group] {
			return fmt.Errorf("gang %s is let go with %d members, below its minimum %d", p.group, n, a.minimum[p.group])
		}
	}
	return nil
}

func list(v any, path ...string) []string {
	items, _ := at(v, path...).([]any)
	var out []string
	for _, item := range items {
		out = append(out, item.(string))
	}
	return out
}

// wholeGangs names each gang that was bound in part in the end.
func (a *accountant) wholeGangs() error {
	for group, n := range a.boundOf {
		if n < a.minimum[group] {
			return fmt.Errorf("gang %s ends with %d of its minimum of %d pods bound", group, n, a.minimum[group])
		}
	}
	return nil
}

func (a *accountant) take(p *accountedPod, node string) error {
	if a.used[node] == nil {
		a.used[node] = map[string]int64{}
	}
	p.node = node
	for name, n := range p.requests {
		a.used[node][name] += n
		if a.used[node][name] > a.allocatable[node][name] {
			return fmt.Errorf(
				"node %s is over its allocatable of %s: %d of %d thousandths",
				node,
				name,
				a.used[node][name],
				a.allocatable[node][name],
			)
		}
	}
	return nil
}

func (a *accountant) release(uid string) {
	p := a.pods[uid]
	if p == nil || p.node == "" {
		return
	}
	for name, n := range p.requests {
		a.used[p.node][name] -= n
	}
	if p.going {
		a.going[p.group]--
	}
	p.node, p.going = "", false
}

func (a *accountant) bindResult(line map[string]any) error {
	p := a.pods[text(line, "uid")]
	if p == nil || !p.going || p.node != text(line, "node") {
		return fmt.Errorf("bind of %v to %s with no decision before it", p, text(line, "node"))
	}
	if text(line, "outcome") != "Bound" {
		a.release(text(line, "uid"))
		return nil
	}
	a.bound++
	if p.group != "" {
		a.gangsBound++
		a.boundOf[p.group]++
	}
	return nil
}

// sharedData returns the path of a file of real workloads, "" if the data is not beside the project.
func sharedData(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "shared", "data", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// head writes the first n lines of a file to a temporary one of the same ending, and returns its path; "" for "".
func head(t testing.TB, path string, n int) string {
	t.Helper()
	if path == "" {
		return ""
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfterN(data, []byte("\n"), n+1)
	out := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(out, bytes.Join(lines[:min(n, len(lines))], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}
