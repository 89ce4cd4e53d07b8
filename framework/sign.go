package framework

import (
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// findSigners gathers the plugins that take part in placing a pod. All of them have to sign.
func (p *Profile) findSigners() {
	for _, point := range []ExtensionPoint{PreFilter, Filter, PreScore, Score} {
		for _, name := range p.at[point] {
			signer, ok := p.plugins[name].(fwk.SignPlugin)
			switch {
			case !ok:
				p.unsigned = append(p.unsigned, p.ids[name])
			case !slices.ContainsFunc(p.signers, func(s entry[fwk.SignPlugin]) bool { return s.name == name }):
				p.signers = append(p.signers, entry[fwk.SignPlugin]{signer, name, p.ids[name]})
			}
		}
	}
}

// SignPod returns the pod's signature: pods of equal signature have equal feasible nodes and scores in any
// one state. nil means that nothing can be said about the pod: a plugin refuses to sign it or cannot sign.
func (p *Profile) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	if len(p.unsigned) > 0 {
		return nil
	}
	if whole, _, _ := p.sign(ctx, pod); whole != "" {
		return fwk.PodSignature(whole)
	}
	return nil
}

// sign returns the pod's signature, "" for none; that of the plugins that sign and do not stand apart from classes; and, by
// plugin id, which plugins do not sign.
func (p *Profile) sign(ctx context.Context, pod *v1.Pod) (whole, steady string, unsigned []bool) {
	unsigned = make([]bool, len(p.plugins))
	all := len(p.unsigned) == 0
	for _, id := range p.unsigned {
		unsigned[id] = true
	}
	parts := map[string]any{fwk.SchedulerNameSignerName: pod.Spec.SchedulerName}
	steadyParts := map[string]any{fwk.SchedulerNameSignerName: pod.Spec.SchedulerName}
	for _, s := range p.signers {
		fragments, status := s.plugin.SignPod(ctx, pod)
		if !status.IsSuccess() {
			unsigned[s.id], all = true, false
			continue
		}
		for _, f := range fragments {
			parts[f.Key] = f.Value
			if !p.apart[s.id] {
				steadyParts[f.Key] = f.Value
			}
		}
	}
	steady, ok := marshalParts(steadyParts)
	if !ok { // then none of them has signed
		for id := range unsigned {
			unsigned[id] = true
		}
		return "", "", unsigned
	}
	if all {
		whole, _ = marshalParts(parts)
	}
	return whole, steady, unsigned
}

func marshalParts(parts map[string]any) (string, bool) {
	b, err := json.Marshal(parts) // keys sorted
	return string(b), err == nil
}

// SignPod is the profile's.
func (h *handle) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	return h.p.SignPod(ctx, pod)
}
