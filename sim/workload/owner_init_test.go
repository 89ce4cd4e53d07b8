package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The init containers that controllers add request what another container of the pod requests, too.
func TestPodsHaveTheInitContainersOfTheirControllers(t *testing.T) {
	const cpu, all = "{cpu: 10m}", "{cpu: 10m, memory: 1Mi, ephemeral-storage: 1Mi}"
	set := func(name, requests string) string {
		return name + ": {template: {spec: {containers: [{name: c, resources: {requests: " + requests + "}}]}}}"
	}
	pytorch := func(sets ...string) string {
		return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {pytorchReplicaSpecs: {" +
			strings.Join(sets, ", ") + "}}\n"
	}
	mpi := func(version string) string {
		return "apiVersion: kubeflow.org/" + version + "\nkind: MPIJob\nmetadata: {name: a}\n" +
			"spec: {mpiReplicaSpecs: {" + set("Launcher", all) + ", " + set("Worker", all) + "}}\n"
	}
	for _, tc := range []struct{ text, want string }{
		{pytorch(set("Master", all), set("Worker", all)), "init-pytorch cpu 50m..100m memory 10Mi..20Mi"},
		{pytorch(set("Master", all), set("Worker", cpu)), "init-pytorch cpu 50m..100m"},
		{pytorch(set("Worker", all)), ""},
		{mpi("v1"), "kubectl-delivery cpu 100m..100m ephemeral-storage 5Gi..5Gi memory 512Mi..512Mi"},
		{mpi("v2beta1"), ""},
		{"apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec: {" +
			strings.Replace(set("headGroupSpec", all), "{template", "{rayStartParams: {}, template", 1) +
			", workerGroupSpecs: [{groupName: w, replicas: 1, template: {spec: {containers: [{name: c, resources: " +
			"{requests: {memory: 1Mi}}}]}}}]}\n", "wait-gcs-ready memory 256Mi..256Mi"},
	} {
		_, w := parse(t, tc.text)
		var got []string
		for i := range w.Pods {
			for _, c := range w.Pods[i].Template.Spec.InitContainers {
				text := c.Name
				for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
					request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
					text += fmt.Sprintf(" %s %s..%s", name, request.String(), limit.String())
				}
				got = append(got, text)
			}
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s\n%q, want %q", tc.text, got, tc.want)
		}
	}
}
