package auditor

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
)

// obstacle is the reason why a pod may not be on a node, and the check that it belongs to.
type obstacle struct{ check, why string }

// without is a set of pods that are treated as absent, by UID.
type without map[string]bool

// filters are the rules for nodes, with the plugin of kube-scheduler that implements each. A rule returns the reason
// why the node is not allowed, "" if it is.
var filters = []struct {
	check, plugin string
	rule          func(s *state, p *pod, node *nodeObject, gone without) string
}{
	{"capacity", "NodeResourcesFit", (*state).overCapacity},
	{"ports", "NodePorts", (*state).portsTaken},
	{"cordon", "NodeUnschedulable", (*state).cordoned},
	{"taints", "TaintToleration", (*state).tainted},
	{"node-affinity", "NodeAffinity", (*state).nodeDisliked},
	{"pod-affinity", "InterPodAffinity", (*state).affinityBroken},
	{"spread", "PodTopologySpread", (*state).spreadBroken},
	{"volumes", "VolumeBinding", (*state).volumesUnreachable},
	{"volumes", "VolumeRestrictions", (*state).volumesInUse},
	{"devices", "DynamicResources", (*state).devicesTaken},
}

// obstacles returns all reasons why a pod may not be on a node, without the pods of gone.
func (s *state) obstacles(p *pod, node *nodeObject, gone without) (all []obstacle) {
	profile := s.profiles[p.object.Spec.SchedulerName]
	if profile == nil {
		return []obstacle{{"profile", fmt.Sprintf("no profile is for %q", p.object.Spec.SchedulerName)}}
	}
	for _, f := range filters {
		if !profile.plugins[f.plugin] {
			continue
		}
		if why := f.rule(s, p, node, gone); why != "" {
			all = append(all, obstacle{f.check, why})
		}
	}
	return all
}

// checkPlacement checks that a pod may be placed at all, and that nothing forbids its node.
func (a *auditor) checkPlacement(p *pod, d *decision) {
	a.asked("gates")
	if p.gated() {
		a.find("gates", "pod %s is placed on %s, and has scheduling gates or is being deleted", p.name, d.Node)
	}
	node := a.nodes[d.Node]
	a.asked("nodes")
	if node == nil {
		a.find("nodes", "pod %s is placed on %s, which is not there", p.name, d.Node)
		return
	}
	a.noteAsked(p)
	for _, o := range a.obstacles(p, node, nil) {
		a.find(o.check, "pod %s is placed on %s: %s", p.name, d.Node, o.why)
	}
	a.checkClaims(p, d, node)
	if d.Feasible < 1 || d.Feasible > d.Evaluated || d.Evaluated > int64(len(a.nodes)) {
		a.find("nodes", "pod %s is placed, by %d of %d nodes that were looked at, of %d there are", p.name, d.Feasible,
			d.Evaluated, len(a.nodes))
	}
}

// noteAsked counts the checks for which a placement is evidence.
func (a *auditor) noteAsked(p *pod) {
	spec := &p.object.Spec
	a.asked("profile")
	a.asked("capacity")
	for check, has := range map[string]bool{
		"ports": len(p.ports()) > 0,
		"cordon": slices.ContainsFunc(a.sortedNodes(),
			func(n string) bool { return a.nodes[n].Spec.Unschedulable }),
		"taints": slices.ContainsFunc(a.sortedNodes(),
			func(n string) bool { return len(a.nodes[n].Spec.Taints) > 0 }),
		"node-affinity": len(spec.NodeSelector) > 0 || spec.Affinity.NodeAffinity.Required != nil,
		"pod-affinity":  len(spec.Affinity.PodAffinity.Required)+len(spec.Affinity.PodAntiAffinity.Required) > 0,
		"spread":        len(spec.TopologySpreadConstraints) > 0,
		"volumes":       len(p.claims()) > 0,
	} {
		if has {
			a.asked(check)
		}
	}
}

// overCapacity adds up the requests of the pods on the node. Only resources that the pod itself requests can forbid
// it.
func (s *state) overCapacity(p *pod, node *nodeObject, gone without) string {
	used := amounts{}
	for _, other := range s.on(node.Metadata.Name) {
		if other != p && !gone[other.uid] {
			used.add(other.requests)
		}
	}
	for resource, wanted := range p.requests {
		if wanted.Sign() == 0 {
			continue
		}
		sum := new(big.Rat).Add(used.of(resource), wanted.Rat)
		if offered := node.Status.Allocatable.of(resource); sum.Cmp(offered) > 0 {
			return fmt.Sprintf("%s of %s would be used, and %s is allocatable", sum.RatString(), resource,
				offered.RatString())
		}
	}
	return ""
}

