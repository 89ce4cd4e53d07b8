// Command plugin is a rollcall with the plugin Ticket compiled in, which takes part in the binding cycle of pods.
package main

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/rollcall-sched/rollcall/cmd/rollcall/app"
	"github.com/rollcall-sched/rollcall/framework"
)

func main() { os.Exit(app.Run(app.NewCommand(app.WithPlugin(name, newTicket)))) }

const name = "Ticket"

// ticket gives a pod a ticket in PreBind, as an annotation, and marks it in PostBind. It refuses those with the label
// ticket=none. Its Filter asks the API server, which must fail: a pod whose request succeeds is refused.
type ticket struct{ handle fwk.Handle }

var (
	_ fwk.FilterPlugin   = ticket{}
	_ fwk.PreBindPlugin  = ticket{}
	_ fwk.PostBindPlugin = ticket{}
)

func newTicket(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return ticket{h}, nil
}

// Name implements fwk.Plugin.
func (ticket) Name() string { return name }

// Filter implements fwk.FilterPlugin.
func (t ticket) Filter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	_, err := t.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err == nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the API server answers within a cycle")
	}
	return nil
}

// PreBindPreFlight implements fwk.PreBindPlugin.
func (ticket) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult,
	*fwk.Status) {
	return nil, nil
}

// PreBind implements fwk.PreBindPlugin.
func (t ticket) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if pod.Labels["ticket"] == "none" {
		return fwk.NewStatus(fwk.Unschedulable, "there is no ticket for it")
	}
	return fwk.AsStatus(t.annotate(ctx, pod, "ticket", node))
}

// PostBind implements fwk.PostBindPlugin.
func (t ticket) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if err := t.annotate(ctx, pod, "arrived", node); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (t ticket) annotate(ctx context.Context, pod *v1.Pod, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, key, value)
	_, err := t.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(framework.WithoutLogger(ctx), pod.Name,
		types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
