package auditor

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestEachCheckFindsWhatItIsFor tells, for each check, a story that is as it should be and the same story tampered
// with. Nothing is found in the former, and in the latter the check finds something, and no other does.
func TestEachCheckFindsWhatItIsFor(t *testing.T) {
	var told []string
	for _, c := range slices.Concat(storiesOfNodes, storiesOfGangs, storiesOfTurns, storiesOfVictims, storiesOfEnds) {
		told = append(told, c.check)
		t.Run(c.check+"/"+c.name, func(t *testing.T) {
			policy := c.policy
			if policy == "" {
				policy = "BestEffort"
			}
			right := newStory(t, policy)
			c.tell(right, false)
			if report := right.audit(); len(report.Findings) > 0 || report.Asked[c.check] == 0 {
				t.Errorf("as it should be: asked %d times, found %v", report.Asked[c.check], report.Findings)
			}
			wrong := newStory(t, policy)
			c.tell(wrong, true)
			report := wrong.audit()
			if len(report.Findings) == 0 {
				t.Error("tampered with: nothing is found")
			}
			for _, f := range report.Findings {
				if f.Check != c.check {
					t.Errorf("tampered with: %v", f)
				}
			}
		})
	}
	for _, c := range Checks() {
		if !slices.Contains(told, c.Name) {
			t.Errorf("no story is about the check %s", c.Name)
		}
	}
}

// told is a story about a check.
type told struct {
	check, name, policy string
	tell                func(s *story, tampered bool)
}

// pick returns the one or the other.
func pick[T any](tampered bool, wrong, right T) T {
	if tampered {
		return wrong
	}
	return right
}

