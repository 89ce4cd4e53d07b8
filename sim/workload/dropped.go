package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/rollcall-sched/rollcall/apis/scheduling/v1alpha1"
)

// The reasons for which a field of another project is not carried out.
const (
	noQueues     = "queues and their quotas are not simulated"
	noPriority   = "the pods' own priority counts"
	noElasticity = "the number of pods does not change"
	noLimit      = "a pod runs for its " + DurationAnnotation
)

// droppedKeys are the labels and annotations of other projects that are read by nobody, with the reason.
var droppedKeys = map[string]string{
	"kueue.x-k8s.io/queue-name":            noQueues,
	"kueue.x-k8s.io/priority-class":        noPriority,
	"kueue.x-k8s.io/job-min-parallelism":   noElasticity,
	"kueue.x-k8s.io/elastic-job":           noElasticity,
	"kueue.x-k8s.io/max-exec-time-seconds": noLimit,
	"kai.scheduler/queue":                  noQueues,
	"runai/queue":                          noQueues,
	"scheduling.volcano.sh/queue-name":     noQueues,
	"volcano.sh/queue-name":                noQueues,
	"yunikorn.apache.org/queue":            noQueues,
	"quota.scheduling.koordinator.sh/name": noQueues,
	"koordinator.sh/priority":              noPriority,
}

// droppedFields are the fields of other projects' objects that are read by nobody, by kind, with the reason.
var droppedFields = map[schema.GroupKind]map[string]string{
	{Group: "batch.volcano.sh", Kind: "Job"}: {"spec.queue": noQueues},
	{Group: "scheduling.volcano.sh", Kind: "PodGroup"}: {
		"spec.queue": noQueues, "spec.priorityClassName": noPriority},
	{Group: "scheduling.run.ai", Kind: "PodGroup"}: {
		"spec.queue": noQueues, "spec.priorityClassName": noPriority},
	{Group: "kubeflow.org"}: {
		"spec.runPolicy.schedulingPolicy.queue": noQueues, "spec.elasticPolicy": noElasticity},
	{Group: "ray.io", Kind: "RayCluster"}: {"spec.autoscalerOptions": noElasticity},
	{Group: "ray.io", Kind: "RayJob"}:     {"spec.rayClusterSpec.autoscalerOptions": noElasticity},
}

// dropped counts what the objects of files ask for and a simulation does not carry out.
type dropped struct {
	uses map[string]*use
	// single are the kinds of objects whose pods are no gang, and could be.
	single map[string]*use
}

// use is the number of objects with a property, and the first of them.
type use struct {
	objects int
	first   string
	advice  string
}

func newDropped() dropped { return dropped{uses: map[string]*use{}, single: map[string]*use{}} }

// count counts an object.
func count(uses map[string]*use, key, object, advice string) {
	if uses[key] == nil {
		uses[key] = &use{first: object, advice: advice}
	}
	uses[key].objects++
}

// String describes the objects.
func (u *use) String() string {
	if u.objects == 1 {
		return u.first
	}
	return fmt.Sprintf("%d objects, the first is %s", u.objects, u.first)
}

// read finds the fields, labels and annotations of an object, and of the pod templates in it, that nobody reads.
func (c *dropped) read(d *document, kind schema.GroupVersionKind) {
	fields := droppedFields[kind.GroupKind()]
	if fields == nil {
		fields = droppedFields[schema.GroupKind{Group: kind.Group}]
	}
	if fields == nil && !hasDroppedKey(d.body) {
		return
	}
	var tree map[string]any
	if json.Unmarshal(d.body, &tree) != nil {
		return // decoding the object reports the error
	}
	object := kind.Kind
	if name := strings.Trim(d.named(), " ()"); name != "" {
		object += " " + name
	}
	object = fmt.Sprintf("%s, %s:%d", object, d.path, d.line)
	for path, reason := range fields { // any order: the notes are sorted
		if value := fieldAt(tree, path); value != nil && value != "" {
			count(c.uses, "field "+path+" of "+kind.Kind, object, reason)
		}
	}
	keys := map[string]bool{}
	findDroppedKeys(tree, keys)
	for key := range keys { // any order: the notes are sorted
		count(c.uses, key, object, droppedKeys[key])
	}
}

// hasDroppedKey reports whether the text of an object has one of droppedKeys somewhere.
func hasDroppedKey(body []byte) bool {
	for key := range droppedKeys { // any order: one is enough
		if bytes.Contains(body, []byte(key)) {
			return true
		}
	}
	return false
}

