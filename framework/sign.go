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
				p.unsigned = append(p.unsigned, name)
			case !slices.ContainsFunc(p.signers, func(s fwk.SignPlugin) bool { return s.Name() == name }):
				p.signers = append(p.signers, signer)
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
	parts := map[string]any{fwk.SchedulerNameSignerName: pod.Spec.SchedulerName}
	for _, s := range p.signers {
		fragments, status := s.SignPod(ctx, pod)
		if !status.IsSuccess() {
			return nil
		}
		for _, f := range fragments {
			parts[f.Key] = f.Value
		}
	}
	signature, err := json.Marshal(parts) // keys sorted
	if err != nil {
		return nil
	}
	return signature
}

// SignPod is the profile's.
func (h *handle) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	return h.p.SignPod(ctx, pod)
}
