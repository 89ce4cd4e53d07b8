package worlds

import (
	"fmt"
	"time"
)

// makeSomething adds a pod, a Job or a gang.
func (b *builder) makeSomething() {
	switch n := b.below(100); {
	case n < 35:
		b.makePod()
	case n < 43:
		b.makeJob()
	case n < 50 && !b.recorded:
		b.makeReplicas()
	default:
		b.makeGang()
	}
}

// makePod adds a pod of no gang.
func (b *builder) makePod() {
	pod := b.pod(b.name("pod"), one(b, "default", "default", "ml"))
	b.arrive(pod, b.arrival())
	b.add(pod)
}

// add adds an object to the workload; a pod is counted.
func (b *builder) add(o object) {
	b.objects = append(b.objects, o)
	if o["kind"] == "Pod" {
		b.pods++
	}
}

// arrive says when an object comes.
func (b *builder) arrive(o object, at time.Duration) {
	if at > 0 {
		annotate(o, "rollcall.dev/arrival", at.String())
	}
}

// pod makes a pod with whatever this world's style has.
func (b *builder) pod(name, namespace string) object {
	pod := object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{"name": name, "namespace": namespace, "labels": object{"app": one(b, "a", "b", "c")}},
		"spec":     b.podSpec(namespace),
	}
	if !b.has("forever") {
		annotate(pod, "rollcall.dev/duration", b.length().String())
	}
	return pod
}

// podSpec makes a pod's requests.
func (b *builder) podSpec(namespace string) object {
	requests := object{}
	for key, value := range one(b, b.shapes...) {
		requests[key] = value
	}
	resources := object{"requests": requests}
	if b.hasGPU && b.chance(30) {
		requests["example.com/gpu"] = one(b, "1", "2")
		resources["limits"] = object{"example.com/gpu": requests["example.com/gpu"]}
	}
	main := object{"name": "main", "image": "example.com/main", "resources": resources}
	spec := object{"containers": list{main}, "restartPolicy": "Never"}
	if name := one(b, b.profiles...); name != "default-scheduler" {
		spec["schedulerName"] = name
	}
	if b.has("ports") {
		port := object{"hostPort": b.between(8000, 8002), "containerPort": 80, "protocol": one(b, "TCP", "TCP", "UDP")}
		if b.chance(30) {
			port["hostIP"] = one(b, "10.0.0.1", "10.0.0.2")
		}
		main["ports"] = list{port}
	}
	b.addContainers(spec)
	b.addPlacement(spec)
	b.addNeighbours(spec)
	b.addImportance(spec)
	if b.has("gates") {
		spec["schedulingGates"] = list{object{"name": "example.com/gate"}}
	}
	if b.has("deadline") {
		spec["activeDeadlineSeconds"] = b.between(1, 12) * 10
	}
	if namespace == "default" && len(b.claims) > 0 && b.has("volumes") {
		claim := one(b, b.claims...)
		spec["volumes"] = list{object{"name": "data", "persistentVolumeClaim": object{"claimName": claim}}}
	}
	b.addDevices(spec, namespace)
	return spec
}

// addContainers adds init containers, sidecars and overhead.
func (b *builder) addContainers(spec object) {
	var first list
	container := func(name, cpu string) object {
		return object{"name": name, "image": "example.com/" + name, "resources": object{"requests": object{"cpu": cpu}}}
	}
	if b.has("sidecar") {
		c := container("proxy", "250m")
		c["restartPolicy"] = "Always"
		first = append(first, c)
	}
	if b.has("init") {
		first = append(first, container("init", one(b, "200m", "2", "2500m")))
	}
	if first != nil {
		spec["initContainers"] = first
	}
	if b.has("overhead") {
		spec["overhead"] = object{"cpu": "100m", "memory": "32Mi"}
	}
}

// addPlacement adds the pod's requirements on its node.
func (b *builder) addPlacement(spec object) {
	if b.has("nodeSelector") {
		spec["nodeSelector"] = one(b, object{"disk": "ssd"}, object{zone: "a"}, object{zone: "b"},
			object{"disk": "hdd"})
	}
	if b.has("nodeAffinity") {
		requirement := one(b,
			object{"key": zone, "operator": "In", "values": list{"a", "c"}},
			object{"key": "disk", "operator": "NotIn", "values": list{"hdd"}},
			object{"key": "disk", "operator": "Exists"},
			object{"key": rack, "operator": "DoesNotExist"},
			object{"key": "number", "operator": "Gt", "values": list{"2"}},
			object{"key": "number", "operator": "Lt", "values": list{"3"}},
		)
		terms := list{object{"matchExpressions": list{requirement}}}
		if b.chance(20) {
			field := object{"key": "metadata.name", "operator": "In", "values": list{"node-01"}}
			terms = append(terms, object{"matchFields": list{field}})
		}
		affinity := into(into(spec, "affinity"), "nodeAffinity")
		affinity["requiredDuringSchedulingIgnoredDuringExecution"] = object{"nodeSelectorTerms": terms}
	}
	if b.has("tolerations") {
		spec["tolerations"] = one(b,
			list{object{"key": "dedicated", "operator": "Exists"}},
			list{object{"key": "dedicated", "operator": "Equal", "value": "a", "effect": "NoSchedule"}},
			list{object{"operator": "Exists"}},
			list{object{"key": "spot", "operator": "Exists", "effect": "NoExecute"}},
		)
	}
}

