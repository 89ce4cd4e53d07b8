package gangplan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cluster"
)

// Members are the members of a unit that are to be placed, by kind.
type Members struct {
	unit      *Unit
	kinds     []int // by member: the number of its kind
	number    int   // of kinds
	dependent bool  // a member may depend on the places of others
	devices   bool  // a member has claims
}

// NewMembers sorts the members of a unit by kind. Members are of one kind if they are of one gang, their specifications
// differ in names and images alone, and their labels only in labels that no other pod selects.
func NewMembers(u *Unit) *Members {
	m := &Members{unit: u}
	claims := make([]string, len(u.Pods)) // by pod, what its claims ask for
	for i, p := range u.Pods {
		m.dependent = m.dependent || DependsOnOthers(p.Object)
		if len(p.Object.Spec.ResourceClaims) == 0 {
			continue
		}
		specs, own := u.state.Devices().OwnClaims(nil, p.Object)
		claims[i], m.devices, m.dependent = string(specs), true, m.dependent || !own
	}
	alike := func(i int) bool {
		return u.parts[i] == u.parts[i-1] && claims[i] == claims[i-1] && u.Pods[i].Alike(u.Pods[i-1])
	}
	m.kinds, m.number = make([]int, len(u.Pods)), min(1, len(u.Pods))
	same := 1
	for same < len(u.Pods) && alike(same) {
		same++
	}
	if same < len(u.Pods) {
		m.sort(claims, alike)
	}
	return m
}

// sort gives each member the number of its kind. claims has the requests of the claims of each member. alike reports
// whether a member is certainly of the kind of the member before it.
func (m *Members) sort(claims []string, alike func(i int) bool) {
	u := m.unit
	selected, known := selectedLabels(u.Pods, u.state.NodeInfos())
	numbers := map[string]int{}
	for i, p := range u.Pods {
		if i > 0 && alike(i) {
			m.kinds[i] = m.kinds[i-1]
			continue
		}
		key := fmt.Sprint(u.parts[i], " ", keyOf(p.Object, selected, known), claims[i])
		n, seen := numbers[key]
		if !seen {
			n = len(numbers)
			numbers[key] = n
		}
		m.kinds[i] = n
	}
	m.number = len(numbers)
}

// Unit returns the unit of the members.
func (m *Members) Unit() *Unit { return m.unit }

// Unequal reports whether the members are of several kinds, or depend on one another. Otherwise the usual order finds a
// placement if there is one.
func (m *Members) Unequal() bool { return len(m.unit.Pods) > 1 && (m.number > 1 || m.dependent) }

// DependsOnOthers reports whether the places of other pods may matter to the pod.
func DependsOnOthers(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) ||
		len(pod.Spec.TopologySpreadConstraints) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			local := v1.VolumeSource{EmptyDir: v.EmptyDir}
			return v.VolumeSource != local
		})
}

// mayGain reports whether the places of other pods may make more nodes feasible for the pod.
func mayGain(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return DependsOnOthers(pod)
	}
	without := *pod
	without.Spec.Affinity = &v1.Affinity{PodAffinity: a.PodAffinity}
	return DependsOnOthers(&without)
}

// split returns the kinds, in the order of their first members.
func (m *Members) split() []*kind {
	kinds := make([]*kind, m.number)
	for i, p := range m.unit.Pods {
		k := kinds[m.kinds[i]]
		if k == nil {
			k = &kind{number: m.kinds[i], part: m.unit.parts[i], gains: mayGain(p.Object)}
			kinds[m.kinds[i]] = k
		}
		if k.pods == nil || len(p.Object.Spec.ResourceClaims) > 0 {
			pod := *p.Object
			pod.Status.NominatedNodeName = ""
			k.pods = append(k.pods, &pod)
		}
		k.members = append(k.members, p)
		k.left++
	}
	return kinds
}

// selectedLabels returns the keys of the labels that members, and pods with required anti-affinity on nodes, select.
// known is false if the nodes cannot be listed.
func selectedLabels(pods []*cluster.Pod, nodes fwk.NodeInfoLister) (keys map[string]bool, known bool) {
	keys = map[string]bool{}
	add := func(selector *metav1.LabelSelector, more ...[]string) {
		if selector != nil {
			// any order: a set
			for key := range selector.MatchLabels {
				keys[key] = true
			}
			for _, e := range selector.MatchExpressions {
				keys[e.Key] = true
			}
		}
		for _, key := range slices.Concat(more...) {
			keys[key] = true
		}
	}
	for _, p := range pods {
		for _, t := range p.Object.Spec.TopologySpreadConstraints {
			add(t.LabelSelector, t.MatchLabelKeys)
		}
		for _, t := range requiredTerms(p.Object) {
			add(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
		}
	}
	repelling, err := nodes.HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return nil, false
	}
	for _, info := range repelling {
		for _, p := range info.GetPodsWithRequiredAntiAffinity() {
			for _, t := range requiredTerms(p.GetPod()) {
				add(t.LabelSelector, t.MatchLabelKeys, t.MismatchLabelKeys)
			}
		}
	}
	return keys, true
}

