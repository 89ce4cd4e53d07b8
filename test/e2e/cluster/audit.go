package cluster

// auditPolicy logs the data that the accountant reads: whole requests and answers for changes of pods, nodes and
// PodGroups and for the accountant's own requests, and the users of other requests. Node leases, which are renewed all
// the time, are left out.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: RequestResponse
  users: [accountant]
  omitStages: [RequestReceived]
- level: None
  resources: [{group: coordination.k8s.io, resources: [leases]}]
  namespaces: [kube-node-lease]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/metrics*", "/openapi/*", "/version"]
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: "", resources: [pods/binding, bindings, pods/eviction]}
- level: RequestResponse
  verbs: [delete, deletecollection]
  resources: [{group: "", resources: [pods]}]
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  omitStages: [RequestReceived]
  resources:
  - {group: "", resources: [pods, pods/status, pods/resize, nodes, nodes/status]}
  - {group: scheduling.k8s.io, resources: [podgroups, compositepodgroups]}
  - {group: scheduling.x-k8s.io, resources: [podgroups]}
- level: RequestResponse
  verbs: [get]
  omitStages: [RequestReceived]
  resources: [{group: "", resources: [pods]}]
- level: Metadata
  omitStages: [RequestReceived]
`

// auditCheapPolicy logs binds, and the users of other requests, at little cost: for measurements.
const auditCheapPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
`