// addNeighbours adds the pod's requirements on other pods.
func (b *builder) addNeighbours(spec object) {
	term := func() object {
		return object{
			"labelSelector": object{"matchLabels": object{"app": one(b, "a", "b", "c")}},
			"topologyKey":   one(b, zone, rack, hostname),
		}
	}
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	if b.has("podAffinity") {
		into(into(spec, "affinity"), "podAffinity")[required] = list{term()}
	}
	if b.has("podAntiAffinity") {
		into(into(spec, "affinity"), "podAntiAffinity")[required] = list{term()}
	}
	if b.has("spread") {
		constraint := object{
			"maxSkew": b.between(1, 2), "topologyKey": one(b, zone, rack, hostname),
			"whenUnsatisfiable": one(b, "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"),
			"labelSelector":     object{"matchLabels": object{"app": one(b, "a", "b")}},
		}
		if constraint["whenUnsatisfiable"] == "DoNotSchedule" && b.chance(30) {
			constraint["minDomains"] = b.between(1, 3)
		}
		if b.chance(30) {
			constraint["nodeTaintsPolicy"] = "Honor"
		}
		if b.chance(20) {
			constraint["nodeAffinityPolicy"] = "Ignore"
		}
		spec["topologySpreadConstraints"] = list{constraint}
	}
}

// addImportance adds a priority.
func (b *builder) addImportance(spec object) {
	if b.has("priority") {
		class := one(b, b.classes...)
		spec["priorityClassName"] = class.name
		if b.recorded {
			spec["priority"] = class.value
		}
	}
	if b.has("never") {
		spec["preemptionPolicy"] = "Never"
	}
}

// makeJob adds a Job of no gang.
func (b *builder) makeJob() {
	parallelism := b.between(1, 4)
	b.job(b.name("job"), one(b, "default", "ml"), b.arrival(), parallelism, parallelism+b.below(4), func(object) {})
}

// makeReplicas adds an object of which replicas are made.
func (b *builder) makeReplicas() {
	kind := one(b, "ReplicaSet", "Deployment", "StatefulSet")
	name, namespace, replicas := b.name("replicas"), one(b, "default", "ml"), b.between(1, 4)
	template := b.pod(name, namespace)
	spec := into(template, "spec")
	spec["restartPolicy"] = "Always"
	delete(spec, "activeDeadlineSeconds") // which the API allows in pods of Jobs only
	metadata := into(template, "metadata")
	delete(metadata, "name")
	delete(metadata, "namespace")
	into(metadata, "labels")["set"] = name
	o := object{
		"apiVersion": "apps/v1", "kind": kind, "metadata": object{"name": name, "namespace": namespace},
		"spec": object{
			"replicas": replicas, "selector": object{"matchLabels": object{"set": name}},
			"template": object{"metadata": metadata, "spec": spec},
		},
	}
	if kind == "StatefulSet" {
		into(o, "spec")["serviceName"] = name
	}
	b.arrive(o, b.arrival())
	b.add(o)
	b.pods += replicas
}

// job adds a Job; in a recorded world, which has none, its pods. change changes the pods' template.
func (b *builder) job(name, namespace string, at time.Duration, parallelism, completions int, change func(pod object)) {
	template := b.pod(name, namespace)
	change(template)
	if b.recorded {
		for k := range completions {
			pod := clone(template)
			into(pod, "metadata")["name"] = fmt.Sprintf("%s-%d", name, k)
			b.arrive(pod, at)
			b.add(pod)
		}
		return
	}
	metadata := into(template, "metadata")
	delete(metadata, "name")
	delete(metadata, "namespace")
	job := object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": name, "namespace": namespace},
		"spec": object{
			"parallelism": parallelism, "completions": completions,
			"template": object{"metadata": metadata, "spec": template["spec"]},
		},
	}
	b.arrive(job, at)
	b.add(job)
	b.pods += completions
}

// clone makes a deep copy of an object.
func clone(o object) object {
	out := object{}
	for key, value := range o {
		if inner, ok := value.(object); ok {
			value = clone(inner)
		}
		out[key] = value
	}
	return out
}
