// Package incident makes the input files of one simulation: a day of 60 nodes and 80 gangs on which several things go
// wrong. Tests of the commands that answer questions about a log ask about it. The files are the same every time.
//
//	err := incident.Write(dir) // dir/nodes.yaml and dir/workload.yaml, for rollcall simulate
//
// A script of cmd/rollcall/app has the command for it:
//
//	incident world
//	exec rollcall simulate --nodes world/nodes.yaml --workload world/workload.yaml --log incident.db
//
// The simulation begins at 2026-01-01T00:00:00Z. The cluster has the nodes gpu-00 to gpu-59. Each has 8 GPUs and the
// labels rack, zone and gpu-model. A rack has eight nodes, the last one four. The gangs are Jobs with PodGroups, so
// that lost and evicted pods come again. Their namespaces are their teams. The constants name the nodes and gangs.
//
//   - The nodes of LostRack stop to answer at 13:24:10. They are unreachable from 13:25:00 on, and lose their pods at
//     13:30:00. They are back at 14:25:00.
//   - The gang Train had the whole rack, and has to have all of one. It waits until the nodes are back.
//   - The storm: four gangs of the team serving come from 13:35 on. They have a high priority and evict other gangs.
//   - The gang Oversized asks for 16 GPUs for each pod. No node has them.
//   - The gang Mistyped asks for the GPU model h100. The nodes have H100.
//   - The gang Unclaimed uses a PersistentVolumeClaim that does not exist.
//   - Cordoned is cordoned at 12:50 and uncordoned at 15:30.
//   - Drained is drained at 10:00 and uncordoned at 11:00.
//   - Failed is deleted at 18:00, and a node of that name joins at 18:30.
//   - The team research has the lowest priority, and waits long.
//
// The package knows nothing about the product but the form of its input files.
package incident
