package worlds

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The topology labels that nodes have, mostly.
const (
	zone     = "topology.kubernetes.io/zone"
	rack     = "rack"
	hostname = "kubernetes.io/hostname"
)

// makeNodes makes the nodes: few, small, and mostly alike.
func (b *builder) makeNodes() {
	n := one(b, b.between(2, 4), b.between(3, 8), b.between(6, 12), b.between(10, 30))
	b.hasGPU = b.chance(30)
	cpus := []string{one(b, "2", "4", "8"), one(b, "3", "4", "7500m")}
	memories := []string{one(b, "4Gi", "8Gi"), one(b, "6Gi", "16G")}
	pods := one(b, "110", "110", fmt.Sprint(b.between(2, 6)))
	zones := one(b, 1, 2, 3)
	for i := range n {
		allocatable := object{"cpu": one(b, cpus...), "memory": one(b, memories...), "pods": pods}
		if b.hasGPU && b.chance(60) {
			allocatable["example.com/gpu"] = one(b, "1", "2", "4")
		}
		name := fmt.Sprintf("node-%02d", i)
		labels := object{hostname: name, "number": fmt.Sprint(i)}
		if b.chance(90) {
			labels[zone] = string(rune('a' + i%zones))
		}
		if b.chance(80) {
			labels[rack] = fmt.Sprintf("r%d", i%(zones*2))
		}
		if b.chance(50) {
			labels["disk"] = one(b, "ssd", "hdd")
		}
		node := object{
			"apiVersion": "v1", "kind": "Node", "metadata": object{"name": name, "labels": labels},
			"status": object{"allocatable": allocatable},
		}
		if b.chance(20) {
			taint := object{"key": one(b, "dedicated", "spot"), "value": one(b, "a", "b"), "effect": one(b,
				"NoSchedule",
				"NoSchedule", "PreferNoSchedule", "NoExecute")}
			into(node, "spec")["taints"] = list{taint}
		}
		if b.chance(5) {
			into(node, "spec")["unschedulable"] = true
		}
		b.planNode(node, i)
		b.nodes = append(b.nodes, node)
	}
}

// planNode sets when a node joins, fails and is cordoned. The first node always exists.
func (b *builder) planNode(node object, i int) {
	joins := time.Duration(0)
	if i > 0 && b.chance(15) {
		joins = time.Duration(b.between(1, 20)) * 10 * time.Second
		annotate(node, "rollcall.dev/joins", joins.String())
	}
	later := func() time.Duration { return joins + time.Duration(b.between(1, 25))*10*time.Second }
	if i > 0 && b.chance(20) {
		annotate(node, "rollcall.dev/fails", later().String())
	}
	if b.chance(15) {
		at := later()
		annotate(node, "rollcall.dev/cordoned", at.String())
		if b.chance(70) {
			annotate(node, "rollcall.dev/uncordoned", (at + time.Duration(b.between(1, 10))*10*time.Second).String())
		}
	}
}

