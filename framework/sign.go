package framework

import (
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// findSigners collects the plugins that take part in placing a pod. All of them must sign.
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

// SignPod returns the pod's signature, the same as kube-scheduler's own runtime. It returns nil if a plugin refuses or
// is unable to sign. Pods with equal signatures may differ in fields that plugins read, so classes do not use it.
func (p *Profile) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	if len(p.unsigned) > 0 {
		return nil
	}
	parts := map[string]any{fwk.SchedulerNameSignerName: pod.Spec.SchedulerName}
	for _, s := range p.signers {
		fragments, status := s.plugin.SignPod(ctx, pod)
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

// QuickSigner may be implemented by a plugin that can often tell, without signing, that it would sign a pod.
type QuickSigner interface {
	fwk.SignPlugin
	// WouldSign reports whether SignPod would succeed. If it returns false, the caller calls SignPod.
	WouldSign(pod *v1.Pod) bool
}

// unsignedBy returns, by plugin id, the plugins that do not sign for the pod. Their answers about a node may depend on
// more than the node.
func (p *Profile) unsignedBy(ctx context.Context, pod *v1.Pod) []bool {
	out := make([]bool, len(p.plugins))
	for _, id := range p.unsigned {
		out[id] = true
	}
	for _, s := range p.signers {
		if quick, ok := s.plugin.(QuickSigner); ok && quick.WouldSign(pod) {
			continue
		}
		if _, status := s.plugin.SignPod(ctx, pod); !status.IsSuccess() {
			out[s.id] = true
		}
	}
	return out
}

// SignPod calls the profile's SignPod.
func (h *handle) SignPod(ctx context.Context, pod *v1.Pod) fwk.PodSignature {
	return h.p.SignPod(ctx, pod)
}
