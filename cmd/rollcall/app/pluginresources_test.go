package app

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// siteZone is another author's plugin that reads a resource of its own: pods go only to the nodes that a Zone of their
// namespace lists in spec.nodes. rollcall-zones has it.
type siteZone struct{ zones cache.GenericLister }

// siteZones is the resource, as the program says that the plugin reads it.
var siteZones = eventlog.OwnResource{
	Resource: "zones.example.com", Version: "v1", Kind: "Zone", Namespaced: true, Fields: []string{"spec.nodes"},
}

func newSiteZone(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	zones, err := h.SharedInformerFactory().ForResource(
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "zones"})
	if err != nil {
		return nil, err
	}
	return &siteZone{zones.Lister()}, nil
}

func (*siteZone) Name() string { return "SiteZone" }

func (p *siteZone) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	zones, err := p.zones.ByNamespace(pod.Namespace).List(labels.Everything())
	if err != nil {
		return fwk.AsStatus(err)
	}
	for _, zone := range zones {
		nodes, _, err := unstructured.NestedStringSlice(zone.(*unstructured.Unstructured).Object, "spec", "nodes")
		if err != nil {
			return fwk.AsStatus(err)
		}
		for _, name := range nodes {
			if name == node.Node().Name {
				return nil
			}
		}
	}
	return fwk.NewStatus(fwk.Unschedulable, "node(s) are in no zone")
}

func (*siteZone) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: "zones.v1.example.com", ActionType: fwk.Add | fwk.Update},
	}}, nil
}

func TestWhatPluginsReadThatCannotBeIsRefused(t *testing.T) {
	zone := WithPlugin("SiteZone", newSiteZone)
	secrets := siteZones
	secrets.Resource = "secrets"
	for want, options := range map[string][]Option{
		`what plugin "SiteZone" reads: resource "secrets": it is never logged`: {
			zone, WithPluginResources("SiteZone", secrets)},
		`what plugin "SiteZone" reads is said twice`: {
			zone, WithPluginResources("SiteZone", siteZones), WithPluginResources("SiteZone", siteZones)},
		`what plugin "SiteZone" reads is said, and there is no such plugin`: {
			WithPluginResources("SiteZone", siteZones)},
	} {
		if err := executed(t, options, "version"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
}
