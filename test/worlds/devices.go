package worlds

import (
	"fmt"
	"strings"
)

const driver = "gpu.example.com"

// draw makes devices come from a separate source of random numbers until back is called: a world is otherwise the same
// with and without them.
func (b *builder) draw() (back func()) {
	b.rand, b.apart = b.apart, b.rand
	return func() { b.rand, b.apart = b.apart, b.rand }
}

// makeDevices makes devices on most nodes, classes of them, templates of claims, and some claims that pods share.
func (b *builder) makeDevices() {
	defer b.draw()()
	if b.recorded || !b.chance(35) {
		return
	}
	b.style["devices"] = 35
	for _, model := range []string{"", "a"} {
		class, spec := "any", object{}
		if model != "" {
			class = model
			spec["selectors"] = list{selector(fmt.Sprintf("device.attributes[%q].model == %q", driver, model))}
		}
		b.objects = append(b.objects, object{
			"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": object{"name": class}, "spec": spec,
		})
	}
	for _, node := range b.nodes {
		if b.chance(80) {
			b.makeSlice(into(node, "metadata")["name"].(string))
		}
	}
	for _, namespace := range []string{"default", "ml"} {
		for i := range 3 {
			template := b.claim("ResourceClaimTemplate", fmt.Sprintf("devices-%d", i), namespace)
			template["spec"] = object{"spec": template["spec"]}
			b.objects = append(b.objects, template)
		}
		for i := range b.below(3) {
			b.objects = append(b.objects, b.claim("ResourceClaim", fmt.Sprintf("shared-%d", i), namespace))
			b.sharedClaims = append(b.sharedClaims, namespace+fmt.Sprintf("/shared-%d", i))
		}
	}
}

// makeSlice makes the devices of a node: one to four, some of which may be allocated several times, in parts of their
// memory. On some nodes two of them are the halves of the third.
func (b *builder) makeSlice(node string) {
	var devices list
	consumable, halves := b.chance(30), b.chance(25)
	spec := object{
		"driver": driver, "nodeName": node,
		"pool": object{"name": node, "generation": 1, "resourceSliceCount": 1},
	}
	for i := range b.between(1, 4) {
		device := object{
			"name":       fmt.Sprintf("gpu-%d", i),
			"attributes": object{"model": object{"string": one(b, "a", "a", "b")}},
			"capacity":   object{"memory": object{"value": one(b, "8Gi", "16Gi")}},
		}
		if consumable && b.chance(60) {
			device["allowMultipleAllocations"] = true
		}
		devices = append(devices, device)
	}
	if halves && b.chance(20) {
		devices[0].(object)["taints"] = list{object{"key": "broken", "effect": one(b, "NoSchedule", "None")}}
	}
	spec["devices"] = devices
	b.objects = append(b.objects, object{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": object{"name": node + "-gpus"},
		"spec": spec,
	})
	if halves {
		b.makePartitions(node)
	}
}

// makePartitions makes a pool of a device and its two halves, and the slice with the counters that they draw on.
func (b *builder) makePartitions(node string) {
	draws := func(name, amount string) object {
		return object{
			"name": name, "attributes": object{"model": object{"string": "b"}},
			"consumesCounters": list{
				object{"counterSet": "whole", "counters": object{"memory": object{"value": amount}}},
			},
		}
	}
	pool := object{"name": node + "-split", "generation": 1, "resourceSliceCount": 2}
	for i, content := range [][2]any{
		{"sharedCounters", list{
			object{"name": "whole", "counters": object{"memory": object{"value": "8Gi"}}},
		}},
		{"devices", list{draws("whole", "8Gi"), draws("half-0", "4Gi"), draws("half-1", "4Gi")}},
	} {
		spec := object{"driver": driver, "nodeName": node, "pool": pool}
		spec[content[0].(string)] = content[1]
		b.objects = append(b.objects, object{
			"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
			"metadata": object{"name": fmt.Sprintf("%s-split-%d", node, i)}, "spec": spec,
		})
	}
}

func selector(expression string) object { return object{"cel": object{"expression": expression}} }

// claim makes a claim, or a template of one.
func (b *builder) claim(kind, name, namespace string) object {
	exactly := func(class string) object {
		request := object{"deviceClassName": class}
		switch b.below(6) {
		case 0:
			request["count"] = 2
		case 1:
			request["selectors"] = list{selector(
				fmt.Sprintf("device.capacity[%q].memory.isGreaterThan(quantity(\"8Gi\"))", driver))}
		case 2:
			request["capacity"] = object{"requests": object{"memory": one(b, "2Gi", "6Gi")}}
		}
		return request
	}
	requests := list{object{"name": "one", "exactly": exactly(one(b, "any", "any", "a"))}}
	switch b.below(6) {
	case 0:
		requests = append(requests, object{"name": "two", "exactly": exactly("any")})
	case 1:
		first := exactly("a")
		first["name"] = "best"
		requests = list{object{"name": "one", "firstAvailable": list{first,
			object{"name": "other", "deviceClassName": "any"}}}}
	}
	return object{
		"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": object{"name": name, "namespace": namespace},
		"spec": object{"devices": object{"requests": requests}},
	}
}

// addDevices makes a pod claim devices: its own, or the devices of a claim that others have too.
func (b *builder) addDevices(spec object, namespace string) {
	defer b.draw()()
	if b.recorded || !b.has("devices") {
		return
	}
	claim := object{"name": "devices"}
	shared := ""
	if len(b.sharedClaims) > 0 && b.chance(30) {
		shared = one(b, b.sharedClaims...)
	}
	if name, ok := strings.CutPrefix(shared, namespace+"/"); ok {
		claim["resourceClaimName"] = name
	} else {
		claim["resourceClaimTemplateName"] = fmt.Sprintf("devices-%d", b.below(3))
	}
	spec["resourceClaims"] = list{claim}
}
