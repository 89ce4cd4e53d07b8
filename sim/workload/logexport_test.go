package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// logLines numbers entries of a log: each line is an offset in seconds and what follows the time.
func logLines(t *testing.T, text string) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		at, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("line %q", line)
		}
		offset, err := time.ParseDuration(at)
		if err != nil {
			t.Fatal(err)
		}
		when := eventlog.TimeOf(time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC).Add(offset))
		fmt.Fprintf(&out, `{"seq":%d,"epoch":1,"time":%q,%s}`+"\n", i+1, when.String(), rest)
	}
	return out.String()
}

func TestWhatPlacementsCausedIsNotReadFromALog(t *testing.T) {
	in, err := readText(logLines(t, `
0s "kind":"Upserted","resource":"nodes","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"n1"}}
0s "kind":"Upserted","resource":"persistentvolumeclaims","object":{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"x","uid":"c"}}
1s "kind":"Upserted","resource":"podgroups.scheduling.k8s.io","object":{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"name":"g","namespace":"x","uid":"g"},"spec":{"schedulingPolicy":{"gang":{"minCount":1}}}}
1s "kind":"Upserted","resource":"podgroups.scheduling.k8s.io","object":{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{"name":"unused","namespace":"x","uid":"h"},"spec":{"schedulingPolicy":{"gang":{"minCount":1}}}}
2s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"member","namespace":"x","uid":"p1"},"spec":{"schedulingGroup":{"podGroupName":"g"}}}
3s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"gated","namespace":"x","uid":"p2"},"spec":{"schedulingGates":[{"name":"wait"}]}}
4s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"there","namespace":"x","uid":"p3"},"spec":{"nodeName":"n1"}}
5s "kind":"Upserted","resource":"persistentvolumes","object":{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pvc-c","uid":"v"},"spec":{"claimRef":{"namespace":"x","name":"c"}}}
5s "kind":"Upserted","resource":"persistentvolumeclaims","object":{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"x","uid":"c"},"spec":{"volumeName":"pvc-c"}}
5s "kind":"BindResult","uid":"p1","node":"n1","outcome":"Bound"
6s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"gated","namespace":"x","uid":"p2"}}
7s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"member","namespace":"x","uid":"p1"},"spec":{"nodeName":"n1","schedulingGroup":{"podGroupName":"g"}}}
9s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"member","namespace":"x","uid":"p1"},"spec":{"nodeName":"n1","schedulingGroup":{"podGroupName":"g"}},"status":{"phase":"Succeeded"}}
10s "kind":"Deleted","resource":"pods","namespace":"x","name":"member","uid":"p1"
10s "kind":"Deleted","resource":"podgroups.scheduling.k8s.io","namespace":"x","name":"g","uid":"g"
11s "kind":"Deleted","resource":"podgroups.scheduling.k8s.io","namespace":"x","name":"unused","uid":"h"
12s "kind":"Deleted","resource":"nodes","name":"n1","uid":"n1"
12s "kind":"Deleted","resource":"pods","namespace":"x","name":"there","uid":"p3"
13s "kind":"Deleted","resource":"pods","namespace":"x","name":"gated","uid":"p2"
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range in.nodes {
		got = append(got, fmt.Sprintf("node %s from %s to %s", n.Node.Name, n.Joins, n.Fails))
	}
	for _, o := range in.workload.Objects {
		got = append(got, fmt.Sprintf("%s %s %s delete=%t", o.At, o.Resource, o.Object.GetName(), o.Delete))
	}
	for _, p := range in.workload.Pods {
		got = append(got,
			fmt.Sprintf("pod %s arrives %s runs %s deadline %s updates %d", p.Name, p.Arrival, p.Duration, p.Deadline,
				len(p.Updates)))
	}
	got = append(got, in.workload.Notes...)
	want := strings.TrimSpace(`
node n1 from 0s to 12s
0s persistentvolumeclaims c delete=false
1s podgroups.scheduling.k8s.io g delete=false
1s podgroups.scheduling.k8s.io unused delete=false
11s podgroups.scheduling.k8s.io unused delete=true
pod member arrives 2s runs 4s deadline 0s updates 0
pod gated arrives 3s runs 0s deadline 13s updates 1
pod there arrives 4s runs 8s deadline 0s updates 0
1 pod was lost with its node: it is taken to have run its time by then
2 changes of claims and volumes that placements had caused are left out`)
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestFaultsInALogNameTheLine(t *testing.T) {
	const tick = `{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Tick"}` + "\n"
	const upserted = `{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Upserted",` +
		`"resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x",` +
		`"uid":"p1"}}}` + "\n"
	for name, c := range map[string]struct{ text, start, reason string }{
		"no entry": {tick + "{\"seq\":2\n", "F:2: ", ""},
		"unknown kind": {tick + strings.Replace(strings.Replace(tick, "Tick", "Tock", 1), `"seq":1`, `"seq":2`, 1),
			"F:2: ", "kind: missing or unknown"},
		"time back": {tick + strings.Replace(strings.Replace(tick, "2026", "2025", 1), `"seq":1`, `"seq":2`, 1),
			"F:2: ", "put the entries in the order of their times"},
		"a pod without UID": {strings.Replace(upserted, `,"uid":"p1"`, "", 1), "F:1: ", "a pod without UID"},
		"two pods of a name": {
			upserted + strings.NewReplacer(`"seq":1`, `"seq":2`, "p1", "p2").Replace(upserted),
			"F:2: ", "while the pod of that name with UID p1 is there",
		},
		"no end":    {tick + "{\n \"seq\": 2,\n", "F:2: ", "does not end"},
		"no object": {tick + "\n  null\n", "F:3: ", "where an entry, a JSON object, should begin"},
		"too far apart": {tick + strings.Replace(strings.Replace(tick, "2026", "2250", 1), `"seq":1`, `"seq":2`, 1),
			"F:2: ", "lies outside"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
		})
	}
}

// TestAnEditedLogIsRead reads the same entries in other shapes: printed for people, in a list, with sorted keys, and
// with an entry left out and one added.
func TestAnEditedLogIsRead(t *testing.T) {
	text := logLines(t, `
0s "kind":"Upserted","resource":"nodes","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"n1"}}
1s "kind":"EpochStarted","id":"b58d4473-f855-4353-89c5-99b3d9df368d","format":10,"behaviour":10,"seed":0,"config":{"a":{"b":1}}
2s "kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"x","uid":"p1"}}
`)
	var values []any
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		values = append(values, v)
	}
	pretty := func(v any) string {
		out, err := json.MarshalIndent(v, "", "    ")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	lines := strings.SplitAfter(text, "\n")
	for name, edited := range map[string]string{
		"as printed":    text,
		"pretty":        pretty(values[0]) + "\n" + pretty(values[1]) + pretty(values[2]),
		"list":          pretty(values),
		"one left out":  lines[0] + lines[2],
		"one added":     lines[0] + lines[1] + lines[1] + lines[2],
		"without lines": strings.ReplaceAll(text, "\n", " "),
	} {
		t.Run(name, func(t *testing.T) {
			in, err := readText(edited)
			if err != nil {
				t.Fatal(err)
			}
			if len(in.nodes) != 1 || len(in.workload.Pods) != 1 || in.workload.Pods[0].Arrival != 2*time.Second {
				t.Errorf("nodes %v, pods %+v", in.nodes, in.workload.Pods)
			}
		})
	}
}

// TestAJobOfARecordingIsOnePlan records two pods of a Job. The first pod of index 0 is evicted, and the pod that comes
// instead fails. The pod of index 1 is resized, and lost with its node; no pod comes instead.
func TestAJobOfARecordingIsOnePlan(t *testing.T) {
	pod := func(name, index, rest string) string {
		return `"kind":"Upserted","resource":"pods","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name +
			`","namespace":"x","uid":"` + name + `","labels":{"batch.kubernetes.io/job-completion-index":"` + index +
			`"},"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"j","controller":true}]},` + rest +
			`}`
	}
	requests := func(cpu string) string {
		return `"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"` + cpu + `"}}}]}`
	}
	in, err := readText(logLines(t, `
0s "kind":"Upserted","resource":"nodes","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"n1"}}
0s "kind":"Upserted","resource":"nodes","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2","uid":"n2"}}
1s `+pod("a", "0", requests("1"))+`
1s `+pod("b", "1", requests("1"))+`
2s "kind":"BindResult","uid":"a","node":"n1","outcome":"Bound"
2s "kind":"BindResult","uid":"b","node":"n2","outcome":"Bound"
20s `+pod("a", "0", requests("1")+`,"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}`)+`
21s `+pod("c", "0", requests("1"))+`
22s "kind":"Deleted","resource":"pods","namespace":"x","name":"a","uid":"a"
30s "kind":"BindResult","uid":"c","node":"n2","outcome":"Bound"
40s `+pod("b", "1", requests("2"))+`
50s `+pod("c", "0", requests("1")+`,"status":{"phase":"Failed"}`)+`
60s "kind":"Deleted","resource":"nodes","name":"n2","uid":"n2"
60s "kind":"Deleted","resource":"pods","namespace":"x","name":"b","uid":"b"
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range in.workload.Pods {
		got = append(got, fmt.Sprintf("%s runs %s, fails %t, replaced %t", p.Name, p.Duration, p.Fails, p.Replaced))
		for _, u := range p.Updates {
			got = append(got, fmt.Sprintf("  %s requests %s", u.At, u.Pod.Spec.Containers[0].Resources.Requests.Cpu()))
		}
	}
	got = append(got, in.workload.Notes...)
	want := strings.TrimSpace(`
a runs 20s, fails true, replaced false
b runs 58s, fails false, replaced true
  40s requests 2
1 pod came instead of one that was evicted or lost: both are one job
1 pod was lost with its node: it is taken to have run its time by then`)
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
