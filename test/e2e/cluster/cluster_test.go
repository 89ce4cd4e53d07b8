package cluster_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// TestAClusterKeepsItsObjectsOverKillsOfItsServers kills and suspends each server.
func TestAClusterKeepsItsObjectsOverKillsOfItsServers(t *testing.T) {
	begun := time.Now()
	c := cluster.ForTest(t, cluster.Options{})
	t.Logf("the cluster started in %v", time.Since(begun).Round(time.Millisecond))
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := func(after string) {
		t.Helper()
		if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
			t.Fatalf("after %s: %v", after, err)
		}
	}
	begun = time.Now()
	if err := c.APIServer.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("the API server started again in %v", time.Since(begun).Round(time.Millisecond))
	kept("the API server was killed")

	if err := c.Etcd.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	kept("etcd was killed")

	if err := c.APIServer.Suspend(); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancelShort()
	if _, err := client.CoreV1().ConfigMaps("default").Get(short, "kept", metav1.GetOptions{}); err == nil {
		t.Error("a suspended API server answered")
	}
	if err := c.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	kept("the API server was suspended")
}

// TestPodGroupsOfEachAPIAreServedAsAskedFor reads the lists of both PodGroups.
func TestPodGroupsOfEachAPIAreServedAsAskedFor(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{GenericWorkload: true, WithoutCRD: true})
	client := kubernetes.NewForConfigOrDie(c.Config())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.SchedulingV1beta1().PodGroups("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("scheduling.k8s.io/v1beta1: %v", err)
	}
	custom := func() error {
		page := "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
		return client.Discovery().RESTClient().Get().AbsPath(page).Do(ctx).Error()
	}
	if err := custom(); err == nil {
		t.Error("PodGroups of scheduling.x-k8s.io are served before they were installed")
	}
	if err := c.InstallCRD(ctx); err != nil {
		t.Fatal(err)
	}
	if err := custom(); err != nil {
		t.Errorf("scheduling.x-k8s.io/v1alpha1: %v", err)
	}
}
