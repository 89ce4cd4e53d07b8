package framework

import (
	"fmt"
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// carriedOut are the plugins of the extension points behind a cycle whose work is done without calling them: the claims
// of a placement are in the Decision, and the bind is an effect. A pod for which DynamicResources would have work there
// is refused before.
var carriedOut = map[ExtensionPoint][]string{
	PreBind: {names.VolumeBinding, names.DynamicResources},
	Bind:    {names.DefaultBinder},
}

// isCarriedOut reports whether a plugin is called at no extension point behind a cycle, because effects do its work.
func (p *Profile) isCarriedOut(name string) bool {
	return slices.Contains(carriedOut[PreBind], name) || slices.Contains(carriedOut[Bind], name)
}

// UncalledError says that a profile enables a plugin that is never called, by the rules of before behaviour 6.
type UncalledError struct {
	Profile string
	Point   ExtensionPoint
	Plugin  string
}

// Error implements error.
func (e *UncalledError) Error() string {
	return fmt.Sprintf("profile %q: %s: plugin %q would never be called: what is behind a decision is done by "+
		"effects, "+
		"not by plugins; disable it at this extension point", e.Profile, e.Point, e.Plugin)
}

// Uncalled returns an *UncalledError for a plugin of PreBind, Bind or PostBind that the profile enables and that
// nothing stands in for; nil if there is none. Such plugins are called from behaviour 6 on.
func (p *Profile) Uncalled() error {
	for _, point := range []ExtensionPoint{PreBind, Bind, PostBind} {
		for _, name := range p.at[point] {
			if !slices.Contains(carriedOut[point], name) {
				return &UncalledError{Profile: p.name, Point: point, Plugin: name}
			}
		}
	}
	return nil
}
