package eventlog_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/randfill"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// text draws what a string of an entry may hold.
var text = rapid.OneOf(
	rapid.StringN(-1, 12, 40),
	rapid.SampledFrom([]string{"", "n1", "nvidia.com/gpu", "\x00\n\"\\\u2028<&>é"}),
)

func uids(t *rapid.T, label string) []types.UID {
	var list []types.UID
	for _, s := range rapid.SliceOfN(text, 0, 4).Draw(t, label) {
		list = append(list, types.UID(s))
	}
	return list
}

func strs(t *rapid.T, label string) []string {
	list := rapid.SliceOfN(text, 0, 3).Draw(t, label)
	if len(list) == 0 {
		return nil
	}
	return list
}

func drawDecision(t *rapid.T) *eventlog.Decision {
	d := &eventlog.Decision{
		Cycle:     rapid.Uint64().Draw(t, "cycle"),
		Namespace: strings.ReplaceAll(text.Draw(t, "namespace"), "/", "-"),
		Name:      text.Draw(t, "name"),
		UID:       types.UID(text.Draw(t, "uid")),
		Group:     text.Draw(t, "group"),
		Outcome:   eventlog.Outcome(rapid.IntRange(1, 7).Draw(t, "outcome")),
		Node:      text.Draw(t, "node"),
		Score: rapid.Int64().
			Draw(t, "score"),
		Evaluated: rapid.Int64().Draw(t, "evaluated"),
		Feasible:  rapid.Int64().Draw(t, "feasible"),
		WaitFor: strs(
			t,
			"waitFor",
		),
		Allowed:  uids(t, "allowed"),
		Rejected: uids(t, "rejected"),
		Victims:  uids(t, "victims"),
		Nominated: text.Draw(
			t,
			"nominated",
		),
		WaitUntil: eventlog.Time(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "waitUntil")),
	}
	for range rapid.IntRange(0, 3).Draw(t, "rejections") {
		d.Rejections = append(
			d.Rejections,
			eventlog.Rejection{Plugin: text.Draw(t, "plugin"), Code: text.Draw(t, "code"),
				Reason: text.Draw(t, "reason"), Nodes: rapid.Int64().Draw(t, "nodes")},
		)
	}
	for range rapid.IntRange(0, 2).Draw(t, "activated") {
		d.Activated = append(d.Activated, types.UID(text.Draw(t, "uid")))
	}
	for range rapid.IntRange(0, 2).Draw(t, "devices") {
		d.Devices = append(d.Devices, drawDevices(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "questions") {
		q := eventlog.Question{AllBut: rapid.Bool().Draw(t, "all but")}
		for range rapid.IntRange(0, 2).Draw(t, "pods") {
			q.UIDs = append(q.UIDs, types.UID(text.Draw(t, "uid")))
		}
		for range rapid.IntRange(0, 2).Draw(t, "nodes") {
			q.Nodes = append(q.Nodes, text.Draw(t, "node"))
		}
		q.Candidates = drawCandidates(t)
		d.Questions = append(d.Questions, q)
	}
	for range rapid.IntRange(0, 2).Draw(t, "approvals") {
		d.Approvals = append(
			d.Approvals,
			eventlog.Approval{UID: types.UID(text.Draw(t, "uid")), Plugin: text.Draw(t, "plugin")},
		)
	}
	for range rapid.IntRange(0, 2).Draw(t, "volumes") {
		d.Volumes = append(
			d.Volumes,
			eventlog.VolumeClaim{Claim: text.Draw(t, "claim"), Volume: text.Draw(t, "volume")},
		)
	}
	for range rapid.IntRange(0, 2).Draw(t, "places") {
		d.Places = append(d.Places, eventlog.Place{UID: types.UID(text.Draw(t, "uid")), Node: text.Draw(t, "node")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "nominations") {
		d.Nominations = append(
			d.Nominations,
			eventlog.Nomination{UID: types.UID(text.Draw(t, "uid")), Node: text.Draw(t, "node")},
		)
	}
	if rapid.Bool().Draw(t, "facts") {
		d.Domain, d.Elsewhere = text.Draw(t, "domain"), rapid.Bool().Draw(t, "elsewhere")
		d.Ended = eventlog.Ending(rapid.IntRange(0, 3).Draw(t, "ended"))
	}
	if len(d.Questions) == 0 && rapid.Bool().Draw(t, "plan") {
		d.Plan = drawPlan(t)
	}
	return d
}

func drawPlan(t *rapid.T) eventlog.Plan {
	p := eventlog.Plan{Result: eventlog.PlanResult(rapid.IntRange(1, 3).Draw(t, "result")),
		Steps: rapid.Int64().Draw(t, "steps")}
	for range rapid.IntRange(0, 2).Draw(t, "order") {
		p.Order = append(p.Order, types.UID(text.Draw(t, "uid")))
	}
	if p.Result == eventlog.PlanUnknown {
		p.Next = rapid.IntRange(0, 255).Draw(t, "next")
	}
	return p
}

func drawDevices(t *rapid.T) eventlog.DeviceClaim {
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{}}}
	claim.Name, claim.UID = text.Draw(t, "claim"), types.UID(text.Draw(t, "uid"))
	for range rapid.IntRange(0, 3).Draw(t, "results") {
		r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "d", Pool: "p", Device: "gpu"}
		if rapid.Bool().Draw(t, "shared") {
			id := types.UID("share")
			r.ShareID, r.ConsumedCapacity = &id, map[resourcev1.QualifiedName]resource.Quantity{
				"memory": resource.MustParse("1Gi"), "cores": resource.MustParse("1500m"),
			}
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, r)
	}
	if rapid.Bool().Draw(t, "made") {
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: text.Draw(t, "request"),
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 2}}}
		devices, err := eventlog.NewMadeClaim(claim)
		if err != nil {
			t.Fatal(err)
		}
		return devices
	}
	devices, err := eventlog.NewDeviceClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

