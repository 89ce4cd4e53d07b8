package worlds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// start is the time at which every simulation begins.
var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// line is an entry of a log as `rollcall log cat` prints it.
type line struct {
	Seq       int    `json:"seq"`
	Epoch     int    `json:"epoch"`
	Time      string `json:"time"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource,omitempty"`
	Object    object `json:"object,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"node,omitempty"`
	Outcome   string `json:"outcome,omitempty"`

	at time.Duration
}

// resources are the log's resources, by kind, and by API group where kinds have the same name.
var resources = map[string]string{
	"Node": "nodes", "Pod": "pods", "PriorityClass": "priorityclasses.scheduling.k8s.io",
	"PodDisruptionBudget": "poddisruptionbudgets.policy", "StorageClass": "storageclasses.storage.k8s.io",
	"PersistentVolume": "persistentvolumes", "PersistentVolumeClaim": "persistentvolumeclaims",
	"CompositePodGroup": "compositepodgroups.scheduling.k8s.io",
}

func resourceOf(o object) string {
	switch o["apiVersion"] {
	case "scheduling.k8s.io/v1beta1":
		return "podgroups.scheduling.k8s.io"
	case "scheduling.x-k8s.io/v1alpha1":
		return "podgroups.scheduling.x-k8s.io"
	}
	return resources[o["kind"].(string)]
}

// when takes an annotation about time from an object.
func when(o object, key string) (at time.Duration, ok bool) {
	annotations := into(into(o, "metadata"), "annotations")
	text, ok := annotations["rollcall.dev/"+key].(string)
	if !ok {
		return 0, false
	}
	delete(annotations, "rollcall.dev/"+key)
	at, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("annotation %s: %v", key, err))
	}
	return at, true
}

// identified returns an object with a UID that no other has.
func (b *builder) identified(o object) object {
	out := clone(o)
	into(out, "metadata")["uid"] = fmt.Sprintf("00000000-0000-4000-8000-%012d", b.names["uid"])
	b.names["uid"]++
	return out
}

// upserted is the line of an object that comes or changes.
func upserted(at time.Duration, o object) line {
	return line{at: at, Kind: "Upserted", Resource: resourceOf(o), Object: o}
}

// deleted is the line of an object that goes.
func deleted(at time.Duration, o object) line {
	meta := into(o, "metadata")
	namespace, _ := meta["namespace"].(string)
	return line{at: at, Kind: "Deleted", Resource: resourceOf(o), Namespace: namespace, Name: meta["name"].(string),
		UID: meta["uid"].(string)}
}

// recordedNodes writes the nodes as entries of a log. Some that fail come back under their name.
func (b *builder) recordedNodes() []byte {
	var lines []line
	for _, planned := range b.nodes {
		node := b.identified(planned)
		joins, _ := when(node, "joins")
		fails, failing := when(node, "fails")
		cordoned, cordons := when(node, "cordoned")
		uncordoned, uncordons := when(node, "uncordoned")
		lines = append(lines, upserted(joins, node))
		if cordons && (!failing || cordoned < fails) {
			changed := clone(node)
			into(changed, "spec")["unschedulable"] = true
			lines = append(lines, upserted(cordoned, changed))
			if uncordons && (!failing || uncordoned < fails) {
				lines = append(lines, upserted(uncordoned, node))
			}
		}
		if failing {
			lines = append(lines, deleted(fails, node))
			if b.chance(60) {
				lines = append(lines, upserted(fails+time.Duration(b.between(1, 8))*10*time.Second,
					b.identified(planned)))
				when(lines[len(lines)-1].Object, "joins")
				when(lines[len(lines)-1].Object, "fails")
				when(lines[len(lines)-1].Object, "cordoned")
				when(lines[len(lines)-1].Object, "uncordoned")
			}
		}
	}
	return write(lines)
}

// recording writes the workload as the log of another simulation: pods ran there for their time from one second after
// they came, were deleted, and some came again under their name. Gates of some pods are taken away later.
func (b *builder) recording() []byte {
	var lines []line
	for _, planned := range b.objects {
		o := b.identified(planned)
		at, _ := when(o, "arrival")
		switch o["kind"] {
		case "PersistentVolume":
			into(o, "status")["phase"] = "Available"
		case "PersistentVolumeClaim":
			into(o, "status")["phase"] = "Pending"
		}
		if o["kind"] != "Pod" {
			lines = append(lines, upserted(at, o))
			continue
		}
		spec := into(o, "spec")
		if spec["schedulerName"] == nil {
			spec["schedulerName"] = "default-scheduler"
		}
		lines = append(lines, b.lifeOf(o, at)...)
		if b.has("recreated") {
			// Leave out a pod that ran: it may end later here than there, and then there are two of its name.
			gone := lines[len(lines)-1]
			if gone.Kind == "Deleted" && lines[len(lines)-2].Kind != "BindResult" {
				again := b.identified(o)
				lines = append(lines, b.lifeOf(again, gone.at+time.Duration(b.below(3))*10*time.Second)...)
			}
		}
	}
	return write(lines)
}

// lifeOf returns the lines of a log about a pod.
func (b *builder) lifeOf(pod object, at time.Duration) []line {
	lines := []line{upserted(at, pod)}
	spec := into(pod, "spec")
	if spec["schedulingGates"] != nil && b.chance(60) {
		at += time.Duration(b.between(1, 6)) * 10 * time.Second
		open := clone(pod)
		delete(into(open, "spec"), "schedulingGates")
		lines = append(lines, upserted(at, open))
	}
	length := b.length()
	if text, ok := into(into(pod, "metadata"), "annotations")["rollcall.dev/duration"].(string); ok && b.chance(80) {
		if declared, err := time.ParseDuration(text); err == nil {
			length = declared
		}
	}
	n := b.below(100)
	switch {
	case n < 15: // it never had a node there, and was deleted
		return append(lines, deleted(at+length, pod))
	case n < 25: // it never had a node
		return lines
	}
	began := at + time.Second
	lines = append(lines, line{
		at: began, Kind: "BindResult", UID: into(pod, "metadata")["uid"].(string), Node: "node-00", Outcome: "Bound",
	})
	if n < 40 { // it runs for ever
		return lines
	}
	return append(lines, deleted(began+length, pod))
}

// write numbers lines by their time and writes them.
func write(lines []line) []byte {
	slices.SortStableFunc(lines, func(x, y line) int { return cmp.Compare(x.at, y.at) })
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for i, l := range lines {
		l.Seq, l.Epoch, l.Time = i+1, 1, start.Add(l.at).Format(time.RFC3339Nano)
		if err := encoder.Encode(l); err != nil {
			panic(fmt.Sprintf("a world's line is no JSON: %v", err))
		}
	}
	return out.Bytes()
}