// storiesOfNodes are about what forbids a node.
var storiesOfNodes = []told{
	{"order", "an entry is missing", "", func(s *story, tampered bool) {
		s.tick(0)
		s.seq += pick(tampered, 1, 0)
		s.tick(time.Second)
	}},
	{"order", "time goes back", "", func(s *story, tampered bool) {
		s.tick(time.Second)
		s.tick(pick(tampered, -time.Millisecond, 0))
	}},
	{"order", "an epoch without its beginning", "", func(s *story, tampered bool) {
		s.epoch += pick(tampered, 1, 0)
		s.tick(0)
	}},
	{"names", "another pod of its name", "", func(s *story, tampered bool) {
		s.pod("a", "1", "'schedulingGates': [{'name': 'g'}]", "")
		if !tampered {
			s.gone("pods", "a")
		}
		s.pod("a", "1", "'schedulingGates': [{'name': 'g'}]", "'uid': 'a2'")
	}},
	{"nodes", "a node that is not there", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", pick(tampered, "m", "n"))
	}},
	{"nodes", "more nodes were feasible than looked at", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", "", "")
		s.decide("a", "Scheduled", "n", "{'feasible': %d}", pick(tampered, 2, 1))
		s.bind("a", "n")
	}},
	{"profile", "nobody's pod", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.object("pods", "b", "{'spec': {'schedulerName': '%s'}}", pick(tampered, "nobody", "default-scheduler"))
		fmt.Fprintln(&s.workload, `{"kind": "Pod", "metadata": {"name": "b", "namespace": "d"}}`)
		s.place("b", "n")
	}},
	{"gates", "a gated pod", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.pod("a", "1", pick(tampered, "'schedulingGates': [{'name': 'g'}]", ""), "")
		s.place("a", "n")
	}},
	{"capacity", "two pods on a node for one", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", "x", "")
		s.pod("a", "1500m", "", "")
		s.pod("b", "600m", "", "")
		s.place("a", "n")
		s.place("b", pick(tampered, "n", "m"))
	}},
	{"capacity", "one pod too many", "", func(s *story, tampered bool) {
		s.object("nodes", "n", "{'status': {'allocatable': {'cpu': '9', 'pods': '%d'}}}", pick(tampered, 1, 2))
		s.pod("a", "1", "", "")
		s.pod("b", "1", "", "")
		s.place("a", "n")
		s.place("b", "n")
	}},
	{"capacity", "a sidecar is forgotten", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		sidecar := "'initContainers': [{'restartPolicy': 'Always', 'resources': {'requests': {'cpu': '%s'}}}]"
		s.pod("a", "1500m", fmt.Sprintf(sidecar, pick(tampered, "1", "500m")), "")
		s.place("a", "n")
	}},
	{"ports", "a host port twice", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		for _, name := range []string{"a", "b"} {
			s.object("pods", name, `{'spec': {'schedulerName': 'default-scheduler', 'containers': [
				{'ports': [{'hostPort': 80, 'hostIP': '%s'}]}]}}`, pick(tampered, "", "10.0.0."+name))
			fmt.Fprintf(&s.workload, "---\n{\"kind\": \"Pod\", \"metadata\": {\"name\": %q, \"namespace\": \"d\"}}\n",
				name)
			s.place(name, "n")
		}
	}},
	{"cordon", "a cordoned node", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "'unschedulable': true")
		s.node("m", "2", "x", "")
		s.pod("a", "1", "", "")
		s.place("a", pick(tampered, "n", "m"))
	}},
	{"taints", "a taint that is not tolerated", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "'taints': [{'key': 'k', 'value': 'v', 'effect': 'NoSchedule'}]")
		s.pod("a", "1", fmt.Sprintf("'tolerations': [{'key': 'k', 'value': '%s'}]", pick(tampered, "w", "v")), "")
		s.place("a", "n")
	}},
	{"node-affinity", "another zone than was asked for", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", "y", "")
		s.pod("a", "1", "'nodeSelector': {'zone': 'y'}", "")
		s.place("a", pick(tampered, "n", "m"))
	}},
	{"node-affinity", "required affinity", "", func(s *story, tampered bool) {
		s.node("n", "2", "x", "")
		s.node("m", "2", "y", "")
		s.pod("a", "1", `'affinity': {'nodeAffinity': {'requiredDuringSchedulingIgnoredDuringExecution': {
			'nodeSelectorTerms': [{'matchExpressions': [{'key': 'zone', 'operator': 'NotIn', 'values': ['x']}]}]}}}`,
			"")
		s.place("a", pick(tampered, "n", "m"))
	}},
	{"pod-affinity", "beside what it does not want", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.node("m", "9", "y", "")
		s.pod("a", "1", neighbour("podAntiAffinity"), "")
		s.pod("b", "1", "", "'labels': {'app': 'b'}")
		s.place("a", "n")
		s.place("b", pick(tampered, "n", "m"))
	}},
	{"pod-affinity", "not beside what it wants", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.node("m", "9", "y", "")
		s.pod("a", "1", neighbour("podAffinity"), "")
		s.pod("b", "1", "", "'labels': {'app': 'b'}")
		s.place("b", "n")
		s.place("a", pick(tampered, "m", "n"))
	}},
	{"spread", "too many in a zone", "", func(s *story, tampered bool) {
		s.node("n", "9", "x", "")
		s.node("m", "9", "y", "")
		spread := `'topologySpreadConstraints': [{'maxSkew': 1, 'topologyKey': 'zone',
			'whenUnsatisfiable': 'DoNotSchedule', 'labelSelector': {'matchLabels': {'app': 'a'}}}]`
		s.pod("a", "1", spread, "'labels': {'app': 'a'}")
		s.pod("b", "1", spread, "'labels': {'app': 'a'}")
		s.place("a", "n")
		s.place("b", pick(tampered, "n", "m"))
	}},
	{"volumes", "a volume that is elsewhere", "", func(s *story, tampered bool) {
		volumes(s, "m")
		s.decide("a", "Scheduled", pick(tampered, "n", "m"), "{'volumes': [{'claim': 'c', 'volume': 'v'}]}")
		s.bind("a", pick(tampered, "n", "m"))
	}},
	{"volumes", "a claim gets none", "", func(s *story, tampered bool) {
		volumes(s, "m")
		s.decide("a", "Scheduled", "m", "%s", pick(tampered, "{}", "{'volumes': [{'claim': 'c', 'volume': 'v'}]}"))
		s.bind("a", "m")
	}},
	{"devices", "a device that another claim has", "", func(s *story, tampered bool) {
		devices(s)
		s.decide("a", "Scheduled", "n", "%s", gives("one", "gpu-0"))
		s.bind("a", "n")
		s.decide("b", "Scheduled", "n", "%s", gives("two", pick(tampered, "gpu-0", "gpu-1")))
		s.bind("b", "n")
	}},
	{"devices", "a device that is not there", "", func(s *story, tampered bool) {
		devices(s)
		s.decide("a", "Scheduled", "n", "%s", gives("one", pick(tampered, "gpu-9", "gpu-0")))
		s.bind("a", "n")
		s.decide("b", "Scheduled", "n", "%s", gives("two", "gpu-1"))
		s.bind("b", "n")
	}},
	{"devices", "a device that the bind of a pod may yet write", "", func(s *story, tampered bool) {
		devices(s)
		s.decide("a", "Scheduled", "n", "%s", gives("one", "gpu-0"))
		s.gone("pods", "a")
		fails := fields{"uid": "a", "node": "n", "outcome": "Conflict"}
		if !tampered {
			s.line("BindResult", fails)
		}
		s.decide("b", "Scheduled", "n", "%s", gives("two", "gpu-0"))
		s.bind("b", "n")
	}},
	{"devices", "a device that is logged with two claims", "", func(s *story, tampered bool) {
		devices(s)
		s.decide("a", "Scheduled", "n", "%s", gives("one", "gpu-0"))
		s.bind("a", "n")
		s.hasDevice("one", "gpu-0")
		s.bound("b", "n")
		s.hasDevice("two", pick(tampered, "gpu-0", "gpu-1"))
	}},
	{"devices", "more devices than are free", "", func(s *story, tampered bool) {
		devices(s)
		s.bound("b", "n")
		s.hasDevice("two", pick(tampered, "gpu-1", "gpu-9"))
		s.object("resourceslices.resource.k8s.io", "s", oneGPU)
		s.place("a", "n")
	}},
	{"given-back", "a claim that nobody uses", "", func(s *story, tampered bool) {
		devices(s)
		s.decide("a", "Scheduled", "n", "%s", gives("one", "gpu-0"))
		s.bind("a", "n")
		s.hasDevice("one", "gpu-0")
		s.tick(time.Second)
		s.gone("pods", "a")
		if !tampered {
			s.object("resourceclaims.resource.k8s.io", "one", oneDevice)
		}
		s.tick(time.Second)
		s.decide("b", "Scheduled", "n", "%s", gives("two", "gpu-1"))
		s.bind("b", "n")
	}},
	{"refused", "a device is free", "", func(s *story, tampered bool) {
		devices(s)
		s.object("resourceslices.resource.k8s.io", "s", oneGPU)
		s.bound("a", "n")
		s.hasDevice("one", "gpu-1")
		if tampered {
			s.gone("pods", "a")
			s.gone("resourceclaims.resource.k8s.io", "one")
		}
		s.decide("b", "Unschedulable", "", noDevice)
		s.gone("pods", "b")
	}},
	{"forgotten", "a device is free", "", func(s *story, tampered bool) {
		devices(s)
		s.object("resourceslices.resource.k8s.io", "s", oneGPU)
		s.bound("a", "n")
		s.hasDevice("one", "gpu-1")
		s.decide("b", "Unschedulable", "", noDevice)
		if tampered {
			s.gone("pods", "a")
			s.gone("resourceclaims.resource.k8s.io", "one")
		}
	}},
}