// ports are the host ports of the pod's containers.
func (p *pod) ports() (ports []port) {
	for _, c := range slices.Concat(p.object.Spec.Containers, sidecars(p.object.Spec.InitContainers)) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// sidecars are the init containers that continue running.
func sidecars(containers []container) (out []container) {
	for _, c := range containers {
		if c.RestartPolicy == "Always" {
			out = append(out, c)
		}
	}
	return out
}

// portsTaken finds a host port that another pod on the node has at the same address, or at all of them.
func (s *state) portsTaken(p *pod, node *nodeObject, gone without) string {
	everywhere := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	protocol := func(o port) string {
		if o.Protocol == "" {
			return "TCP"
		}
		return o.Protocol
	}
	for _, other := range s.on(node.Metadata.Name) {
		if other == p || gone[other.uid] {
			continue
		}
		for _, mine := range p.ports() {
			for _, its := range other.ports() {
				if mine.HostPort == its.HostPort && protocol(mine) == protocol(its) &&
					(mine.HostIP == its.HostIP || everywhere(mine.HostIP) || everywhere(its.HostIP)) {
					return fmt.Sprintf("pod %s has host port %d", other.name, its.HostPort)
				}
			}
		}
	}
	return ""
}

// cordoned forbids a node that takes no new pods, to a pod that does not tolerate that.
func (s *state) cordoned(p *pod, node *nodeObject, _ without) string {
	if node.Spec.Unschedulable && !tolerates(p, taint{"node.kubernetes.io/unschedulable", "", "NoSchedule"}) {
		return "the node is unschedulable"
	}
	return ""
}

// tainted forbids a node with a taint that the pod does not tolerate.
func (s *state) tainted(p *pod, node *nodeObject, _ without) string {
	for _, t := range node.Spec.Taints {
		if t.Effect != "PreferNoSchedule" && !tolerates(p, t) {
			return fmt.Sprintf("the pod does not tolerate the taint %s=%s:%s", t.Key, t.Value, t.Effect)
		}
	}
	return ""
}

func tolerates(p *pod, t taint) bool {
	return slices.ContainsFunc(p.object.Spec.Tolerations, func(o toleration) bool { return o.matches(t) })
}

func (o toleration) matches(t taint) bool {
	return (o.Effect == "" || o.Effect == t.Effect) &&
		(o.Key == t.Key || o.Key == "" && o.Operator == "Exists") &&
		(o.Operator == "Exists" || o.Value == t.Value)
}

// nodeDisliked forbids a node that the pod's node selector or its required node affinity does not match.
func (s *state) nodeDisliked(p *pod, node *nodeObject, _ without) string {
	for key, value := range p.object.Spec.NodeSelector {
		if has, ok := node.Metadata.Labels[key]; !ok || has != value {
			return fmt.Sprintf("the node selector wants %s=%s", key, value)
		}
	}
	if required := p.object.Spec.Affinity.NodeAffinity.Required; required != nil && !required.matches(node) {
		return "the required node affinity does not match"
	}
	return ""
}

// matches reports whether one of the terms matches the node. A term without requirements matches nothing.
func (n *nodeSelector) matches(node *nodeObject) bool {
	for _, term := range n.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue
		}
		fields := map[string]string{"metadata.name": node.Metadata.Name}
		if all(term.MatchExpressions, node.Metadata.Labels) && all(term.MatchFields, fields) {
			return true
		}
	}
	return false
}

// all reports whether all requirements are met by the labels.
func all(requirements []requirement, labels map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r requirement) bool { return !r.matches(labels) })
}

// matches reports whether the labels meet the requirement.
func (r *requirement) matches(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		n, err := strconv.ParseInt(value, 10, 64)
		limit, lerr := strconv.ParseInt(r.Values[0], 10, 64)
		return has && err == nil && lerr == nil && (r.Operator == "Gt" && n > limit || r.Operator == "Lt" && n < limit)
	}
	return false
}

// matches reports whether the selector matches the labels; a missing selector matches nothing.
func (l *labelSelector) matches(labels map[string]string) bool {
	if l == nil {
		return false
	}
	for key, value := range l.MatchLabels {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	return all(l.MatchExpressions, labels)
}
