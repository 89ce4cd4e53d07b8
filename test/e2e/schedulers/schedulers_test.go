package schedulers_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
	"github.com/rollcall-sched/rollcall/test/e2e/schedulers"
)

// TestAPodIsBoundRunsAndSucceeds has the scheduler bind a pod, and the nodes run it.
func TestAPodIsBoundRunsAndSucceeds(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{})
	client := kubernetes.NewForConfigOrDie(c.Config())
	nodes.ForTest(t, c.Config(), nodes.Options{Count: 3})
	schedulers.ForTest(t, c, schedulers.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods := client.CoreV1().Pods("default")
	watch, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{nodes.DurationAnnotation: "10ms"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var phases []v1.PodPhase
	for e := range watch.ResultChan() {
		p := e.Object.(*v1.Pod)
		if n := len(phases); n == 0 || phases[n-1] != p.Status.Phase {
			phases = append(phases, p.Status.Phase)
		}
		if p.Status.Phase == v1.PodSucceeded {
			if p.Spec.NodeName == "" || len(phases) != 3 {
				t.Errorf("it ran on node %q and was %v", p.Spec.NodeName, phases)
			}
			return
		}
	}
	t.Fatalf("the pod was %v", phases)
}