// noDevice is the rest of a decision that refuses a pod for want of a device.
const noDevice = "{'feasible': 0, 'rejections': [{'plugin': 'DynamicResources', 'nodes': 1}]}"

// oneDevice is a claim of any device.
const oneDevice = "{'spec': {'devices': {'requests': [{'name': 'r', 'exactly': {'deviceClassName': 'any'}}]}}}"

// oneGPU is the slice of a node with one device.
const oneGPU = `{'spec': {'driver': 'd', 'nodeName': 'n', 'pool': {'name': 'n', 'resourceSliceCount': 1},
	'devices': [{'name': 'gpu-1'}]}}`

// hasDevice has a claim be logged with a device.
func (s *story) hasDevice(claim, device string) {
	s.object("resourceclaims.resource.k8s.io", claim, `{'spec': {'devices': {'requests': [
		{'name': 'r', 'exactly': {'deviceClassName': 'any'}}]}}, 'status': {'allocation': {'devices': {'results': [
		{'request': 'r', 'driver': 'd', 'pool': 'n', 'device': '%s'}]}}}}`, device)
}

// bound has a pod of devices come with its node.
func (s *story) bound(name, node string) {
	s.object("pods", name, `{'spec': {'schedulerName': 'default-scheduler', 'nodeName': '%s', 'containers': [{}],
		'resourceClaims': [{'name': 'x', 'resourceClaimName': '%s'}]}}`, node,
		map[string]string{"a": "one", "b": "two"}[name])
}