// findDroppedKeys adds the droppedKeys among the labels and annotations of all metadata in an object.
func findDroppedKeys(value any, keys map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			findDroppedKeys(element, keys)
		}
	case map[string]any:
		for name, inner := range v { // any order: keys is a set
			if name != "metadata" {
				findDroppedKeys(inner, keys)
				continue
			}
			for _, kind := range []string{"labels", "annotations"} {
				values, _ := fieldAt(inner, kind).(map[string]any)
				for key := range values { // any order: keys is a set
					if droppedKeys[key] != "" {
						keys[key] = true
					}
				}
			}
		}
	}
}

// gangless notes an object whose pods are no gang, and could be.
func (c *dropped) gangless(s podSource, pods []PodPlan) {
	if len(pods) < 2 {
		return
	}
	for i := range pods {
		if _, member := pods[i].Group(); member {
			return
		}
	}
	kind, name := "Job", ""
	advice := "for a gang, name a PodGroup in the pod template, with the label " + v1alpha1.PodGroupLabel
	switch {
	case s.owner != nil:
		kind = s.owner.row.String()
		if s.owner.row.gang.name != "" {
			advice = "for a gang, give it the annotation " + GangAnnotation + `: "true"`
		}
		name = s.owner.meta.Namespace + "/" + s.owner.meta.Name
	case s.job != nil:
		name = ObjectName(s.job)
	default:
		return
	}
	count(c.single, kind, fmt.Sprintf("%s, %s:%d", name, s.doc.path, s.doc.line), advice)
}

// note adds the notes.
func (c *dropped) note(in *input) {
	for _, key := range slices.Sorted(maps.Keys(c.uses)) {
		in.note("%s has no effect: %s (%s)", key, c.uses[key].advice, c.uses[key])
	}
	for _, kind := range slices.Sorted(maps.Keys(c.single)) {
		u := c.single[kind]
		in.note("the pods of %ss are placed one by one, as no gang (%s): %s", kind, u, u.advice)
	}
}

// maxUnoffered is the largest number of resources that notes name because no node offers them.
const maxUnoffered = 20

// Unoffered returns notes about the resources that pods request and none of the nodes offers at any time. They name the
// first maxUnoffered resources, and the last note has the number of the others.
func (w *Workload) Unoffered(nodes []NodePlan) (notes []string) {
	offered := w.offered(nodes)
	lacking := w.lacking(offered)
	var names []string
	for name, some := range offered { // any order: didYouMean sorts
		if some {
			names = append(names, string(name))
		}
	}
	for i, name := range slices.Sorted(maps.Keys(lacking)) {
		if i == maxUnoffered {
			others := "1 more resource"
			if n := len(lacking) - i; n > 1 {
				others = fmt.Sprintf("%d more resources", n)
			}
			return append(notes, "and "+others+" that pods request and no node offers")
		}
		r := lacking[name]
		who := "pod " + r.first + " requests"
		if r.pods > 1 {
			who = fmt.Sprintf("%d pods request (the first is %s)", r.pods, r.first)
		}
		notes = append(notes, fmt.Sprintf("no node offers %s, which %s%s", name, who, didYouMean(string(name), names)))
	}
	return notes
}

// offered returns the resources that a node offers at any time, as an amount or by a DeviceClass. The value is false if
// the amount is always 0.
func (w *Workload) offered(nodes []NodePlan) map[corev1.ResourceName]bool {
	offered := map[corev1.ResourceName]bool{}
	offer := func(node *corev1.Node) {
		for name, amount := range node.Status.Allocatable { // any order: offered is a set
			offered[name] = offered[name] || !amount.IsZero()
		}
	}
	for i := range nodes {
		offer(nodes[i].Node)
		for _, u := range nodes[i].Updates {
			offer(u.Node)
		}
	}
	for _, o := range w.Objects {
		if class, ok := o.Object.(*resourcev1.DeviceClass); ok {
			offered[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class.Name)] = true
			if name := class.Spec.ExtendedResourceName; name != nil {
				offered[corev1.ResourceName(*name)] = true
			}
		}
	}
	return offered
}

// requesters are the pods that request a resource: their number, and the first of them.
type requesters struct {
	pods  int
	first string
}

// lacking returns the resources that pods without a node request and that are not offered.
func (w *Workload) lacking(offered map[corev1.ResourceName]bool) map[corev1.ResourceName]*requesters {
	lacking := map[corev1.ResourceName]*requesters{}
	var last *corev1.Pod
	var lacks []corev1.ResourceName
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Template != last {
			last, lacks = p.Template, nil
			for name, amount := range resourcehelper.PodRequests(last, resourcehelper.PodResourcesOptions{}) {
				if !amount.IsZero() && !offered[name] { // any order: each is counted once
					lacks = append(lacks, name)
				}
			}
		}
		if last.Spec.NodeName != "" {
			continue
		}
		for _, name := range lacks {
			if lacking[name] == nil {
				lacking[name] = &requesters{first: p.Namespace + "/" + p.Name}
			}
			lacking[name].pods++
		}
	}
	return lacking
}