func drawPayload(t *rapid.T) eventlog.Payload {
	resources := rapid.SampledFrom(eventlog.Resources())
	switch eventlog.Kind(rapid.IntRange(1, 9).Draw(t, "kind")) {
	case eventlog.KindEpochStarted:
		p := &eventlog.EpochStarted{ID: text.Draw(t, "id"), Version: text.Draw(t, "version"),
			Format: rapid.Uint32().Draw(t, "format"), Behaviour: rapid.Uint32().Draw(t, "behaviour"),
			Seed: rapid.Uint64().Draw(t, "seed")}
		if config := rapid.SampledFrom([]string{"", "{}", `{"kind":"KubeSchedulerConfiguration","n":[1,2.50,null]}`}).
			Draw(t, "config"); config != "" {
			p.Config = []byte(config)
		}
		return p
	case eventlog.KindUpserted:
		res := resources.Draw(t, "resource")
		return &eventlog.Upserted{Resource: res, Object: randomObject(res, rapid.Int64().Draw(t, "object"))}
	case eventlog.KindDeleted:
		return &eventlog.Deleted{Resource: resources.Draw(t, "resource"), Namespace: text.Draw(t, "namespace"),
			Name: text.Draw(t, "name"), UID: types.UID(text.Draw(t, "uid"))}
	case eventlog.KindTick:
		return &eventlog.Tick{}
	case eventlog.KindDecision:
		return drawDecision(t)
	case eventlog.KindExtenderResult:
		return drawExtenderResult(t)
	case eventlog.KindWatched:
		return drawWatched(t)
	case eventlog.KindEvictResult:
		p := &eventlog.EvictResult{UID: types.UID(text.Draw(t, "uid")), Message: text.Draw(t, "message"),
			Outcome:  eventlog.EvictOutcome(rapid.IntRange(1, 5).Draw(t, "outcome")),
			Decision: rapid.Uint64Min(1).Draw(t, "decision")}
		if p.Outcome == eventlog.EvictRefused {
			p.RetryAfter = time.Duration(rapid.Int64Range(1, int64(eventlog.MaxRetryAfter)).Draw(t, "retryAfter"))
		}
		return p
	}
	p := &eventlog.BindResult{UID: types.UID(text.Draw(t, "uid")), Node: text.Draw(t, "node"),
		Outcome: eventlog.BindOutcome(rapid.IntRange(1, 4).Draw(t, "outcome")), Message: text.Draw(t, "message"),
		Decision: rapid.Uint64().Draw(t, "decision")}
	if p.Outcome == eventlog.BindFailed && p.Decision > 0 {
		if p.Plugin = text.Draw(t, "plugin"); p.Plugin != "" {
			p.Code = rapid.SampledFrom([]string{"Unschedulable", "UnschedulableAndUnresolvable", "Pending", "Error"}).
				Draw(t, "code")
		}
	}
	return p
}

