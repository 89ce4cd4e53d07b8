package dumptest

// nodeText is a node: its number and its zone.
const nodeText = `        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "annotations": {"node.alpha.kubernetes.io/ttl": "0",
                    "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                "creationTimestamp": "2026-11-01T00:00:00Z",
                "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "node-%05[1]d", "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/zone": "zone-%[2]d"},
                "name": "node-%05[1]d",
                "resourceVersion": "771%[1]d",
                "uid": "00000000-0000-4000-8000-%012[1]d"
            },
            "spec": {"podCIDR": "10.0.0.0/24", "providerID": "made-up:///node-%05[1]d"},
            "status": {
                "addresses": [{"address": "10.0.0.1", "type": "InternalIP"}],
                "allocatable": {"cpu": "32", "ephemeral-storage": "95551679124", "memory": "131072000Ki", "pods": "110"},
                "capacity": {"cpu": "32", "ephemeral-storage": "103679730Ki", "memory": "131972000Ki", "pods": "110"},
                "conditions": [
                    {"lastHeartbeatTime": "2026-11-28T07:00:00Z", "lastTransitionTime": "2026-11-01T00:01:00Z",
                        "message": "kubelet has sufficient memory available", "reason": "KubeletHasSufficientMemory",
                        "status": "False", "type": "MemoryPressure"},
                    {"lastHeartbeatTime": "2026-11-28T07:00:00Z", "lastTransitionTime": "2026-11-01T00:01:00Z",
                        "message": "kubelet is posting ready status", "reason": "KubeletReady", "status": "True",
                        "type": "Ready"}
                ],
                "images": [
                    {"names": ["registry.example/train@sha256:8f1c", "registry.example/train:v3"], "sizeBytes": 2871923712},
                    {"names": ["registry.example/pause:3.10"], "sizeBytes": 314612}
                ],
                "nodeInfo": {"architecture": "amd64", "kernelVersion": "6.8.0", "kubeletVersion": "v1.37.0",
                    "operatingSystem": "linux", "osImage": "Ubuntu 24.04 LTS"}
            }
        }`

// podText is a pod: a shard, its number, its team, its owner, its cpu, and the member with its node. Then come the
// status of its conditions, minutes and seconds of its times, and its phase.
const podText = `        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "annotations": {"kubernetes.io/psp": "restricted", "prometheus.io/scrape": "true"},
                "creationTimestamp": "2026-11-28T05:%02[8]d:%02[9]dZ",
                "generateName": "web-",
                "labels": {"app": "web-%[3]d", "env": "prod", "pod-template-hash": "7d4b9c6f5"},
                "name": "web-%05[2]d",
                "namespace": "team-%[3]d",
                "ownerReferences": [{"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true,
                    "kind": "ReplicaSet", "name": "web-%[4]d", "uid": "00000000-0000-4000-9000-%012[4]d"}],
                "resourceVersion": "88%[2]d",
                "uid": "00000000-0000-4000-a000-%012[2]d"
            },
            "spec": {
                "containers": [
                    {
                        "args": ["--port=8080", "--config=/etc/web/config.yaml", "--shard=%[1]d"],
                        "command": ["/usr/local/bin/web"],
                        "env": [
                            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
                            {"name": "DATABASE_URL", "value": "postgres://web@db.example/web"},
                            {"name": "LOG_LEVEL", "value": "info"},
                            {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://otel.example:4317"}
                        ],
                        "image": "registry.example/web:v17",
                        "imagePullPolicy": "IfNotPresent",
                        "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/healthz", "port": 8080,
                            "scheme": "HTTP"}, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                        "name": "web",
                        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                        "readinessProbe": {"failureThreshold": 3, "httpGet": {"path": "/ready", "port": 8080,
                            "scheme": "HTTP"}, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                        "resources": {"limits": {"memory": "4Gi"}, "requests": {"cpu": "%[5]d", "memory": "4Gi"}},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "volumeMounts": [
                            {"mountPath": "/etc/web", "name": "config", "readOnly": true},
                            {"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x7k2p",
                                "readOnly": true}
                        ]
                    }
                ],
                "dnsPolicy": "ClusterFirst",
                "enableServiceLinks": true,
                %[6]s
                "preemptionPolicy": "PreemptLowerPriority",
                "priority": 0,
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {"fsGroup": 2000, "runAsNonRoot": true},
                "serviceAccount": "web",
                "serviceAccountName": "web",
                "terminationGracePeriodSeconds": 30,
                "tolerations": [
                    {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists",
                        "tolerationSeconds": 300},
                    {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                        "tolerationSeconds": 300}
                ],
                "topologySpreadConstraints": [
                    {"labelSelector": {"matchLabels": {"app": "web-%[3]d"}}, "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
                ],
                "volumes": [
                    {"configMap": {"defaultMode": 420, "name": "web-config"}, "name": "config"},
                    {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": [
                        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                        {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            "path": "namespace"}]}}
                    ]}}
                ]
            },
            "status": {
                "conditions": [
                    {"lastProbeTime": null, "lastTransitionTime": "2026-11-28T06:%02[8]d:%02[9]dZ", "status": "%[7]s",
                        "type": "PodScheduled"},
                    {"lastProbeTime": null, "lastTransitionTime": "2026-11-28T06:%02[8]d:%02[9]dZ", "status": "%[7]s",
                        "type": "Ready"}
                ],
                "containerStatuses": [
                    {"containerID": "containerd://4be1c6d3b1f1c0ffee", "image": "registry.example/web:v17",
                        "imageID": "registry.example/web@sha256:77aa", "lastState": {}, "name": "web", "ready": true,
                        "restartCount": 0, "started": true, "state": {"running": {"startedAt": "2026-11-28T06:00:10Z"}}}
                ],
                "hostIP": "10.0.0.1",
                "phase": "%[10]s",
                "podIP": "10.1.0.1",
                "podIPs": [{"ip": "10.1.0.1"}],
                "qosClass": "Burstable",
                "startTime": "2026-11-28T06:00:00Z"
            }
        }`
