package transcripts

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// quotas is the resource that Quota reads.
var quotas = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "quotas"}

// quota is a plugin that reads a resource of its own. A pod labelled quota=NAME goes only to the nodes that the Quota
// of that name and of its namespace lists: spec.nodes, a list of objects with the field name. Without such a Quota it
// goes nowhere. A Quota that comes, changes or goes concerns the pods that name it.
type quota struct{ lister cache.GenericLister }

var (
	_ fwk.PreFilterPlugin   = quota{}
	_ fwk.EnqueueExtensions = quota{}
)

func newQuota(_ context.Context, _ kruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
	informer, err := h.SharedInformerFactory().ForResource(quotas)
	if err != nil {
		return nil, err
	}
	return quota{informer.Lister()}, nil
}

// Name implements fwk.Plugin.
func (quota) Name() string { return "Quota" }

// PreFilter implements fwk.PreFilterPlugin.
func (q quota) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult,
	*fwk.Status) {
	name := pod.Labels["quota"]
	if name == "" {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	object, err := q.lister.ByNamespace(pod.Namespace).Get(name)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "there is no quota "+name)
	}
	listed, _, err := unstructured.NestedSlice(object.(*unstructured.Unstructured).Object, "spec", "nodes")
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	result := &fwk.PreFilterResult{NodeNames: sets.New[string]()}
	for _, node := range listed {
		if node, ok := node.(map[string]any); ok {
			if name, ok := node["name"].(string); ok {
				result.NodeNames.Insert(name)
			}
		}
	}
	return result, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (quota) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// EventsToRegister implements fwk.EnqueueExtensions.
func (quota) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: "quotas.v1.example.com", ActionType: fwk.Add | fwk.Update | fwk.Delete},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, now any) (fwk.QueueingHint, error) {
			if now == nil {
				now = before
			}
			of, ok := now.(*unstructured.Unstructured)
			if ok && of.GetNamespace() == pod.Namespace && of.GetName() == pod.Labels["quota"] {
				return fwk.Queue, nil
			}
			return fwk.QueueSkip, nil
		},
	}}, nil
}
