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

// Pods made from one template, such as the pods of a job, are equal in everything that plugins read. So the framework
// computes the parts that depend on the pod alone once per template: the pod's class, and the data that some plugins
// prepare in PreFilter and PreScore. A template is a memo, like a class. It is dropped when any object other than a
// node or a pod changes.
//
// Example: pods of two gangs in one namespace share a template if they differ only in name, labels, gang, and the names
// of claims that request the same. With another request or another toleration they do not.

// maxTemplates bounds the number of templates, of some 2 KiB each. When it is reached, all are dropped.
const maxTemplates = 4096

// maxKey bounds the bytes of a memo's key. A longer key, such as the key of a pod whose claims have long selectors, is
// replaced by its SHA-256.
const maxKey = 4096

// preparesByTemplate lists the plugins whose PreFilter and PreScore depend only on the pod, on their arguments, and on
// objects other than nodes and pods. The data that they write into the cycle's state never changes afterwards.
var preparesByTemplate = []string{
	names.NodePorts, names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit,
	names.NodeResourcesBalancedAllocation,
}

// skipsClaimless lists plugins that treat a pod without claims and devices like the plugins in preparesByTemplate do.
// Their PreFilter answers Skip for it, and the data that they leave in the cycle's state never changes, because all
// later work ends where they find no claims in it.
//
// The exception are pods of a PodGroup under the feature gate DRAWorkloadResourceClaims: DynamicResources refuses them
// if their PodGroup does not exist.
var skipsClaimless = []string{names.DynamicResources}

// template is the memo for all pods made from one template.
type template struct {
	key        string
	again      bool        // an earlier pod had this template
	membership *membership // nil: not computed yet
	affine     *membership // the membership while some pod has affinity terms
	preFilters []prepared  // by plugin id
	preScores  []prepared
}

// prepared is a plugin's answer in PreFilter or PreScore, and the entries that it left in the cycle's state.
type prepared struct {
	known, skip bool
	entries     []stateEntry
}

// templateOf returns the memo for pods like this one, nil if there can be none.
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

// findClaims determines what the pod's claims, and its extended resources that map to devices, request. It sets
// c.knownClaims if answers about the pod depend on that alone.
func (c *search) findClaims() {
	c.claims, c.knownClaims = c.claims[:0], true
	if len(c.pod.Spec.ResourceClaims) == 0 && !devices.RequestsExtended(c.p.world.DRA, c.pod) {
		return
	}
	c.knownClaims = false
	if c.p.stage.changed != nil && len(devices.SharedClaims(c.p.world.DRA, c.pod)) > 0 {
		// A pod that the rehearsal has placed may have the claim's devices.
	} else if c.p.world.Claims != nil {
		c.claims, c.knownClaims = c.p.world.Claims(c.claims, c.pod)
	}
	c.claims = strconv.AppendBool(c.claims, c.knownClaims)
}

// encode returns everything in a pod with this spec that the plugins in insideClasses and preparesByTemplate read. It
// leaves out the metadata except for the namespace, the gang's name, and the names of claims; claims takes their place.
// The result is valid until the next call.
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
		// No shorter key equals it: a key with this first byte would begin with a namespace of more than 126 bytes.
		m.key = append(append(m.key[:0], 0xff), sum[:]...)
	}
	return m.key, nil
}

// withoutRequests returns a copy of the spec without any resource requests.
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

// skipped is the status of a plugin that has nothing to do for the pod. It must not be changed.
var skipped = fwk.NewStatus(fwk.Skip)

// recall writes the plugin's earlier entries into the cycle's state, and returns its earlier answer.
func (r *prepared) recall(state *CycleState) *fwk.Status {
	for _, e := range r.entries {
		state.Write(e.key, e.data)
	}
	if r.skip {
		return skipped
	}
	return nil
}

// keep records a plugin's answer, and the entries that it has added to the state behind the first before entries.
func (r *prepared) keep(state *CycleState, before int, skip bool) {
	r.known, r.skip = true, skip
	r.entries = slices.Clone(state.data[before:])
}
