package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// schedulerConfig is the member of an export of the simulator with the configuration of its scheduler.
const schedulerConfig = "schedulerConfig"

// name identifies an object.
type name struct {
	resource eventlog.Resource
	types.NamespacedName
}

// found is the meaning of an item: an object, an event of an audit log, or something that is not taken in.
type found struct {
	name
	uid types.UID
	// volumes and claims say that a pod names PersistentVolumeClaims, and ResourceClaims.
	volumes, claims bool
	version         uint64 // its resourceVersion, 0 if it has none
	encoding        eventlog.Encoding
	pod             *corev1.Pod // a pod as the log has it; nil for other objects
	finished        bool        // it is a pod that has ended
	newest          time.Time   // the newest time in the object
	placing         Placing

	from *item // without its text
	// left is the kind of an object that is not taken in, "" for one that is. older is the kind of one of an older
	// version.
	left, older string
	event       *event // of an audit log
	config      []byte // of the simulator
}

// decoder decodes items. It is not safe for concurrent use.
type decoder struct {
	encoder eventlog.Encoder
	parts   parts
	memory  []byte // of the reduced text of the object at hand
}

// decode reads an item.
func (d *decoder) decode(it *item) (*found, error) {
	f, err := d.read(it)
	if err != nil {
		return nil, it.failed(err)
	}
	from := *it
	from.text = nil
	f.from = &from
	return f, nil
}

func (d *decoder) read(it *item) (*found, error) {
	text := it.text
	if it.kind == schedulerConfig {
		var export map[string]json.RawMessage
		if err := json.Unmarshal(text, &export); err != nil {
			return nil, err
		}
		return &found{config: export[schedulerConfig]}, nil
	}
	if it.yaml {
		var err error
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
	}
	version, kind, err := headOf(text)
	if err == nil && kind == "" {
		version, kind = it.version, it.kind
	}
	switch {
	case err != nil:
		return nil, explained(text, err)
	case kind == "":
		return nil, errors.New("it has no kind: want objects of Kubernetes, such as kubectl get -o json prints")
	case isAudit(version, kind):
		return d.event(text)
	}
	f, _, err := d.object(text, version, kind)
	return f, err
}

// explained adds to errSyntax where the syntax of JSON is wrong.
func explained(text []byte, err error) error {
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if !errors.Is(err, errSyntax) || !errors.As(json.Unmarshal(text, &whole), &syntax) {
		return err
	}
	return fmt.Errorf("%d bytes into the object: %w", syntax.Offset, syntax)
}

// object reads an object. It also returns the reduced text, until the next call; nil for an object that is not taken
// in.
func (d *decoder) object(text []byte, version, kind string) (*found, *reduced, error) {
	as, ok := kindsRead[version+" "+kind]
	if !ok {
		return &found{left: kindText(version, kind)}, nil, nil
	}
	r, err := reduce(text, as.resource, d.memory)
	if err == nil {
		d.memory = r.text
	}
	if err != nil {
		return nil, nil, explained(text, err)
	}
	if err := r.check(); err != nil {
		return nil, nil, decodingError(r, kind, err)
	}
	obj, alike := eventlog.NewObject(as.resource), false
	err = json.Unmarshal(r.text, obj)
	if pod, ok := obj.(*corev1.Pod); ok && err == nil {
		alike, err = d.parts.into(pod, r.parts)
	}
	if err != nil {
		return nil, nil, decodingError(r, kind, err)
	}
	f, err := d.logged(obj, as, r, alike)
	if f != nil && as.older {
		f.older = kindText(version, kind)
	}
	return f, r, err
}

