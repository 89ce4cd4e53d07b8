package worlds

import (
	"encoding/json"
	"fmt"
	"time"
)

// gang is a gang in the making.
type gang struct {
	name, namespace  string
	minimum, members int
	at               time.Duration
}

const koordinator = "gang.scheduling.koordinator.sh/"

// makeGang adds a gang, named and declared in one of the ways there are.
func (b *builder) makeGang() {
	g := gang{
		name: b.name("gang"), namespace: one(b, "default", "default", "ml"), minimum: one(b, 1, 2, 2, 3, 3, 4, 5, 6),
		at: b.arrival(),
	}
	g.members = g.minimum + one(b, 0, 0, 0, 1, 3)
	if b.has("incomplete") {
		g.members = max(1, g.minimum-1)
	}
	switch b.below(12) {
	case 0, 1, 2:
		b.coreGang(g, "")
	case 3, 4:
		b.extraGang(g)
	case 5:
		b.annotatedGang(g)
	case 6:
		b.kueueGang(g)
	case 7:
		b.volcanoGang(g)
	case 8:
		b.basicGroup(g)
	case 9, 10:
		b.compositeGang(g)
	case 11:
		b.gangsTogether(g)
	}
}

// members adds the pods of a gang. Most gangs are of pods that are alike, some of them as a Job.
func (b *builder) members(g gang, change func(pod object)) {
	if b.chance(35) {
		b.job(g.name, g.namespace, g.at, g.members, g.members, change)
		return
	}
	alike := b.chance(60)
	priority := b.pod(g.name, g.namespace)
	for k := range g.members {
		pod := clone(priority)
		if !alike {
			pod = b.pod(g.name, g.namespace)
			samePriority(pod, priority)
		}
		into(pod, "metadata")["name"] = fmt.Sprintf("%s-%d", g.name, k)
		if b.has("contradiction") {
			into(pod, "spec")["priorityClassName"] = "high"
			delete(into(pod, "spec"), "priority")
			if b.recorded {
				into(pod, "spec")["priority"] = 1000
			}
		}
		change(pod)
		at := g.at
		if b.chance(15) {
			at += time.Duration(b.between(1, 6)) * 10 * time.Second
		}
		b.arrive(pod, at)
		b.add(pod)
	}
}

// samePriority gives a pod the priority and the scheduler of another: members that differ in them are refused.
func samePriority(pod, other object) {
	for _, field := range []string{"priorityClassName", "priority", "schedulerName"} {
		delete(into(pod, "spec"), field)
		if value := into(other, "spec")[field]; value != nil {
			into(pod, "spec")[field] = value
		}
	}
}

// coreGang adds a PodGroup of scheduling.k8s.io with its pods.
func (b *builder) coreGang(g gang, parent string) {
	spec := object{"schedulingPolicy": object{"gang": object{"minCount": g.minimum}}}
	group := object{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
		"metadata": object{"name": g.name, "namespace": g.namespace}, "spec": spec,
	}
	if parent == "" && b.has("gangPriority") {
		spec["priority"] = one(b, 0, 50, 500)
	}
	if b.has("whole") {
		spec["disruptionMode"] = object{"all": object{}}
	}
	if b.has("never") {
		spec["preemptionPolicy"] = one(b, "Never", "PreemptLowerPriority")
	}
	if parent != "" {
		spec["parentCompositePodGroupName"] = parent
	}
	if parent == "" && b.has("topology") && b.chance(50) {
		spec["schedulingConstraints"] = object{"topology": list{object{"key": one(b, zone, rack)}}}
	} else {
		b.annotateGang(group)
	}
	b.arrive(group, b.near(g.at))
	b.add(group)
	b.members(g, inGroup(g))
}

// inGroup names the gang of a pod in its own field.
func inGroup(g gang) func(pod object) {
	return func(pod object) { into(pod, "spec")["schedulingGroup"] = object{"podGroupName": g.name} }
}

// labelled names the gang of a pod by a label.
func labelled(label string, g gang) func(pod object) {
	return func(pod object) { into(into(pod, "metadata"), "labels")[label] = g.name }
}

// near is the time at which a gang's object comes: mostly with its pods.
func (b *builder) near(at time.Duration) time.Duration {
	return at + one(b, 0, 0, 0, 0, time.Duration(b.below(4))*10*time.Second)
}

// annotateGang adds Rollcall's own annotations to the object of a gang.
func (b *builder) annotateGang(group object) {
	if b.has("topology") {
		annotate(group, "rollcall.dev/topology-required", one(b, zone, rack, zone+","+rack))
	}
	if b.has("preferred") {
		annotate(group, "rollcall.dev/topology-preferred", one(b, zone, rack))
	}
	if b.has("evict") {
		annotate(group, "rollcall.dev/below-minimum", one(b, "Evict", "Evict", "Keep"))
	}
}

