package framework

import (
	"encoding/binary"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Pods made from one template, as those of a job are, differ in nothing but their names, UIDs and times. What plugins say of
// such a pod alone, in which class it is and what some of them prepare for it in PreFilter and PreScore, is therefore
// found out once for all of them. Like a class it is a memo and nothing else, and like classes it is dropped when
// anything but nodes and pods changes.

// maxTemplates is how many templates are kept, of some 2 KiB each. Those that come when there are as many begin anew.
const maxTemplates = 4096

// preparesByTemplate are the plugins whose PreFilter and PreScore look at the pod, at their arguments and at objects that are
// neither nodes nor pods, and leave behind what nobody changes afterwards.
var preparesByTemplate = []string{
	names.NodePorts, names.NodeAffinity, names.TaintToleration, names.NodeResourcesFit, names.NodeResourcesBalancedAllocation,
}

// template is what is known of the pods that are made from one.
type template struct {
	memberships [2]*membership // the second while some pod has affinity terms; nil: not asked for yet
	preFilters  []prepared     // by plugin id
	preScores   []prepared
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
		m.begin(v)
	}
	key, err := m.templateKey(c.pod)
	if err != nil {
		return nil
	}
	t, ok := m.templates[string(key)]
	if !ok {
		if len(m.templates) >= maxTemplates {
			clear(m.templates)
		}
		t = &template{preFilters: make([]prepared, len(c.p.plugins)), preScores: make([]prepared, len(c.p.plugins))}
		m.templates[string(key)] = t
	}
	return t
}

// templateKey encodes all of a pod but what tells apart the pods of one template. It is valid until the next call.
func (m *classes) templateKey(pod *v1.Pod) ([]byte, error) {
	meta := pod.ObjectMeta
	meta.Name, meta.GenerateName, meta.UID, meta.ResourceVersion = "", "", "", ""
	meta.CreationTimestamp, meta.ManagedFields = metav1.Time{}, nil
	m.key = m.key[:0]
	for _, part := range []interface {
		Size() int
		MarshalToSizedBuffer(to []byte) (int, error)
	}{&meta, &pod.Spec, &pod.Status} {
		size := part.Size()
		m.key = binary.AppendUvarint(m.key, uint64(size))
		at := len(m.key)
		m.key = slices.Grow(m.key, size)[:at+size]
		if _, err := part.MarshalToSizedBuffer(m.key[at:]); err != nil {
			return nil, err
		}
	}
	return m.key, nil
}

// skipped is what a plugin answers that has nothing to do for the pod; nobody changes it.
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
