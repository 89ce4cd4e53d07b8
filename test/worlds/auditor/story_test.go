package auditor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// story is a log in the making, written by hand: the test has the meaning of each line, and uses no code of the
// product.
type story struct {
	t        *testing.T
	now      time.Duration
	seq      int
	epoch    int
	log      bytes.Buffer
	workload bytes.Buffer
}

// fields are the fields of a JSON object.
type fields = map[string]any

// newStory begins a log with an epoch of the default plugins and a queue policy.
func newStory(t *testing.T, policy string) *story {
	s := &story{t: t}
	s.begin(policy)
	return s
}

// begin begins an epoch.
func (s *story) begin(policy string) {
	enabled := []any{fields{"name": "Coscheduling"}}
	for _, f := range filters {
		enabled = append(enabled, fields{"name": f.plugin})
	}
	s.epoch++
	s.line("EpochStarted", fields{"config": fields{
		"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1,
		"profiles": []any{fields{
			"schedulerName": "default-scheduler",
			"plugins":       fields{"multiPoint": fields{"enabled": enabled}},
			"pluginConfig":  []any{fields{"name": "Coscheduling", "args": fields{"queuePolicy": policy}}},
		}},
	}})
}

// line adds an entry.
func (s *story) line(kind string, more fields) {
	s.seq++
	more["seq"], more["epoch"], more["kind"] = s.seq, s.epoch, kind
	more["time"] = start.Add(s.now).Format(time.RFC3339Nano)
	text, err := json.Marshal(more)
	if err != nil {
		s.t.Fatal(err)
	}
	s.log.Write(append(text, '\n'))
}

// parse reads fields that are written as JSON, with single quotes for double ones.
func (s *story) parse(text string, args ...any) fields {
	out := fields{}
	quoted := strings.ReplaceAll(fmt.Sprintf(text, args...), "'", `"`)
	if quoted == "" {
		return out
	}
	if err := json.Unmarshal([]byte(quoted), &out); err != nil {
		s.t.Fatalf("%s: %v", quoted, err)
	}
	return out
}

// object adds an object that comes or changes.
func (s *story) object(resource, name, text string, args ...any) {
	o := s.parse(text, args...)
	meta, _ := o["metadata"].(fields)
	if meta == nil {
		meta = fields{}
	}
	meta["name"] = name
	if meta["uid"] == nil {
		meta["uid"] = name
	}
	if resource != "nodes" && !strings.HasPrefix(resource, "storage") {
		meta["namespace"] = "d"
	}
	o["metadata"] = meta
	s.line("Upserted", fields{"resource": resource, "object": o})
}

// node adds a node of so many cpus, in a zone, with a spec.
func (s *story) node(name, cpu, zone, spec string) {
	s.object("nodes", name, `{'metadata': {'labels': {'zone': '%s', 'name': '%s'}}, 'spec': {%s},
		'status': {'allocatable': {'cpu': '%s', 'pods': '9'}}}`, zone, name, spec, cpu)
}

// pod adds a pod that requests so many cpus, with more of a spec and of its metadata. It is in the workload too.
func (s *story) pod(name, cpu, spec, meta string) {
	if spec != "" {
		spec = ", " + spec
	}
	s.object("pods", name, `{'metadata': {%s}, 'spec': {'schedulerName': 'default-scheduler',
		'containers': [{'resources': {'requests': {'cpu': '%s'}}}]%s}}`, meta, cpu, spec)
	fmt.Fprintf(&s.workload, "---\n{\"kind\": \"Pod\", \"metadata\": {\"name\": %q, \"namespace\": \"d\"}}\n", name)
}

// patient is the spec of a pod on node n that tolerates the taint k for ten seconds.
const patient = `'nodeName': 'n', 'tolerations': [{'key': 'k', 'operator': 'Exists', 'tolerationSeconds': 10}]`

// disrupted adds that a patient pod is deleted, for a reason.
func (s *story) disrupted(name, reason string) {
	s.object("pods", name, `{'metadata': {'deletionTimestamp': '2026-01-01T00:00:00Z'},
		'spec': {'schedulerName': 'default-scheduler', %s},
		'status': {'conditions': [{'type': 'DisruptionTarget', 'status': 'True', 'reason': '%s'}]}}`, patient, reason)
}

// decide adds a Decision on a pod.
func (s *story) decide(pod, outcome, node, text string, args ...any) {
	d := s.parse(text, args...)
	for key, value := range map[string]any{
		"pod": "d/" + pod, "uid": pod, "outcome": outcome, "node": node, "evaluated": 1, "feasible": 1,
	} {
		if d[key] == nil {
			d[key] = value
		}
	}
	s.line("Decision", fields{"decision": d})
}

// bind adds that a pod was bound.
func (s *story) bind(pod, node string) {
	s.line("BindResult", fields{"uid": pod, "node": node, "outcome": "Bound"})
}

// place adds the Decision and the bind of a pod of no gang.
func (s *story) place(pod, node string) {
	s.decide(pod, "Scheduled", node, "")
	s.bind(pod, node)
}

// gone adds that an object was deleted.
func (s *story) gone(resource, name string) {
	s.line("Deleted", fields{"resource": resource, "namespace": "d", "name": name, "uid": name})
}

// tick lets time pass.
func (s *story) tick(d time.Duration) {
	s.now += d
	s.line("Tick", fields{})
}

// member is the metadata of a pod of a gang that its PodGroup of scheduling.x-k8s.io declares.
func member(gang string) string {
	return fmt.Sprintf("'labels': {'scheduling.x-k8s.io/pod-group': '%s'}", gang)
}

// gang adds a PodGroup with so many members of one cpu.
func (s *story) gang(name string, minimum, members int, annotations string) {
	s.object("podgroups.scheduling.x-k8s.io", name, `{'metadata': {'annotations': {%s}}, 'spec': {'minMember': %d}}`,
		annotations, minimum)
	for k := range members {
		s.pod(fmt.Sprintf("%s-%d", name, k), "1", "", member(name))
	}
}

// in adds the Decision that a member goes to a node. group is the group that the gang's Decisions name.
func (s *story) in(gang string, k int, outcome, node, text string, args ...any) {
	d := strings.TrimPrefix(text, "{")
	if d == "" {
		d = "}"
	} else {
		d = ", " + d
	}
	s.decide(fmt.Sprintf("%s-%d", gang, k), outcome, node, "{'group': 'd/"+gang+"'"+d, args...)
}

// audit audits the story.
func (s *story) audit() Report {
	s.t.Helper()
	report, err := Audit(&s.log, Inputs{Workload: s.workload.Bytes()})
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}