// extraGang adds a PodGroup of scheduling.x-k8s.io with its pods, which name it by its label or in Koordinator's ways.
func (b *builder) extraGang(g gang) {
	spec := object{"minMember": g.minimum}
	if b.has("minResources") {
		spec["minResources"] = object{"cpu": fmt.Sprint(b.between(1, 8))}
	}
	if b.has("timeout") {
		spec["scheduleTimeoutSeconds"] = one(b, 5, 20, 120)
	}
	group := object{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": object{"name": g.name, "namespace": g.namespace}, "spec": spec,
	}
	b.annotateGang(group)
	if b.has("nonStrict") {
		annotate(group, koordinator+"mode", "NonStrict")
	}
	if b.chance(20) {
		annotate(group, koordinator+"match-policy", one(b, "only-waiting", "once-satisfied", "waiting-and-running"))
	}
	b.arrive(group, b.near(g.at))
	b.add(group)
	b.members(g, labelled(one(b, "scheduling.x-k8s.io/pod-group", "scheduling.x-k8s.io/pod-group",
		"pod-group.scheduling.sigs.k8s.io"), g))
}

// annotatedGang adds pods that name and declare their gang by Koordinator's annotations.
func (b *builder) annotatedGang(g gang) {
	annotations := map[string]string{koordinator + "name": g.name, koordinator + "min-available": fmt.Sprint(g.minimum)}
	if b.has("nonStrict") {
		annotations[koordinator+"mode"] = "NonStrict"
	}
	if b.has("timeout") {
		annotations[koordinator+"waiting-time"] = one(b, "10s", "45s")
	}
	if b.chance(30) {
		annotations[koordinator+"total-number"] = fmt.Sprint(max(g.minimum, g.members))
	}
	if b.has("topology") {
		annotations["rollcall.dev/topology-required"] = one(b, zone, rack)
	}
	if b.has("evict") {
		annotations["rollcall.dev/below-minimum"] = "Evict"
	}
	b.members(g, func(pod object) {
		for key, value := range annotations {
			annotate(pod, key, value)
		}
	})
}

// kueueGang adds pods that name and declare their gang in Kueue's words.
func (b *builder) kueueGang(g gang) {
	g.members = max(g.members, g.minimum)
	b.members(g, func(pod object) {
		labelled("kueue.x-k8s.io/pod-group-name", g)(pod)
		annotate(pod, "kueue.x-k8s.io/pod-group-total-count", fmt.Sprint(g.minimum))
	})
}

// volcanoGang adds pods that name and declare their gang in Volcano's words.
func (b *builder) volcanoGang(g gang) {
	b.members(g, func(pod object) {
		annotate(pod, "scheduling.k8s.io/group-name", g.name)
		annotate(pod, "scheduling.volcano.sh/group-min-member", fmt.Sprint(g.minimum))
	})
}

// basicGroup adds a PodGroup whose pods are placed one by one.
func (b *builder) basicGroup(g gang) {
	group := object{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
		"metadata": object{"name": g.name, "namespace": g.namespace},
		"spec":     object{"schedulingPolicy": object{"basic": object{}}},
	}
	b.arrive(group, b.near(g.at))
	b.add(group)
	b.members(g, inGroup(g))
}

// compositeGang adds a CompositePodGroup with two or three gangs below it.
func (b *builder) compositeGang(g gang) {
	name := b.name("composite")
	count := b.between(2, 3)
	spec := object{"schedulingPolicy": object{"gang": object{"minGroupCount": b.between(1, count)}}}
	if b.style["priority"] > 0 || b.has("gangPriority") {
		spec["priority"] = one(b, 0, 50, 500)
	}
	if b.has("whole") {
		spec["disruptionMode"] = object{"all": object{}}
	}
	composite := object{
		"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
		"metadata": object{"name": name, "namespace": g.namespace}, "spec": spec,
	}
	b.arrive(composite, b.near(g.at))
	b.add(composite)
	for range count {
		g.name, g.minimum = b.name("gang"), b.between(1, 3)
		g.members = g.minimum + b.below(2)
		b.coreGang(g, name)
	}
}

// gangsTogether adds two gangs that are admitted together, as Koordinator has it.
func (b *builder) gangsTogether(g gang) {
	other := g
	other.name = b.name("gang")
	other.minimum = b.between(1, 3)
	other.members = other.minimum
	names, err := json.Marshal([]string{g.namespace + "/" + g.name, g.namespace + "/" + other.name})
	if err != nil {
		panic(fmt.Sprintf("two names are no JSON: %v", err))
	}
	for _, g := range []gang{g, other} {
		group := object{
			"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
			"metadata": object{"name": g.name, "namespace": g.namespace}, "spec": object{"minMember": g.minimum},
		}
		annotate(group, koordinator+"groups", string(names))
		b.arrive(group, b.near(g.at))
		b.add(group)
		b.members(g, labelled("scheduling.x-k8s.io/pod-group", g))
	}
}