func drawEntry(t *rapid.T) eventlog.Entry {
	return eventlog.Entry{
		Seq: max(1, rapid.Uint64().Draw(t, "seq")), Epoch: rapid.Uint64().Draw(t, "epoch"),
		Time:    eventlog.Time(rapid.Int64Range(-1<<62, 1<<62).Draw(t, "time")),
		Settled: rapid.Bool().Draw(t, "settled"), Payload: drawPayload(t),
	}
}

// randomObject fills an object of the resource with anything in every field.
func randomObject(res eventlog.Resource, seed int64) eventlog.Object {
	obj := eventlog.NewObject(res)
	filler(seed, func(c randfill.Continue) string {
		return fmt.Sprintf("%s-%d", []string{"a", "b/c", "é<&>", "1e5", ""}[c.Intn(5)], c.Intn(100))
	}).Fill(obj)
	return obj
}

// fullObject fills every field of an object of the resource, each string with a marker of its own:
// "marker-" and a number.
func fullObject(res eventlog.Resource) eventlog.Object {
	obj := eventlog.NewObject(res)
	markers := 0
	fillAll(obj, func() string { markers++; return fmt.Sprintf("marker-%d-", markers) })
	return obj
}

// fillAll fills every field of an object, texts with the results of next.
func fillAll(obj eventlog.Object, next func() string) { fill(reflect.ValueOf(obj).Elem(), next) }

func fill(v reflect.Value, next func() string) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *resource.Quantity:
		*p = resource.MustParse("7")
		return
	case *metav1.Time:
		*p = metav1.Unix(1_700_000_000, 0)
		return
	case *intstr.IntOrString:
		*p = intstr.FromString(next())
		return
	case *runtime.RawExtension:
		p.Raw = fmt.Appendf(nil, `{"secret":%q}`, next())
		return
	case *metav1.FieldsV1:
		p.SetRawString(fmt.Sprintf(`{%q:{}}`, "f:"+next()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(next())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint('x')
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, next)
		fill(value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	default:
		panic(fmt.Sprintf("no filling for %s", v.Type()))
	}
}

// filler fills with values that the API's forms can carry: no apiVersion and kind, whole seconds, quantities that are
// numbers, one of an IntOrString's two.
func filler(seed int64, str func(randfill.Continue) string) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 2).MaxDepth(20).Funcs(
		func(s *string, c randfill.Continue) { *s = str(c) },
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<33), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.MicroTime{Time: metav1.Unix(c.Int63n(1<<33), 0).Time}
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1<<40), []resource.Format{resource.DecimalSI, resource.BinarySI,
				resource.DecimalExponent}[c.Intn(3)])
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if *v = intstr.FromInt32(c.Int31()); c.Bool() {
				*v = intstr.FromString("20%")
			}
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(`{"secret":"` + str(c) + `"}`) },
		func(f *metav1.FieldsV1, c randfill.Continue) {
			f.SetRawString(fmt.Sprintf(`{"f:marker-%d":{}}`, c.Intn(100)))
		},
	)
}

