package transcripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// outcomes are the commands that answer a bind.
var outcomes = map[string]eventlog.BindOutcome{"bound": eventlog.BindBound, "failed": eventlog.BindFailed,
	"conflict": eventlog.BindConflict, "unknown": eventlog.BindUnknown}

// inputs returns the inputs of a command: one, or several for a pod with count.
func (p *Player) inputs(d *datadriven.TestData) []eventlog.Payload {
	p.t.Helper()
	upsert := func(res eventlog.Resource, obj eventlog.Object) []eventlog.Payload {
		return []eventlog.Payload{&eventlog.Upserted{Resource: res, Object: obj}}
	}
	switch d.Cmd {
	case "node":
		return upsert(eventlog.Nodes, p.node(d))
	case "group":
		return p.newGroup(d)
	case "composite":
		return upsert(eventlog.CompositePodGroups, p.composite(d))
	case "deviceclass":
		return upsert(eventlog.DeviceClasses, p.deviceClass(d))
	case "claim":
		return upsert(eventlog.ResourceClaims, p.newClaim(d))
	case "slice":
		return upsert(eventlog.ResourceSlices, p.slice(d))
	case "pod":
		return p.newPods(d)
	case "allocated":
		return p.allocated(d)
	case "deallocated":
		return upsert(eventlog.ResourceClaims, p.deallocated(d))
	case "apply":
		p.allow(d, 1)
		res := eventlog.Resource(d.CmdArgs[0].Key)
		obj := eventlog.NewObject(res)
		if obj == nil {
			return upsert(res, p.ownObject(d))
		}
		p.must(yaml.UnmarshalStrict([]byte(d.Input), obj))
		return upsert(res, obj)
	case "placed", "reschedule", "ungate", "terminate", "finish", "resize", "resized":
		return upsert(eventlog.Pods, p.changedPod(d))
	case "delete":
		return []eventlog.Payload{p.deletion(d)}
	case "bound", "failed", "conflict", "unknown":
		p.allow(d, 1, "node", "decision")
		pod := p.existing(d)
		result := &eventlog.BindResult{UID: pod.Object.UID, Node: arg(d, "node", pod.Node), Outcome: outcomes[d.Cmd]}
		var err error
		result.Decision, err = strconv.ParseUint(arg(d, "decision", "0"), 10, 64)
		p.must(err)
		if d.Cmd == "failed" {
			result.Message = "the API server said no"
		}
		return []eventlog.Payload{result}
	}
	if d.Cmd == "extender" {
		return []eventlog.Payload{p.extenderResult(d)}
	}
	if outcome, ok := evictOutcomes[d.Cmd]; ok {
		return []eventlog.Payload{p.evictResult(d, outcome)}
	}
	p.t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	return nil
}

// ownObject returns an object of a resource that the config declares.
func (p *Player) ownObject(d *datadriven.TestData) eventlog.Object {
	p.t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(d.Input))
	p.must(err)
	obj := &unstructured.Unstructured{}
	p.must(obj.UnmarshalJSON(text))
	return obj
}

// evictOutcomes are the commands that answer an eviction.
var evictOutcomes = map[string]eventlog.EvictOutcome{"evict-done": eventlog.EvictDone, "evict-gone": eventlog.EvictGone,
	"evict-refused": eventlog.EvictRefused, "evict-given-up": eventlog.EvictGivenUp,
	"evict-withdrawn": eventlog.EvictWithdrawn}

func (p *Player) evictResult(d *datadriven.TestData, outcome eventlog.EvictOutcome) *eventlog.EvictResult {
	p.t.Helper()
	p.allow(d, 1, "decision")
	uid := p.existing(d).Object.UID
	r := &eventlog.EvictResult{UID: uid, Outcome: outcome}
	var err error
	asked := strconv.FormatUint(p.machine.AskedBy(uid, scheduler.Evict), 10)
	r.Decision, err = strconv.ParseUint(arg(d, "decision", asked), 10, 64)
	p.must(err)
	if outcome == eventlog.EvictRefused || outcome == eventlog.EvictGivenUp {
		r.Message = "the webhook said no"
	}
	if outcome == eventlog.EvictRefused {
		r.RetryAfter = 2 * time.Second
	}
	return r
}