// devices tells about a node with two devices, and of two pods with a claim each.
func devices(s *story) {
	s.node("n", "9", "x", "")
	s.object("resourceslices.resource.k8s.io", "s", `{'spec': {'driver': 'd', 'nodeName': 'n',
		'pool': {'name': 'n', 'resourceSliceCount': 1}, 'devices': [{'name': 'gpu-0'}, {'name': 'gpu-1'}]}}`)
	s.object("deviceclasses.resource.k8s.io", "any", "{}")
	s.object("resourceclaims.resource.k8s.io", "one", oneDevice)
	s.object("resourceclaims.resource.k8s.io", "two", oneDevice)
	s.pod("a", "1", "'resourceClaims': [{'name': 'x', 'resourceClaimName': 'one'}]", "")
	s.pod("b", "1", "'resourceClaims': [{'name': 'x', 'resourceClaimName': 'two'}]", "")
}

// gives is a decision that allocates a device to a claim.
func gives(claim, device string) string {
	return fmt.Sprintf(`{'devices': [{'claim': '%s', 'uid': 'u', 'allocation': {'devices': {'results': [
		{'request': 'r', 'driver': 'd', 'pool': 'n', 'device': '%s'}]}}}]}`, claim, device)
}

// neighbour is an affinity to pods with the label app=b in the same zone.
func neighbour(kind string) string {
	return fmt.Sprintf(`'affinity': {'%s': {'requiredDuringSchedulingIgnoredDuringExecution': [{'topologyKey': 'zone',
		'labelSelector': {'matchLabels': {'app': 'b'}}}]}}`, kind)
}

// volumes tells about a volume on a node, and of a pod with a claim that it suits.
func volumes(s *story, node string) {
	s.node("n", "9", "x", "")
	s.node("m", "9", "y", "")
	s.object("storageclasses.storage.k8s.io", "local",
		"{'provisioner': 'kubernetes.io/no-provisioner', 'volumeBindingMode': 'WaitForFirstConsumer'}")
	s.object("persistentvolumes", "v", `{'spec': {'storageClassName': 'local', 'capacity': {'storage': '2Gi'},
		'nodeAffinity': {'required': {'nodeSelectorTerms': [
			{'matchExpressions': [{'key': 'name', 'operator': 'In', 'values': ['%s']}]}]}}}}`, node)
	s.object("persistentvolumeclaims", "c",
		"{'spec': {'storageClassName': 'local', 'resources': {'requests': {'storage': '1Gi'}}}}")
	s.pod("a", "1", "'volumes': [{'persistentVolumeClaim': {'claimName': 'c'}}]", "")
}