// pod is a pod of a usual size.
func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "training",
			Name:              name,
			UID:               types.UID("0d3b5c1e-0f5a-4d8e-9a51-" + name),
			CreationTimestamp: metav1.Unix(1_700_000_000, 0),
			Labels: map[string]string{
				"app":                           "train",
				"job-name":                      "llm",
				"scheduling.x-k8s.io/pod-group": "llm",
			},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "rollcall", RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector: map[string]string{"gpu": "h100"},
			Tolerations:  []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{
				{
					Name:  "main",
					Image: "registry.example/train:1",
					Env:   []corev1.EnvVar{{Name: "TOKEN", Value: "hunter2"}},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{
							"cpu":            resource.MustParse("12"),
							"memory":         resource.MustParse("64Gi"),
							"nvidia.com/gpu": resource.MustParse("1"),
						},
					},
				},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// hasWideMap is whether a value holds a map of more than one element anywhere.
func hasWideMap(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map:
		return v.Len() > 1
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasWideMap(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if hasWideMap(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if hasWideMap(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

func drawExtenderResult(t *rapid.T) *eventlog.ExtenderResult {
	p := &eventlog.ExtenderResult{UID: types.UID(text.Draw(t, "uid")), Decision: rapid.Uint64Min(1).Draw(t, "decision")}
	for range rapid.IntRange(0, 2).Draw(t, "answers") {
		a := eventlog.ExtenderAnswer{Extender: rapid.Uint32().Draw(t, "extender"), Name: text.Draw(t, "name"),
			FilterError: text.Draw(t, "filterError"), PrioritizeError: text.Draw(t, "prioritizeError")}
		for range rapid.IntRange(0, 2).Draw(t, "refused") {
			if a.FilterError == "" {
				a.Refused = append(a.Refused, eventlog.ExtenderRefusal{
					Reason: text.Draw(t, "reason"), Nodes: []string{"n", "m"},
					Code: rapid.SampledFrom([]string{"Unschedulable", "UnschedulableAndUnresolvable"}).Draw(t, "code")})
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "scores") {
			if a.PrioritizeError == "" {
				a.Scores = append(a.Scores, eventlog.ExtenderScore{Node: text.Draw(t, "node"),
					Score: rapid.Int64Range(1, eventlog.MaxExtenderScore).Draw(t, "score")})
			}
		}
		if a.PreemptError = text.Draw(t, "preemptError"); a.PreemptError == "" {
			a.Candidates = drawCandidates(t)
		}
		p.Answers = append(p.Answers, a)
	}
	return p
}

func drawCandidates(t *rapid.T) (list []eventlog.Candidate) {
	for range rapid.IntRange(0, 2).Draw(t, "candidates") {
		c := eventlog.Candidate{Node: text.Draw(t, "node"), Violations: rapid.Int64Min(0).Draw(t, "violations")}
		for range rapid.IntRange(0, 2).Draw(t, "victims") {
			c.Victims = append(c.Victims, types.UID(text.Draw(t, "uid")))
		}
		list = append(list, c)
	}
	return list
}

func drawWatched(t *rapid.T) *eventlog.Watched {
	p := &eventlog.Watched{Full: rapid.Bool().Draw(t, "full")}
	names := slices.Sorted(slices.Values(eventlog.Resources()))
	for _, res := range names {
		switch rapid.IntRange(0, 2).Draw(t, "of "+string(res)) {
		case 1:
			p.Positions = append(p.Positions, eventlog.Position{Resource: res, Version: "1" + text.Draw(t, "version")})
		case 2:
			since := eventlog.Time(rapid.Int64().Draw(t, "since"))
			p.Missing = append(p.Missing,
				eventlog.Missing{Resource: res, Since: since, Reason: text.Draw(t, "reason")})
		}
	}
	if len(p.Positions)+len(p.Missing) == 0 {
		p.Positions = []eventlog.Position{{Resource: eventlog.Pods, Version: "7"}}
	}
	return p
}