// extenderResult answers the question about a pod. The first extender refuses these nodes, gives these scores, leaves
// these of the nodes where pods would be evicted, or fails.
func (p *Player) extenderResult(d *datadriven.TestData) *eventlog.ExtenderResult {
	p.t.Helper()
	p.allow(d, 1, "refuses", "scores", "leaves", "fails")
	uid := p.existing(d).Object.UID
	answer := eventlog.ExtenderAnswer{Name: "http://licences.test"}
	if nodes := arg(d, "refuses", ""); nodes != "" {
		refusal := eventlog.ExtenderRefusal{Code: "Unschedulable", Reason: "no licence is left"}
		refusal.Nodes = strings.Split(nodes, "+")
		answer.Refused = append(answer.Refused, refusal)
	}
	for score := range strings.SplitSeq(arg(d, "scores", ""), "+") {
		if node, points, ok := strings.Cut(score, ":"); ok {
			n, err := strconv.ParseInt(points, 10, 64)
			p.must(err)
			answer.Scores = append(answer.Scores, eventlog.ExtenderScore{Node: node, Score: n})
		}
	}
	candidates := p.asksAbout(uid)
	switch left := strings.Split(arg(d, "leaves", ""), "+"); {
	case d.HasArg("fails") && candidates != nil:
		answer.PreemptError = "it was away"
	case d.HasArg("fails"):
		answer.FilterError = "it was away"
	default:
		for _, c := range candidates {
			if slices.Contains(left, c.Node) {
				answer.Candidates = append(answer.Candidates, c)
			}
		}
	}
	return &eventlog.ExtenderResult{
		UID: uid, Decision: p.machine.AskedBy(uid, scheduler.Ask), Answers: []eventlog.ExtenderAnswer{answer},
	}
}

// asksAbout returns the candidates of the question about a pod, nil if it is not about preemption.
func (p *Player) asksAbout(uid types.UID) []eventlog.Candidate {
	for _, e := range p.machine.Effects() {
		if e.Kind == scheduler.Ask && e.UID == uid {
			return e.Candidates
		}
	}
	return nil
}

// newPods returns one pod, or as many as count says.
func (p *Player) newPods(d *datadriven.TestData) []eventlog.Payload {
	p.t.Helper()
	namespace, name := p.split(d)
	count := arg(d, "count", "")
	if count == "" {
		return p.newPod(d, namespace, name)
	}
	n, err := strconv.Atoi(count)
	p.must(err)
	var all []eventlog.Payload
	for i := range n {
		all = append(all, p.newPod(d, namespace, name+strconv.Itoa(i))...)
	}
	return all
}

// newPod returns a pod, behind the claim for a device that is made for it.
func (p *Player) newPod(d *datadriven.TestData, namespace, name string) (all []eventlog.Payload) {
	p.t.Helper()
	pod := p.pod(d, namespace, name)
	if class := arg(d, "device", ""); class != "" {
		all = append(all, &eventlog.Upserted{Resource: eventlog.ResourceClaims, Object: claimDevice(pod, class)})
	}
	return append(all, &eventlog.Upserted{Resource: eventlog.Pods, Object: pod})
}

// changedPod returns a pod as it is after a command.
func (p *Player) changedPod(d *datadriven.TestData) *v1.Pod {
	p.t.Helper()
	old := p.existing(d)
	pod := old.Object.DeepCopy()
	switch d.Cmd {
	case "placed":
		p.allow(d, 1, "node")
		pod.Spec.NodeName = arg(d, "node", "")
	case "reschedule":
		p.allow(d, 1, "scheduler")
		pod.Spec.SchedulerName = arg(d, "scheduler", "")
	case "ungate":
		p.allow(d, 1)
		pod.Spec.SchedulingGates = nil
	case "resize":
		p.resize(d, pod)
	case "resized":
		p.allow(d, 1)
		pod.Status.Conditions, pod.Status.ContainerStatuses = nil, nil
	case "terminate":
		p.allow(d, 1)
		pod.DeletionTimestamp = &metav1.Time{Time: p.now.Std()}
	case "finish":
		p.allow(d, 1, "phase")
		pod.Spec.NodeName = old.Node
		pod.Status.Phase = v1.PodPhase(arg(d, "phase", "Succeeded"))
	}
	return pod
}

