package incident

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The size of the cluster and of the workload.
const (
	Nodes, Gangs = 60, 80
	GPUs         = 8 // of each node
)

// The names of the nodes and gangs with a problem. Gangs are namespace/name.
const (
	LostRack  = "rack-0"
	Train     = "ml/train"
	Oversized = "vision/oversized"
	Mistyped  = "speech/mistyped"
	Unclaimed = "vision/unclaimed"
	Cordoned  = "gpu-41"
	Drained   = "gpu-13"
	Failed    = "gpu-33"
)

// Write writes nodes.yaml and workload.yaml to a directory, which it makes.
func Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes.yaml"), []byte(nodes()), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "workload.yaml"), []byte(workload()), 0o666)
}

// nodes returns the nodes as YAML.
func nodes() string {
	var text strings.Builder
	for i := range Nodes {
		name, rack := fmt.Sprintf("gpu-%02d", i), fmt.Sprintf("rack-%d", i/8)
		zone, model := "a", "H100"
		if i >= 32 {
			zone = "b"
		}
		if i >= 48 {
			model = "A100"
		}
		var happens []string
		if rack == LostRack {
			happens = append(happens, "rollcall.dev/unreachable: 13h24m10s..14h25m")
		}
		switch name {
		case Cordoned:
			happens = append(happens, "rollcall.dev/cordoned: 12h50m", "rollcall.dev/uncordoned: 15h30m")
		case Drained:
			happens = append(happens, "rollcall.dev/drained: 10h", "rollcall.dev/uncordoned: 11h")
		case Failed:
			happens = append(happens, "rollcall.dev/fails: 18h", "rollcall.dev/returns: 18h30m")
		}
		fmt.Fprintf(&text, `---
apiVersion: v1
kind: Node
metadata:
  name: %s
  labels: {rack: %s, zone: %s, gpu-model: %s}
  annotations: {%s}
status: {allocatable: {cpu: 96, memory: 768Gi, nvidia.com/gpu: %d, pods: 110}}
`, name, rack, zone, model, strings.Join(happens, ", "), GPUs)
	}
	return text.String()
}

// A gang is a PodGroup and the Job that makes its pods.
type gang struct {
	team, name string
	priority   int
	pods, gpus int // gpus: of each pod
	// arrival and duration are in minutes.
	arrival, duration int
	preempts          bool
	group             string // more annotations of the PodGroup, behind a comma
	spec              string // more fields of the pods, in lines
}

// teams are the teams of the gangs that come all day.
var teams = []struct {
	name     string
	priority int
	preempts bool
}{{"vision", 20, false}, {"speech", 20, false}, {"search", 30, true}, {"research", 5, false}, {"vision", 20, false},
	{"research", 5, false}}

// The numbers of the gangs that come all day are taken from these in turn. Their lengths have no common divisor, so
// that no two gangs near each other are alike.
var (
	podsOf     = []int{4, 8, 2, 12, 6, 16, 3, 8, 10, 5, 9}
	gpusOf     = []int{8, 4, 8, 2, 8, 8, 4}
	durationOf = []int{150, 95, 240, 70, 185, 310, 45, 130, 205, 60, 170, 270, 110}
)

// workload returns the gangs as YAML.
func workload() string {
	gangs := []gang{
		{team: "ml", name: "train", priority: 20, pods: 64, gpus: 1, duration: 17 * 60,
			group: ", rollcall.dev/topology-required: rack"},
		{team: "vision", name: "oversized", priority: 20, pods: 4, gpus: 16, arrival: 9*60 + 5, duration: 60},
		{team: "speech", name: "mistyped", priority: 20, pods: 2, gpus: 8, arrival: 9*60 + 40, duration: 60,
			spec: "      nodeSelector: {gpu-model: h100}\n"},
		{team: "vision", name: "unclaimed", priority: 20, pods: 2, gpus: 1, arrival: 11*60 + 10, duration: 60,
			spec: "      volumes: [{name: data, persistentVolumeClaim: {claimName: imagenet}}]\n"},
	}
	const storm = 4
	for i := range storm {
		gangs = append(gangs, gang{team: "serving", name: fmt.Sprintf("rollout-%d", i), priority: 100, preempts: true,
			pods: 6, gpus: 8, arrival: 13*60 + 35 + i, duration: 90})
	}
	for i := range Gangs - len(gangs) {
		team := teams[i%len(teams)]
		gangs = append(gangs, gang{team: team.name, name: fmt.Sprintf("job-%02d", i),
			priority: team.priority, preempts: team.preempts,
			pods: podsOf[i%len(podsOf)], gpus: gpusOf[i%len(gpusOf)], arrival: 5 + i*14,
			duration: durationOf[i%len(durationOf)]})
	}
	var text strings.Builder
	for _, g := range gangs {
		g.write(&text)
	}
	return text.String()
}

func (g *gang) write(text *strings.Builder) {
	policy := "Never"
	if g.preempts {
		policy = "PreemptLowerPriority"
	}
	fmt.Fprintf(text, `---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata:
  namespace: %[1]s
  name: %[2]s
  labels: {team: %[1]s}
  annotations: {rollcall.dev/arrival: %[3]dm%[4]s}
spec: {priority: %[5]d, schedulingPolicy: {gang: {minCount: %[6]d}}}
---
apiVersion: batch/v1
kind: Job
metadata:
  namespace: %[1]s
  name: %[2]s
  annotations: {rollcall.dev/arrival: %[3]dm, rollcall.dev/duration: %[7]dm}
spec:
  parallelism: %[6]d
  completions: %[6]d
  template:
    metadata: {labels: {team: %[1]s}}
    spec:
      restartPolicy: Never
      priority: %[5]d
      preemptionPolicy: %[10]s
      schedulingGroup: {podGroupName: %[2]s}
%[8]s      containers: [{name: main, resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: %[9]d}}}]
`, g.team, g.name, g.arrival, g.group, g.priority, g.pods, g.duration, g.spec, g.gpus, policy)
}
