// Package workload reads the input of a simulation: nodes, and the pods and other objects that come to them.
//
// It owns the plans (NodePlan, PodPlan, ObjectPlan): an object, and the offsets from Start at which it comes, changes
// and goes. It owns the formats too:
//
//   - Kubernetes YAML and JSON: Node, Pod, Job, PodGroup, volumes and claims, priority classes. Annotations such as
//     rollcall.dev/arrival and rollcall.dev/duration give virtual times. The jobs of other projects are rows of the
//     table podKinds in kinds.go, with the places of their pod templates and counts, and the pods that are a gang.
//   - The two CSV files of the Alibaba "openb" GPU trace.
//   - The Standard Workload Format (SWF): a job of N processors is a gang of N pods.
//   - Exports of a log of Rollcall, one JSON object a line: its inputs happen again, without its decisions.
//   - Shapes of nodes, such as 16x16cpu.
//
// The readers choose the format by the content of a file, never by its name. They are strict: they refuse unknown
// input with an *InputError that has file, line and reason. For example, a Pod with a negative rollcall.dev/duration
// is refused; it is not read as a pod that runs for ever.
//
// The package never runs anything and knows no scheduler: package sim does that with the plans.
//
// Start reading at plan.go, then Read in read.go.
package workload
