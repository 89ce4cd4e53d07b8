package workload

import "testing"

// TestPodsThatAClusterTakesAreRead reads pods that validation refuses out of its context: a privileged container, which
// the API server allows, and the mount of a StatefulSet's claim, which its controller makes a volume of.
func TestPodsThatAClusterTakesAreRead(t *testing.T) {
	in, err := readText(`
apiVersion: v1
kind: Pod
metadata: {name: agent}
spec:
  initContainers: [{name: setup, securityContext: {privileged: true}}]
  containers: [{name: c, securityContext: {privileged: true}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, volumeMounts: [{name: data, mountPath: /data}, {name: own, mountPath: /own}]}]
      volumes: [{name: data, emptyDir: {}}, {name: own, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(in.workload.Pods) != 3 {
		t.Fatalf("%d pods", len(in.workload.Pods))
	}
	for i, name := range []string{"data-db-0", "data-db-1"} {
		volumes := in.workload.Pods[1+i].Template.Spec.Volumes
		if len(volumes) != 2 || volumes[0].PersistentVolumeClaim == nil ||
			volumes[0].PersistentVolumeClaim.ClaimName != name || volumes[1].Name != "own" {
			t.Errorf("pod %d has the volumes %+v", i, volumes)
		}
	}
	_, err = readText(`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, volumeMounts: [` +
		`{name: none, mountPath: /x}]}]}}`)
	if err == nil {
		t.Error("a mount of no volume is read")
	}
}