// requiredTerms returns the terms of a pod's required affinity and anti-affinity to pods.
func requiredTerms(pod *v1.Pod) (terms []v1.PodAffinityTerm) {
	a := pod.Spec.Affinity
	if a != nil && a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	if a != nil && a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
	return terms
}

// keyOf returns a text that is equal for pods of one kind. Only labels of the selected keys count, if they are known.
func keyOf(pod *v1.Pod, selected map[string]bool, known bool) string {
	spec := pod.Spec
	spec.Containers, spec.InitContainers = unnamed(spec.Containers), unnamed(spec.InitContainers)
	labels := maps.Clone(pod.Labels)
	if known {
		maps.DeleteFunc(labels, func(key, _ string) bool { return !selected[key] })
	}
	text, err := json.Marshal([]any{spec, labels})
	if err != nil {
		return string(pod.UID) // it is like no other
	}
	return string(text)
}

// unnamed returns containers without their names and images, which no filter reads.
func unnamed(containers []v1.Container) []v1.Container {
	out := slices.Clone(containers)
	for i := range out {
		out[i].Name, out[i].Image = "", ""
	}
	return out
}

// kind is members that plugins treat alike.
type kind struct {
	pods     []*v1.Pod // the members without a nominated node; only the first of them unless they have claims
	members  []*cluster.Pod
	number   int
	part     int     // the index of its gang
	gains    bool    // more of its nodes may become feasible when other members are placed
	next     int     // how many of the members have a node
	left     int     // how many are still to place and not given up
	requests []int64 // by resource
	dominant int64   // the largest part of a feasible node's free amount that a member requests, as a percentage

	on    []use // by node
	order []int // the feasible nodes that are not excluded, in the order in which they are tried
	room  int64 // how many members these have room for, by their requests alone
}

// pod returns the pod to filter nodes with: the next member if members have claims, because a member that is placed has
// its devices.
func (k *kind) pod() *v1.Pod { return k.pods[min(k.next, len(k.pods)-1)] }

// use says whether, and how well, a kind may use a node.
type use struct {
	feasible bool
	excluded bool  // the kind does not use it in the branch under way
	outside  bool  // it is not in a domain that is chosen in the branch under way
	rest     int64 // what is left of it beside a member: a sum of the resources' percentages
	takes    int64 // how many members it has room for, by their requests alone
	part     int64 // the largest part of a free amount that a member requests, as a percentage
}

// useOf returns how a kind may use a feasible node now. Resources that the node does not offer do not limit it: the
// filters passed it.
func (s *Search) useOf(k *kind, node int) use {
	u := use{feasible: true, takes: int64(len(k.members))}
	for i, name := range s.resources {
		offered, taken := cluster.AmountOn(s.nodes[node], name)
		if offered == 0 || k.requests[i] == 0 {
			continue
		}
		left := offered - taken
		u.rest += cluster.Percent(left-k.requests[i], offered)
		u.takes = min(u.takes, left/k.requests[i])
		u.part = max(u.part, cluster.Percent(k.requests[i], max(1, left)))
	}
	u.takes = max(0, u.takes)
	return u
}

// compare orders nodes: the one with the least room beside a member comes first, then the first of the cluster's list.
func (k *kind) compare(a, b int) int { return cmp.Or(cmp.Compare(k.on[a].rest, k.on[b].rest), a-b) }

func (u use) usable() bool { return u.feasible && !u.excluded && !u.outside }

// set replaces how the kind may use a node.
func (k *kind) set(node int, now use) {
	if was := k.on[node]; was.usable() {
		at, _ := slices.BinarySearchFunc(k.order, node, k.compare)
		k.order, k.room = slices.Delete(k.order, at, at+1), k.room-was.takes
	}
	k.on[node] = now
	if now.usable() {
		at, _ := slices.BinarySearchFunc(k.order, node, k.compare)
		k.order, k.room = slices.Insert(k.order, at, node), k.room+now.takes
	}
}

func (k *kind) exclude(node int) { u := k.on[node]; u.excluded = true; k.set(node, u) }
func (k *kind) include(node int) { u := k.on[node]; u.excluded = false; k.set(node, u) }

// free returns a node's free amount of a resource.
func free(info fwk.NodeInfo, name v1.ResourceName) int64 {
	offered, taken := cluster.AmountOn(info, name)
	return offered - taken
}

// samePorts reports whether the same host ports are in use on two nodes.
func samePorts(a, b fwk.NodeInfo) bool {
	x, y := a.GetUsedPorts(), b.GetUsedPorts()
	return maps.EqualFunc(x, y, func(p, q map[fwk.ProtocolPort]struct{}) bool { return maps.Equal(p, q) })
}
