package auditor

import (
	"fmt"
	"slices"
)

// claims are the names of the claims that a pod uses, with its namespace.
func (p *pod) claims() (names []string) {
	for _, v := range p.object.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, p.object.Metadata.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// settled returns the volume that a claim has, or has been given by a placement whose bind is not known yet. ok is
// false if it has none; the name is "" if one will be provisioned on that pod's node.
func (s *state) settled(claim string) (volume, node string, ok bool) {
	if c := s.claims[claim]; c != nil && c.Spec.VolumeName != "" {
		return c.Spec.VolumeName, "", true
	}
	for _, p := range s.pods {
		for short, volume := range p.settles {
			if p.onNode() && p.object.Metadata.Namespace+"/"+short == claim {
				return volume, p.node, true
			}
		}
	}
	return "", "", false
}

// volumesUnreachable forbids a node from which a claim's volume cannot be reached, and where a claim without a volume
// can get none.
func (s *state) volumesUnreachable(p *pod, node *nodeObject, _ without) string {
	given := map[string]string{}
	for _, name := range p.claims() {
		claim := s.claims[name]
		if claim == nil {
			return fmt.Sprintf("claim %s is not there", name)
		}
		volume, on, ok := s.settled(name)
		switch {
		case ok && volume == "" && on != node.Metadata.Name:
			return fmt.Sprintf("claim %s gets its volume on %s", name, on)
		case ok && volume != "":
			if v := s.volumes[volume]; v == nil || !v.reachable(node) {
				return fmt.Sprintf("volume %s of claim %s cannot be reached from there", volume, name)
			}
		case !ok:
			if why := s.noVolumeFor(claim, node, given); why != "" {
				return fmt.Sprintf("claim %s: %s", name, why)
			}
		}
	}
	return ""
}

// reachable reports whether the volume's node affinity allows the node.
func (v *volumeObject) reachable(node *nodeObject) bool {
	return v.Spec.NodeAffinity.Required == nil || v.Spec.NodeAffinity.Required.matches(node)
}

// noVolumeFor returns the reason why a claim can get no volume on a node: no existing one suits it, and none can be
// provisioned. It takes any suitable volume, where the scheduler takes the smallest. So for several claims of one pod
// it may find a way where the scheduler finds none; for one claim it is exact.
func (s *state) noVolumeFor(claim *claimObject, node *nodeObject, given map[string]string) string {
	class := s.classes[claim.Spec.StorageClassName]
	switch {
	case class == nil:
		return fmt.Sprintf("storage class %q is not there", claim.Spec.StorageClassName)
	case class.VolumeBindingMode != "WaitForFirstConsumer":
		return "it is not bound, and its class binds at once"
	}
	for name, v := range s.volumes {
		if s.unsuited(v, claim) == "" && v.reachable(node) && given[name] == "" {
			given[name] = claim.Metadata.Name
			return ""
		}
	}
	if class.Provisioner == "kubernetes.io/no-provisioner" {
		return "no volume suits, and none can be provisioned"
	}
	if !class.allows(node) {
		return "its class provisions no volume there"
	}
	return ""
}

// allows reports whether the class's topologies allow the node.
func (c *classObject) allows(node *nodeObject) bool {
	if len(c.AllowedTopologies) == 0 {
		return true
	}
	for _, term := range c.AllowedTopologies {
		matches := true
		for _, e := range term.MatchLabelExpressions {
			value, has := node.Metadata.Labels[e.Key]
			matches = matches && has && slices.Contains(e.Values, value)
		}
		if matches {
			return true
		}
	}
	return false
}

// unsuited returns the reason why a volume does not suit a claim, "" if it does.
func (s *state) unsuited(v *volumeObject, claim *claimObject) string {
	if r := v.Spec.ClaimRef; r != nil && (r.Namespace != claim.Metadata.Namespace || r.Name != claim.Metadata.Name) {
		return fmt.Sprintf("it is claim %s/%s's", r.Namespace, r.Name)
	}
	for _, p := range s.pods {
		for other, volume := range p.settles {
			if p.onNode() && volume == v.Metadata.Name && (other != claim.Metadata.Name ||
				p.object.Metadata.Namespace != claim.Metadata.Namespace) {
				return fmt.Sprintf("the placement of pod %s gives it to claim %s", p.name, other)
			}
		}
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			return "it does not have the access mode " + mode
		}
	}
	switch {
	case v.Spec.StorageClassName != claim.Spec.StorageClassName:
		return fmt.Sprintf("it is of the class %q", v.Spec.StorageClassName)
	case v.Spec.Capacity.of("storage").Cmp(claim.Spec.Resources.Requests.of("storage")) < 0:
		return "it is too small"
	}
	return ""
}

// volumesInUse forbids a claim that only one pod may use, and that another one uses.
func (s *state) volumesInUse(p *pod, _ *nodeObject, gone without) string {
	for _, name := range p.claims() {
		claim := s.claims[name]
		if claim == nil || !slices.Contains(claim.Spec.AccessModes, "ReadWriteOncePod") {
			continue
		}
		for _, other := range s.pods {
			if other != p && other.onNode() && !gone[other.uid] && slices.Contains(other.claims(), name) {
				return fmt.Sprintf("pod %s uses claim %s, which only one pod may use", other.name, name)
			}
		}
	}
	return ""
}

// checkClaims checks that a placement settles just the claims that have no volume yet, each with one that suits it and
// can be reached.
func (a *auditor) checkClaims(p *pod, d *decision, node *nodeObject) {
	const check = "volumes"
	if profile := a.profiles[p.object.Spec.SchedulerName]; profile == nil || !profile.plugins["VolumeBinding"] {
		return
	}
	settles := map[string]string{}
	for _, v := range d.Volumes {
		name := p.object.Metadata.Namespace + "/" + v.Claim
		settles[name] = v.Volume
		if !slices.Contains(p.claims(), name) {
			a.find(check, "pod %s settles claim %s, which it does not use", p.name, v.Claim)
		}
	}
	taken := map[string]string{}
	for _, name := range p.claims() {
		volume, given := settles[name]
		if a.claims[name] == nil {
			continue // another check reports it
		}
		if why := a.badlySettled(name, volume, given, node); why != "" {
			a.find(check, "pod %s, claim %s: %s", p.name, name, why)
		} else if taken[volume] != "" {
			a.find(check, "pod %s: the claims %s and %s both get volume %s", p.name, taken[volume], name, volume)
		}
		if volume != "" {
			taken[volume] = name
		}
	}
}

// badlySettled returns the fault of a placement's volume for a claim, or of giving it none.
func (a *auditor) badlySettled(name, volume string, given bool, node *nodeObject) string {
	claim, v := a.claims[name], a.volumes[volume]
	assumed, on, has := a.settled(name)
	switch {
	case given && claim.Spec.VolumeName != "":
		return fmt.Sprintf("it has volume %s, and gets one", claim.Spec.VolumeName)
	case !given && !has:
		return "it has no volume, and gets none"
	case given && has: // another pod's placement settles it at the same instant
		if assumed != volume || volume == "" && on != node.Metadata.Name {
			return fmt.Sprintf("another placement gives it volume %q on %s, and this one %q", assumed, on, volume)
		}
	case given && volume != "" && v == nil:
		return fmt.Sprintf("it gets volume %s, which is not there", volume)
	case given && volume != "":
		if why := a.unsuited(v, claim); why != "" {
			return fmt.Sprintf("it gets volume %s: %s", volume, why)
		}
		if !v.reachable(node) {
			return fmt.Sprintf("it gets volume %s, which cannot be reached from %s", volume, node.Metadata.Name)
		}
	}
	return ""
}