func (p *Player) deletion(d *datadriven.TestData) *eventlog.Deleted {
	p.t.Helper()
	p.allow(d, 2)
	res := eventlog.Resource(d.CmdArgs[0].Key)
	namespace, name, ok := strings.Cut(d.CmdArgs[1].Key, "/")
	if !ok {
		namespace, name = "", namespace
	}
	del := &eventlog.Deleted{Resource: res, Namespace: namespace, Name: name}
	switch res {
	case eventlog.Pods:
		pod := p.machine.Cluster().Pods().Named(namespace, name)
		if pod == nil {
			p.t.Fatalf("%s: no pod %s", d.Pos, d.CmdArgs[1].Key)
		}
		del.UID = pod.Object.UID
	case eventlog.Nodes:
		del.UID = types.UID("node-" + name)
	case eventlog.CompositePodGroups:
		del.UID = types.UID("composite-" + name)
	default:
		del.UID = types.UID("group-" + name)
		if eventlog.IsOwn(res) {
			if obj := p.machine.Cluster().Informers().Get(res, namespace, name); obj != nil {
				del.UID = obj.GetUID()
			}
		}
	}
	return del
}

// existing returns the pod that the command names.
func (p *Player) existing(d *datadriven.TestData) *cluster.Pod {
	p.t.Helper()
	namespace, name := p.split(d)
	pod := p.machine.Cluster().Pods().Named(namespace, name)
	if pod == nil {
		p.t.Fatalf("%s: no pod %s/%s", d.Pos, namespace, name)
	}
	return pod
}

// split returns the namespace and the name that are the command's first argument.
func (p *Player) split(d *datadriven.TestData) (namespace, name string) {
	p.t.Helper()
	if len(d.CmdArgs) == 0 {
		p.t.Fatalf("%s: %s wants a name", d.Pos, d.Cmd)
	}
	namespace, name, ok := strings.Cut(d.CmdArgs[0].Key, "/")
	if !ok {
		p.t.Fatalf("%s: %s wants NAMESPACE/NAME, not %q", d.Pos, d.Cmd, d.CmdArgs[0].Key)
	}
	return namespace, name
}

// allow fails unless the command has that many arguments by place, and, by name, only arguments of the given names.
func (p *Player) allow(d *datadriven.TestData, byPlace int, names ...string) {
	p.t.Helper()
	if len(d.CmdArgs) < byPlace {
		p.t.Fatalf("%s: %s wants %d arguments", d.Pos, d.Cmd, byPlace)
	}
	for i, a := range d.CmdArgs {
		if i >= byPlace && !slices.Contains(names, a.Key) {
			p.t.Fatalf("%s: %s has no argument %q", d.Pos, d.Cmd, a.Key)
		}
	}
}

// arg returns an argument's value, "true" if it has none, or otherwise if the argument is missing.
func arg(d *datadriven.TestData, key, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			if len(a.Vals) == 0 {
				return "true"
			}
			return a.Vals[0]
		}
	}
	return otherwise
}

// pairs returns the argument's values as keys and values; nil for none.
func pairs(d *datadriven.TestData, key string) map[string]string {
	var out map[string]string
	for _, a := range d.CmdArgs {
		if a.Key != key {
			continue
		}
		out = map[string]string{}
		for _, pair := range a.Vals {
			k, v, _ := strings.Cut(pair, ":")
			out[k] = v
		}
	}
	return out
}

// pair returns the argument's one key and value; nil for none.
func pair(d *datadriven.TestData, key string) map[string]string {
	k, v, ok := strings.Cut(arg(d, key, ""), ":")
	if !ok {
		return nil
	}
	return map[string]string{k: v}
}

// podUID returns the UID of the pod that is made next.
func (p *Player) podUID(name string) types.UID {
	p.pods++
	return types.UID(fmt.Sprintf("pod-%s-%d", name, p.pods))
}
