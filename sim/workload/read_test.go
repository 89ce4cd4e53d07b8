package workload

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// parse reads a manifest that must be right.
func parse(t testing.TB, text string) ([]NodePlan, *Workload) {
	t.Helper()
	nodes, w, err := Parse("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return nodes, w
}

const openbNodesHead = "sn,cpu_milli,memory_mib,gpu,model\n"

const openbPodsHead = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time," +
	"deletion_time,scheduled_time\n"

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"

// A fault is an error in a file: its message must begin with start and contain reason.
func TestFaultsNameFileLineAndReason(t *testing.T) {
	for _, c := range []struct {
		name, text, start, reason string
	}{
		{"empty", "\n\n", "F: ", "nothing but blank lines"},
		{"binary", "a\x00b", "F: ", "binary data"},
		{"unknown format", "hello world\n", "F: ", `it begins "hello world"`},

		{"yaml syntax", pod + "---\napiVersion: v1\nkind: [\n", "F:6: ", "did not find"},
		{"yaml unknown field", "# a\n---\n" + pod + "spec:\n  containers:\n  - {name: c}\n  nodeNam: x\n", "F:9: ",
			`unknown field "spec.nodeNam"`},
		{"yaml unknown field in a list", pod + "spec:\n  containers:\n  - name: c\n    resourcess: {}\n", "F:7: ",
			`unknown field "spec.containers[0].resourcess"`},
		{"yaml unknown kind", pod + "---\n\napiVersion: apps/v1\nkind: DaemonSet\n", "F:7: ",
			"kind DaemonSet of apps/v1 plays no part"},
		{"yaml no kind", "apiVersion: v1\n", "F:1: ", "apiVersion or kind is missing"},
		{"yaml no object", "a: 1\n---\n- b\n", "F:1: ", "apiVersion or kind is missing"},
		{"yaml list of no object", "# x\n---\n- b\n", "F:3: ", "not an API object"},
		{"yaml duplicate key", "apiVersion: v1\nkind: Pod\nkind: Pod\n", "F:3: ", `key "kind" already set`},
		{"yaml wrong type", pod + "spec:\n  containers: 3\n", "F:5: ", "number where"},
		{"yaml bad quantity",
			pod + "spec:\n  containers:\n  - name: c\n    resources:\n      requests:\n        memory: 1Gi\n        " +
				"cpu: four\n", "F:10: ", `quantity "four"`},
		{"yaml no name", "apiVersion: v1\nkind: Node\nmetadata: {labels: {a: b}}\n", "F:3: ",
			"metadata.name is missing"},
		{"yaml bad name", "apiVersion: v1\nkind: Node\nmetadata:\n  name: Node_1\n", "F:4: ", "RFC 1123"},
		{"yaml namespace", "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n  namespace: x\n", "F:5: ", "namespace"},
		{"yaml twice", pod + "spec: {containers: [{name: c}]}\n---\n" + pod + "spec: {containers: [{name: c}]}\n",
			"F:8: ", "pods default/a stands twice, first on line 1"},
		{"yaml no container", pod + "spec: {}\n", "F:4: ", "spec.containers: Required value"},
		{"yaml bad value",
			pod + "spec:\n  containers: [{name: c}]\n  tolerations:\n  - key: a\n    operator: Sometimes\n", "F:8: ",
			"spec.tolerations[0].operator"},
		{"yaml request above limit",
			pod + "spec:\n  containers:\n  - name: c\n    resources:\n      limits: {cpu: 1}\n      requests: {cpu: " +
				"2}\n", "F:9: ", "must be less than or equal to cpu limit"},
		{"yaml priority class", pod + "spec:\n  priorityClassName: high\n  containers: [{name: c}]\n", "F:5: ",
			"no PriorityClass with name high was found (admission plugin Priority): put the PriorityClass into"},
		{"yaml group without policy",
			"apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec: {schedulingPolicy: " +
				"{}}\n", "F:4: ", "exactly one of basic and gang"},
		{"yaml group minimum",
			"apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: g}\nspec:\n  " +
				"schedulingPolicy:\n    gang:\n      minCount: 0\n", "F:7: ", "must be at least 1"},
		{"yaml annotation value",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    rollcall.dev/arrival: soon\nspec: " +
				"{containers: [{name: c}]}\n", "F:6: ", `"soon" is not a duration`},
		{"yaml annotation name",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    rollcall.dev/arival: 1s\nspec: " +
				"{containers: [{name: c}]}\n", "F:6: ", "rollcall.dev/arival has no meaning here"},
		{"yaml arrival before the start",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations: {rollcall.dev/arrival: " +
				"'2025-01-01T00:00:00Z'}\nspec: {containers: [{name: c}]}\n", "F:5: ", "lies outside"},
		{"yaml duration 0",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations: {rollcall.dev/duration: 0s}\nspec: " +
				"{containers: [{name: c}]}\n", "F:5: ", "is not above 0"},
		{"yaml node fails first",
			"apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  annotations:\n    rollcall.dev/joins: 2h\n    " +
				"rollcall.dev/fails: 1h\n", "F:7: ", "not after the node joins at 2h"},
		{"yaml job template",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    spec:\n      " +
				"containers:\n      - name: C\n", "F:8: ", "spec.template.spec.containers[0].name"},
		{"yaml job parallelism",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 0\n  template: {spec: " +
				"{containers: [{name: c}]}}\n", "F:5: ", "spec.parallelism: 0 lies outside"},
		{"yaml job's pod twice",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template: {spec: {containers: [{name: " +
				"c}]}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: j-0}\nspec: {containers: [{name: c}]}\n",
			"F:3: ", "pods default/j-0 stands twice, first on line 7"},
		{"yaml item of a list",
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec: " +
				"{containers: [{name: c}]}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n  spec:\n    " +
				"containers: [{name: c}]\n    restartPolicy: Maybe\n", "F:13: ", "spec.restartPolicy"},
		{"json syntax", "{\n  \"apiVersion\": \"v1\",\n  \"kind\" \"Pod\"\n}\n", "F:3: ", "invalid character"},
		{"json cut off", "{\n  \"apiVersion\": \"v1\",\n", "F:3: ", "EOF"},
		{"json unknown field",
			"{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}}\n\n{\n\t\"apiVersion\": " +
				"\"v1\",\n\t\"kind\": \"Node\",\n\t\"metadata\": {\n\t\t\"name\": \"b\"\n\t},\n\t\"stats\": {}\n}\n",
			"F:9: ", `unknown field "stats"`},

		{"openb unknown column", "sn,cpu_milli,memory_mib,gpu,model,rack\n", "F:1: ", `column "rack" is unknown`},
		{"openb missing column", "sn,cpu_milli,memory_mib,gpu\n", "F:1: ", `column "model" is missing`},
		{"openb short line", openbNodesHead + "n0,1,1,0,\nn1,1,1\n", "F:3: ", "wrong number of fields"},
		{"openb no number", openbNodesHead + "n0,1,1,0,\nn1,many,1,0,\n", "F:3: ",
			`cpu_milli: "many" is not a whole number`},
		{"openb negative", openbNodesHead + "n1,-1,1,0,\n", "F:2: ", "cpu_milli: -1 lies outside"},
		{"openb name", openbNodesHead + "N!,1,1,0,\n", "F:2: ", `node name "N!"`},
		{"openb twice", openbNodesHead + "n0,1,1,0,\nn0,1,1,0,\n", "F:3: ", "node n0 stands twice"},
		{"openb model", openbNodesHead + "n0,1,1,1,a b\n", "F:2: ", `model "a b"`},
		{"openb share above 1", openbPodsHead + "p,1,1,1,1001,,LS,Running,0,1,0\n", "F:2: ",
			"gpu_milli: 1001 lies outside"},
		{"openb contradiction", openbPodsHead + "p,1,1,0,500,,LS,Running,0,1,0\n", "F:2: ", "contradict"},
		{"openb deleted first", openbPodsHead + "p,1,1,0,0,,LS,Running,5,4,0\n", "F:2: ",
			"deletion_time 4 lies before creation_time 5"},
		{"openb quote", openbPodsHead + "\"p,1\n", "F:", "quote"},

		{"swf fields", "; x\n1 2 3\n", "F:2: ", "3 fields instead of 18"},
		{"swf no number", "; x\n\n1 0 -1 5 x -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:3: ",
			`field 5: "x" is not a whole number`},
		{"swf no number in a field not read", "; x\n1 0 -1 5 1 x -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:2: ",
			`field 6: "x" is not a number`},
		{"swf submit", "1 -1 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:1: ", "field 2: submit time unknown"},
		{"swf run", "1 0 -1 -1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:1: ", "fields 4 and 9: run time unknown"},
		{"swf processors", "1 0 -1 5 -1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:1: ",
			"fields 5 and 8: number of processors unknown"},
		{"swf twice", strings.Repeat("1 0 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", 2), "F:2: ",
			"job 1 stands twice"},
		{"swf too many", "1 0 -1 5 99999999 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n", "F:1: ",
			"a workload can have 10000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readText(c.text)
			if err == nil || !strings.HasPrefix(err.Error(), c.start) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got  %v\nwant %s… %s", err, c.start, c.reason)
			}
			if _, ok := errors.AsType[*InputError](err); !ok {
				t.Errorf("error of type %T", err)
			}
		})
	}
}

func TestManifestsGetTheAPIsDefaults(t *testing.T) {
	_, w := parse(t, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 7
globalDefault: true
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, resources: {limits: {cpu: 2, nvidia.com/gpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, namespace: kube-system}
spec: {priorityClassName: system-node-critical, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c}
spec: {priorityClassName: later, containers: [{name: c}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: later}
value: 42
preemptionPolicy: Never
`)
	a, b, c := w.Pods[0].Build(w.Pods[0].Template, "u", 0), w.Pods[1].Template, w.Pods[2].Template
	if a.Namespace != "default" || a.Spec.SchedulerName != "default-scheduler" || a.Spec.RestartPolicy != "Always" ||
		*a.Spec.TerminationGracePeriodSeconds != 30 || *a.Spec.Priority != 7 || a.Spec.PriorityClassName != "usual" {
		t.Errorf("defaults: %+v", a)
	}
	if got := a.Spec.Containers[0].Resources.Requests; got.Cpu().Value() != 2 ||
		got.Name(GPUResource, "").Value() != 1 {
		t.Errorf("requests %v", got)
	}
	if *b.Spec.Priority != 2000001000 || *c.Spec.Priority != 42 || *c.Spec.PreemptionPolicy != corev1.PreemptNever {
		t.Errorf("priorities %d, %d %s", *b.Spec.Priority, *c.Spec.Priority, *c.Spec.PreemptionPolicy)
	}
}

func TestManifestsOfAllFormsAreRead(t *testing.T) {
	in, err := readText(
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}}
{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "x"}, "spec": {"containers": [{"name": "c"}]}},
  {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Succeeded"}}
]}`)
	if err != nil {
		t.Fatal(err)
	}
	node := in.nodes[0].Node
	if node.Status.Allocatable.Cpu().Value() != 4 || node.Status.Allocatable.Pods().Value() != 110 ||
		node.Labels[corev1.LabelHostname] != "n1" {
		t.Errorf("node %+v", node)
	}
	if len(in.workload.Pods) != 1 || in.workload.Pods[0].Namespace != "x" || len(in.workload.Notes) != 1 {
		t.Errorf("workload %+v", in.workload)
	}

	in, err = readText(`%YAML 1.1
--- {apiVersion: v1, kind: Service, metadata: {name: s}}
---
---   # nothing
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  annotations: {rollcall.dev/arrival: 90s, rollcall.dev/duration: 1h}
spec:
  completions: 3
  parallelism: 8
  template:
    metadata: {labels: {team: red}, annotations: {note: kept, rollcall.dev/duration: 2h}}
    spec: {containers: [{name: c}]}
`)
	if err == nil {
		// A directive is a document of its own here, as it is for kubectl.
		t.Error("a %YAML directive was read")
	}
	_ = in
}

func TestAJobBecomesItsPods(t *testing.T) {
	_, w := parse(t, `
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  annotations: {rollcall.dev/arrival: 90s, rollcall.dev/duration: 1h}
spec:
  completions: 3
  parallelism: 8
  template:
    metadata: {labels: {team: red}, annotations: {note: kept, rollcall.dev/duration: 2h}}
    spec: {containers: [{name: c}]}
`)
	if len(w.Pods) != 3 {
		t.Fatalf("%d pods", len(w.Pods))
	}
	for i, p := range w.Pods {
		built := p.Build(p.Template, "u", 0)
		if want := []string{"j-0", "j-1", "j-2"}[i]; built.Name != want || built.Labels["team"] != "red" ||
			built.Labels["batch.kubernetes.io/job-name"] != "j" || built.Annotations["note"] != "kept" {
			t.Errorf("pod %d: %+v", i, built.ObjectMeta)
		}
		if p.Arrival != 90*time.Second || p.Duration != 2*time.Hour || p.Batch != nil {
			t.Errorf("pod %d: %+v", i, p)
		}
	}
}

func TestNodeSpecs(t *testing.T) {
	nodes, err := ReadNodes("2x96cpu,768Gi,8gpu+1x500mcpu,4pods,example.com/fpga=2,8000gpu-milli")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, n := range nodes {
		for name, q := range n.Node.Status.Allocatable {
			got[n.Node.Name+" "+string(name)] = q.String()
		}
	}
	want := map[string]string{
		"node-02 cpu": "500m", "node-02 pods": "4", "node-02 example.com/fpga": "2",
		"node-02 rollcall.dev/gpu-milli": "8k",
	}
	for _, n := range []string{"node-00", "node-01"} {
		want[n+" cpu"], want[n+" memory"], want[n+" nvidia.com/gpu"], want[n+" pods"] = "96", "768Gi", "8", "110"
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
		delete(got, k)
	}
	if len(got) > 0 {
		t.Errorf("too many: %v", got)
	}
	if many, err := ParseNodeSpec("12000x1cpu"); err != nil || many[0].Node.Name != "node-00000" ||
		many[11999].Node.Name != "node-11999" {
		t.Errorf("%v", err)
	}
	for spec, reason := range map[string]string{
		"16x":              "is none of",
		"16x16":            "is none of",
		"0x1cpu":           "count: 0 lies outside",
		"16cpu":            "is not COUNTxSHAPE",
		"1x1cpu,2cpu":      "cpu is given twice",
		"1x1.5gpu":         "whole numbers only",
		"1x4cpus":          "is none of",
		"1x1cpu+":          "is not COUNTxSHAPE",
		"1x_=3":            "resource name",
		"1x1cpu,-=3":       "resource name",
		"200000x1cpu+1x1m": "is none of",
		"200000x1cpu+1x1M": "more than 200000 nodes",
	} {
		if _, err := ParseNodeSpec(spec); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got error %v, want %q", spec, err, reason)
		}
	}
}

func TestOpenbSharesAndModels(t *testing.T) {
	nodes, err := readText(openbNodesHead + "n0,32000,1024,0,\nn1,96000,786432,8,V100M32\n")
	if err != nil {
		t.Fatal(err)
	}
	gpuNode := nodes.nodes[1].Node
	if q := gpuNode.Status.Allocatable[GPUMilliResource]; q.Value() != 8000 ||
		gpuNode.Labels[GPUModelLabel] != "V100M32" || gpuNode.Labels[GPUCountLabel] != "8" {
		t.Errorf("%+v", gpuNode)
	}
	if got := nodes.nodes[0].Node.Status.Allocatable; got.Cpu().MilliValue() != 32000 ||
		got.Memory().Value() != 1<<30 || got.Pods().Value() != 110 || len(got) != 3 {
		t.Errorf("%v", got)
	}
	pods, err := readText(openbPodsHead +
		"a,12000,16384,1,460,V100M16|V100M32,LS,Running,10,70,10\nb,500,1,4,1000,,,Pending,5,5,\n")
	if err != nil {
		t.Fatal(err)
	}
	a, b := pods.workload.Pods[0], pods.workload.Pods[1]
	if q := a.Template.Spec.Containers[0].Resources.Requests[GPUMilliResource]; q.Value() != 460 ||
		a.Arrival != 10*time.Second || a.Duration != time.Minute || a.Template.Labels[QOSLabel] != "LS" {
		t.Errorf("%+v", a)
	}
	required := a.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	term := required.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != GPUModelLabel || term.Operator != corev1.NodeSelectorOpIn || len(term.Values) != 2 {
		t.Errorf("%+v", term)
	}
	if q := b.Template.Spec.Containers[0].Resources.Requests[GPUMilliResource]; q.Value() != 4000 ||
		b.Duration != time.Second || b.Template.Spec.Affinity != nil {
		t.Errorf("%+v", b)
	}
}

func TestTemplatesOfTracesAreValidPods(t *testing.T) {
	shape := openbShape{cpu: 1, memory: 1, gpuMilli: 500, spec: "a|b", qos: "LS"}
	p := PodPlan{Namespace: "default", Name: "a", Template: shape.template(), PodGroup: "g"}
	if errs := validate(p.Build(p.Template, "u", 0)); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestAnSWFJobIsAGang(t *testing.T) {
	in, err := readText(`; Version: 2
7  100 -1  60  3 -1 -1  5 99 -1 1 -1 -1 -1 0 -1 -1 -1
8  200 -1   0 -1 -1 -1  2 -1 -1 1 -1 -1 -1 0 -1 -1 -1
9  200 -1  -1  1 -1 -1 -1 30 -1 0 -1 -1 -1 0 -1 -1 -1
10 300 -1  -1 -1 -1 -1  4 30 -1 5 -1 -1 -1 0 -1 -1 -1
7  100 -1  10  3 -1 -1 -1 -1 -1 2 -1 -1 -1 0 -1 -1 -1
11 300 -1  12  1 -1 -1  4 30 -1 5 -1 -1 -1 0 -1 -1 -1
`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range in.workload.Pods {
		names = append(names, p.Name+" "+p.Arrival.String()+" "+p.Duration.String()+" "+p.PodGroup)
	}
	want := "job-7-0 1m40s 1m0s job-7, job-7-1 1m40s 1m0s job-7, job-7-2 1m40s 1m0s job-7, job-8-0 3m20s 1s job-8, " +
		"job-8-1 3m20s 1s job-8, " +
		"job-9-0 3m20s 30s job-9, job-11-0 5m0s 12s job-11"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	group := in.workload.Objects[0].Object.(*schedulingv1beta1.PodGroup)
	if group.Spec.SchedulingPolicy.Gang.MinCount != 3 || in.workload.Objects[0].At != 100*time.Second {
		t.Errorf("%+v", group)
	}
	built := in.workload.Pods[0].Build(in.workload.Pods[0].Template, "u", 0)
	if *built.Spec.SchedulingGroup.PodGroupName != "job-7" ||
		built.Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("%+v", built.Spec)
	}
	if len(in.workload.Notes) != 2 {
		t.Errorf("notes %q", in.workload.Notes)
	}
}

func TestFilesAreReadByContentForWhatTheyHold(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	both := write("both.csv", twoNodes+pod+"spec: {containers: [{name: c}]}\n")
	nodes, err := ReadNodes(both)
	if err != nil || len(nodes) != 2 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	w, err := Read(both)
	if err != nil || len(w.Pods) != 1 || len(w.Notes) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	list := write("list.yaml", openbNodesHead+"n0,1,1,0,\n")
	if _, err := Read(list); err == nil || !strings.Contains(err.Error(), "openb node list without a pod") {
		t.Errorf("got error %v", err)
	}
	if _, err := ReadNodes(write("w.swf", "1 0 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n")); err == nil ||
		!strings.Contains(err.Error(), "SWF file without a node") {
		t.Errorf("got error %v", err)
	}
	if _, err := ReadNodes(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v", err)
	}
}

// sharedData returns a file of the data that tests may use, and skips the test where it is not there.
func sharedData(t *testing.T, name string) string {
	path := filepath.Join("..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("workload data is not here: %v", err)
	}
	return path
}

func TestTheOpenbTraceIsReadWhole(t *testing.T) {
	nodes, err := ReadNodes(sharedData(t, "openb/openb_node_list_all_node.csv"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Read(sharedData(t, "openb/openb_pod_list_default.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 1523 || len(w.Pods) != 8152 || len(w.Notes) != 0 {
		t.Errorf("%d nodes, %d pods, notes %q", len(nodes), len(w.Pods), w.Notes)
	}
	gpus := int64(0)
	for _, n := range nodes {
		q := n.Node.Status.Allocatable[GPUMilliResource]
		gpus += q.Value()
	}
	if gpus != 6212_000 {
		t.Errorf("%d thousandths of a GPU", gpus)
	}
}

func TestTheLublinJobsAreReadWhole(t *testing.T) {
	w, err := Read(sharedData(t, "swf/lublin_256.swf"))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Objects) != 10_000 || len(w.Pods) != 221_010 || len(w.Notes) != 0 {
		t.Errorf("%d gangs, %d pods, notes %q", len(w.Objects), len(w.Pods), w.Notes)
	}
}

const twoNodes = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: 4}}}
---
`

// Seeds are the beginnings of files of every format.
var Seeds = []string{
	openbNodesHead + "n0,32000,1024,0,\n", openbPodsHead + "a,12000,16384,1,460,V100M16|V100M32,LS,Running,10,70,10\n",
	"; x\n1 0 -1 5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n",
	pod + "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n---\n", twoNodes,
	`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}]}`,
	`{"seq":1,"epoch":1,"time":"2026-01-02T03:04:05.000000006Z","kind":"Tick"}` + "\n",
	"apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {rollcall.dev/duration: 1s}}\nspec: " +
		"{parallelism: 2, template: {spec: {containers: [{name: c}]}}}\n",
	"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c, annotations: {rollcall.dev/runs: '2'}}\n" +
		"spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}\n",
	volcanoJob, ownersText("jobset.x-k8s.io/v1alpha2", "JobSet"), ownersText("ray.io/v1", "RayCluster"),
	ownersText("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ownersText("kubeflow.org/v1", "TFJob"),
	"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n" + podTail,
}

func TestAVolumeThatIsNobodysIsAvailable(t *testing.T) {
	const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /mnt}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]}]}}
%s
---`
	path := filepath.Join(t.TempDir(), "volumes.yaml")
	text := fmt.Sprintf(volume, "free", "") + fmt.Sprintf(volume, "given", "  claimRef: {namespace: a, name: b}") +
		fmt.Sprintf(volume, "released", "status: {phase: Released}") + "\n" + pod +
		"spec: {containers: [{name: c, image: i}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]corev1.PersistentVolumePhase{}
	for _, o := range w.Objects {
		pv := o.Object.(*corev1.PersistentVolume)
		got[pv.Name] = pv.Status.Phase
	}
	want := map[string]corev1.PersistentVolumePhase{"free": corev1.VolumeAvailable, "given": corev1.VolumePending,
		"released": corev1.VolumeReleased}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
