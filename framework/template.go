package framework

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/rollcall-sched/rollcall/cluster/devices"
)

// Pods made from one template, such as those of a job, are the same in everything that plugins look at. So what depends
// on the pod alone is found once for all of them: its class, and what some plugins prepare in PreFilter and PreScore.
// Like a class it is a memo, and is dropped when anything but nodes and pods changes. Example: pods of two gangs in one
// namespace are of one template if they differ in name, labels and gang only, and in the names of claims that ask for
// the same. With another request or another toleration they are not.

// maxTemplates is how many templates are kept, of some 2 KiB each. When there would be more, all are dropped.
const maxTemplates = 4096

// maxKey is how many bytes the key of a memo may have. In the place of a longer one, such as that of a pod whose claims
// have long selectors, its SHA-256 stands.
const maxKey = 4096

// preparesByTemplate are the plugins whose PreFilter and PreScore depend only on the pod, on their arguments and on
// objects that are neither nodes nor pods, and write into the cycle's state what is never changed afterwards.
var preparesByTemplate = []string{
	names.NodePorts, names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit,
	names.NodeResourcesBalancedAllocation,
}

// skipsClaimless are the plugins whose PreFilter answers Skip for a pod that has no claims and requests no devices, and
// whatever they leave in the cycle's state then is never changed: all they do later ends where they find no claims in
// it. For such pods they are in preparesByTemplate, too. Not so for pods of a PodGroup under the feature gate
// DRAWorkloadResourceClaims: DynamicResources refuses them if there is no such PodGroup.
var skipsClaimless = []string{names.DynamicResources}

// template is what is known of the pods that are made from one.
type template struct {
	key        string
	again      bool        // there was a pod of it before this one
	membership *membership // nil: not asked for yet
	affine     *membership // that while some pod has affinity terms
	preFilters []prepared  // by plugin id
	preScores  []prepared
}

// prepared is what a plugin answered in PreFilter or PreScore, and what it left in the cycle's state.
type prepared struct {
	known, skip bool
	entries     []stateEntry
}

// templateOf returns the memo for pods such as this one, nil if there can be none.
func (c *search) templateOf(nodes []fwk.NodeInfo) *template {
	m := &c.p.classes
	if _, own := c.state.(*CycleState); !own || m.off || c.trace != nil || len(nodes) < minClassNodes {
		return nil
	}
	if v := c.p.world.Version(); v != m.version || m.templates == nil {
		m.reset(v)
	}
	c.findClaims()
	c.claimless = len(c.claims) == 0 && len(c.pod.Status.ResourceClaimStatuses) == 0 &&
		c.pod.Status.ExtendedResourceClaimStatus == nil && (c.pod.Spec.SchedulingGroup == nil || !c.p.groupClaims)
	key, err := m.encode(c.pod, &c.pod.Spec, c.claims)
	if err != nil {
		return nil
	}
	if t, ok := m.templates[string(key)]; ok {
		t.again = true
		return t
	}
	if len(m.templates) >= maxTemplates {
		clear(m.templates)
	}
	t := &template{key: string(key), preFilters: make([]prepared, len(c.p.plugins)),
		preScores: make([]prepared, len(c.p.plugins))}
	m.templates[t.key] = t
	return t
}

// findClaims finds out what the pod's claims ask for, and its extended resources that stand for devices, and whether
// answers on the pod depend on that alone.
func (c *search) findClaims() {
	c.claims, c.knownClaims = c.claims[:0], true
	if len(c.pod.Spec.ResourceClaims) == 0 && !devices.RequestsExtended(c.p.world.DRA, c.pod) {
		return
	}
	c.knownClaims = false
	if c.p.stage.changed != nil && len(devices.SharedClaims(c.p.world.DRA, c.pod)) > 0 {
		// a pod that the rehearsal has placed may have the claim's devices
	} else if c.p.world.Claims != nil {
		c.claims, c.knownClaims = c.p.world.Claims(c.claims, c.pod)
	}
	c.claims = strconv.AppendBool(c.claims, c.knownClaims)
}

// encode returns all that a pod of such a spec says, save what neither the plugins in insideClasses nor those in
// preparesByTemplate look at: its metadata but for the namespace, the name of its gang, and those of its claims, in the
// place of which it has claims. It is valid until the next call.
func (m *classes) encode(pod *v1.Pod, spec *v1.PodSpec, claims []byte) ([]byte, error) {
	gangless, status := *spec, &pod.Status
	gangless.SchedulingGroup = nil
	if len(spec.ResourceClaims) > 0 {
		nameless := pod.Status
		nameless.ResourceClaimStatuses, status = nil, &nameless
		gangless.ResourceClaims = nil
	}
	m.key = append(binary.AppendUvarint(m.key[:0], uint64(len(pod.Namespace))), pod.Namespace...)
	for _, part := range []interface {
		Size() int
		MarshalToSizedBuffer(to []byte) (int, error)
	}{&gangless, status} {
		size := part.Size()
		m.key = binary.AppendUvarint(m.key, uint64(size))
		at := len(m.key)
		m.key = slices.Grow(m.key, size)[:at+size]
		if _, err := part.MarshalToSizedBuffer(m.key[at:]); err != nil {
			return nil, err
		}
	}
	m.key = append(m.key, claims...)
	if len(m.key) > maxKey {
		sum := sha256.Sum256(m.key)
		// No shorter key is like it: one with this first byte begins with a namespace of more than 126 bytes.
		m.key = append(append(m.key[:0], 0xff), sum[:]...)
	}
	return m.key, nil
}

// withoutRequests returns the spec of a pod that requests nothing and is otherwise the same.
func withoutRequests(spec *v1.PodSpec) *v1.PodSpec {
	out := *spec
	out.Overhead, out.Resources = nil, nil
	out.Containers, out.InitContainers = slices.Clone(spec.Containers), slices.Clone(spec.InitContainers)
	for _, containers := range [][]v1.Container{out.Containers, out.InitContainers} {
		for i := range containers {
			containers[i].Resources = v1.ResourceRequirements{}
		}
	}
	return &out
}

// skipped is what a plugin answers that has nothing to do for the pod. It must not be changed.
var skipped = fwk.NewStatus(fwk.Skip)

// recall puts into the cycle's state what the plugin left there before, and returns what it answered.
func (r *prepared) recall(state *CycleState) *fwk.Status {
	for _, e := range r.entries {
		state.Write(e.key, e.data)
	}
	if r.skip {
		return skipped
	}
	return nil
}

// keep takes note of what a plugin answered, and of what it has added to the state since it had that many entries.
func (r *prepared) keep(state *CycleState, before int, skip bool) {
	r.known, r.skip = true, skip
	r.entries = slices.Clone(state.data[before:])
}