// logged returns the object as the log has it. alike says that one with the same amounts was logged before.
func (d *decoder) logged(obj eventlog.Object, as typed, r *reduced, alike bool) (*found, error) {
	kind := eventlog.KindFor(as.resource).Kind
	if obj.GetName() == "" {
		return nil, fmt.Errorf("a %s without a name", kind)
	}
	if eventlog.Namespaced(as.resource) && obj.GetNamespace() == "" {
		return nil, fmt.Errorf("%s %q has no namespace", kind, obj.GetName())
	}
	if as.adapt != nil {
		as.adapt(obj)
	}
	f := &found{name: nameOf(as.resource, obj), uid: obj.GetUID(), newest: newestIn(obj)}
	for _, t := range []time.Time{obj.GetCreationTimestamp().Time, f.newest} {
		if !t.IsZero() && (t.Before(time.Unix(0, 0)) || t.After(time.Unix(0, math.MaxInt64))) {
			return nil, fmt.Errorf("%s %q has the time %s: want one from 1970 to 2262", kind, f.name, t)
		}
	}
	f.version, _ = strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // 0 if it is none
	// It has none in a file written by hand.
	if f.uid == "" {
		f.uid = types.UID(fmt.Sprintf("%s/%s/%s", as.resource, f.Namespace, f.Name))
		obj.SetUID(f.uid)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		if pod.Spec.SchedulerName == "" {
			pod.Spec.SchedulerName = corev1.DefaultSchedulerName // as the API server does
		}
		f.claims = len(pod.Spec.ResourceClaims) > 0
		for i := range pod.Spec.Volumes {
			f.volumes = f.volumes || pod.Spec.Volumes[i].PersistentVolumeClaim != nil
		}
		f.finished = pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		noteAuthors(pod, r.managed)
		f.placing = placingOf(pod)
	}
	up := &eventlog.Upserted{Resource: as.resource, Object: obj}
	pod, _ := obj.(*corev1.Pod)
	if alike && !hasAmounts(pod) {
		var err error
		f.encoding, err = d.encoder.EncodeTrimmed(up)
		f.pod = pod
		return f, err
	}
	logged, encoding, err := d.encoder.Logged(up)
	if err != nil {
		return nil, err
	}
	f.encoding = encoding
	f.pod, _ = logged.Object.(*corev1.Pod)
	return f, nil
}

// hasAmounts reports whether a pod has amounts of resources besides the ones of its containers.
func hasAmounts(pod *corev1.Pod) bool {
	s := &pod.Status
	return pod.Spec.Overhead != nil || pod.Spec.Resources != nil || s.Resources != nil ||
		s.AllocatedResources != nil ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Ephemeral != nil || v.EmptyDir != nil
		})
}

func nameOf(res eventlog.Resource, obj eventlog.Object) name {
	return name{res, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

func kindText(version, kind string) string { return fmt.Sprintf("%s (%s)", kind, version) }

// decodingError names the object, and the member with a wrong type.
func decodingError(r *reduced, kind string, err error) error {
	var head struct {
		Metadata struct{ Name, Namespace string }
	}
	_ = json.Unmarshal(r.text, &head) // what can be found
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		err = fmt.Errorf("its field %s is a %s: want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return fmt.Errorf("%s %q: %w", kind, head.Metadata.Namespace+"/"+head.Metadata.Name, err)
}

// newestIn returns the newest time in an object, of the ones that say when something has happened.
func newestIn(obj eventlog.Object) time.Time {
	newest := obj.GetCreationTimestamp().Time
	see := func(t metav1.Time) {
		if t.After(newest) {
			newest = t.Time
		}
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		for i := range o.Status.Conditions {
			see(o.Status.Conditions[i].LastTransitionTime)
			see(o.Status.Conditions[i].LastProbeTime)
		}
		if o.Status.StartTime != nil {
			see(*o.Status.StartTime)
		}
	case *corev1.Node:
		for i := range o.Status.Conditions {
			see(o.Status.Conditions[i].LastTransitionTime)
			see(o.Status.Conditions[i].LastHeartbeatTime)
		}
	}
	return newest
}

// A Placing says what is known about how a pod came to its node.
type Placing struct {
	// Since is the time, zero if it is not known.
	Since time.Time
	// By is the user or the field manager that bound it; "" if it is not known.
	By string
}

// noteAuthors notes what the managed fields of a pod, as a text, say about it.
func noteAuthors(pod *corev1.Pod, managed []byte) {
	if managed != nil && json.Unmarshal(managed, &pod.ManagedFields) != nil {
		pod.ManagedFields = nil
	}
	eventlog.NoteAuthors(pod)
	pod.ManagedFields = nil
}

// placingOf returns the facts in a pod about its way to its node.
func placingOf(pod *corev1.Pod) (p Placing) {
	if pod.Spec.NodeName == "" {
		return p
	}
	p.By = pod.Annotations[eventlog.BoundByAnnotation]
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			p.Since = c.LastTransitionTime.Time
		}
	}
	return p
}