// troubleNodes gives some nodes an outage, or a drain, and some pods less patience than 300 s. Some of these tolerate
// to come to such a node. It has random numbers of its own, so that the rest of a world is as without it.
func troubleNodes(nodes, objects []object, random *rand.Rand) {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	if !chance(70) {
		return
	}
	seconds := func(low, high int) time.Duration {
		return time.Duration(low+random.IntN(high-low+1)) * 10 * time.Second
	}
	endless := false
	for _, node := range nodes {
		joins, fails := planned(node, "joins"), planned(node, "fails")
		from := joins + seconds(1, 20)
		until := from + seconds(1, 40)
		if fails != 0 && until >= fails {
			continue
		}
		period := from.String() + ".." + until.String()
		if fails == 0 && chance(20) {
			period, endless = from.String()+"..", true
		}
		switch {
		case chance(30):
			annotate(node, "rollcall.dev/unreachable", period)
		case chance(30):
			annotate(node, "rollcall.dev/not-ready", period)
		case chance(20):
			annotate(node, "rollcall.dev/drained", from.String())
		}
		if fails != 0 && chance(40) {
			annotate(node, "rollcall.dev/returns", (fails + seconds(1, 10)).String())
		}
	}
	for _, o := range objects {
		spec := podSpecOf(o)
		if spec == nil || !chance(60) {
			continue
		}
		// A pod that tolerates NoSchedule too may come again to the node that has evicted it. It must come to an end.
		back := !endless && chance(50)
		tolerations, _ := spec["tolerations"].(list)
		for _, key := range []string{"unreachable", "not-ready"} {
			tolerates := func(effect string) object {
				return object{"key": "node.kubernetes.io/" + key, "operator": "Exists", "effect": effect}
			}
			seconds := tolerates("NoExecute")
			seconds["tolerationSeconds"] = 10 * random.IntN(6)
			if back {
				seconds["tolerationSeconds"] = 10 * (1 + random.IntN(5))
				tolerations = append(tolerations, tolerates("NoSchedule"))
			}
			tolerations = append(tolerations, seconds)
		}
		spec["tolerations"] = tolerations
	}
}

// podSpecOf returns the specification of a pod, or of the template of an object with one; nil without any.
func podSpecOf(o object) object {
	switch o["kind"] {
	case "Pod":
		return into(o, "spec")
	case "Job", "ReplicaSet", "Deployment", "StatefulSet":
		return into(into(into(o, "spec"), "template"), "spec")
	}
	return nil
}

// planned returns the offset in an annotation of ours, 0 without it.
func planned(o object, key string) time.Duration {
	text, _ := into(into(o, "metadata"), "annotations")["rollcall.dev/"+key].(string)
	if text == "" {
		return 0
	}
	at, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("annotation %s: %v", key, err))
	}
	return at
}

// makeStorage makes storage classes, and volumes and claims of them.
func (b *builder) makeStorage() {
	if b.style["volumes"] == 0 {
		return
	}
	local := object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": object{"name": "local"},
		"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
	}
	csi := object{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": object{"name": "csi"},
		"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
	}
	if b.chance(40) {
		term := object{"matchLabelExpressions": list{object{"key": zone, "values": list{"a", "b"}}}}
		csi["allowedTopologies"] = list{term}
	}
	b.objects = append(b.objects, local, csi)
	for range b.between(1, 8) {
		key, value := hostname, fmt.Sprintf("node-%02d", b.below(len(b.nodes)))
		if b.chance(30) {
			key, value = zone, one(b, "a", "b")
		}
		term := object{"matchExpressions": list{object{"key": key, "operator": "In", "values": list{value}}}}
		b.objects = append(b.objects, object{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": b.name("pv")},
			"spec": object{
				"capacity": object{"storage": one(b, "1Gi", "2Gi", "5Gi")}, "accessModes": list{"ReadWriteOnce"},
				"storageClassName": "local", "local": object{"path": "/disk"},
				"persistentVolumeReclaimPolicy": "Retain",
				"nodeAffinity":                  object{"required": object{"nodeSelectorTerms": list{term}}},
			},
		})
	}
	for range b.between(2, 10) {
		name := b.name("claim")
		b.claims = append(b.claims, name)
		b.objects = append(b.objects, object{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name,
				"namespace": "default"},
			"spec": object{
				"accessModes":      list{one(b, "ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod")},
				"storageClassName": one(b, "local", "csi"),
				"resources":        object{"requests": object{"storage": one(b, "1Gi", "2Gi")}},
			},
		})
	}
}

// makeBudgets makes disruption budgets over some of the pods.
func (b *builder) makeBudgets() {
	if !b.chance(50) {
		return
	}
	for range b.between(1, 2) {
		b.objects = append(b.objects, object{
			"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
			"metadata": object{"name": b.name("budget"), "namespace": "default"},
			"spec": object{"selector": object{"matchLabels": object{"app": one(b, "a", "b", "c")}},
				"minAvailable": 1},
			"status": object{
				"disruptionsAllowed": b.below(3), "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
			},
		})
	}
}
