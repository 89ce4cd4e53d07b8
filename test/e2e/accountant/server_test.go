package accountant_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/test/e2e/accountant"
	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/nodes"
)

// TestOnARealServerTheAccountantFindsWhatWasPlanted binds pods by hand to a node of two processors. It binds a gang in
// part, and more than the node can hold, while a pod is being deleted and after another one has ended.
func TestOnARealServerTheAccountantFindsWhatWasPlanted(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{GenericWorkload: true})
	nodes.ForTest(t, c.Config(), nodes.Options{
		Count: 1, Capacity: nodes.Capacity("2", "8Gi", "110"), WithoutPods: true,
	})
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check := func(step, wanted string) {
		t.Helper()
		if err := accountant.Look(ctx, c); err != nil {
			t.Fatal(err)
		}
		a, err := accountant.ReadFile(c.AuditLog())
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(a.Check(accountant.Options{}), "\n")
		if wanted == "" && found != "" || !strings.Contains(found, wanted) {
			t.Errorf("%s: found %q, wanted %q", step, found, wanted)
		}
	}
	group := "g"
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: group}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	if _, err := client.SchedulingV1beta1().PodGroups("default").Create(ctx, g, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods("default")
	for _, name := range []string{"g-a", "g-b", "x", "y"} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "c", Image: "i",
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}},
		}}}}
		if strings.HasPrefix(name, "g-") {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		}
		if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(name string) {
		t.Helper()
		if err := pods.Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Target: v1.ObjectReference{Kind: "Node", Name: "node-00000"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bind("x")
	bind("y")
	check("full", "")
	now := int64(0)
	if err := pods.Delete(ctx, "x", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	bind("g-a")
	check("a gang in part", "gang default/g at")
	if err := pods.Delete(ctx, "y", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	bind("g-b")
	check("a full node while a pod is being deleted", "cpu 3000 of 2000, by default/g-a, default/g-b, default/y")
}
