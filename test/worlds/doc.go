// Package worlds makes small random worlds to try the scheduler in: nodes, a workload, a configuration and the flags
// of a simulation, all from a seed. The same seed always gives the same files.
//
// A world is of 2 to 30 nodes and 5 to 80 pods, and is made to be hard: room is tight, arrivals and ends fall on the
// same instants, priorities are equal as often as not. It draws from every way to name a gang, from plain pods and
// Jobs, from all three queue policies, and from everything that can forbid a node: selectors, affinity, taints,
// spread, ports, volumes, devices. Nodes join, fail and are cordoned; pods are deleted and made again under the same
// name.
//
// The package only writes files. It knows no package of the product and imports the standard library only, so that
// what it takes for possible is not what the product happens to do. Package test/worlds/auditor checks what the
// program makes of a world; cmd/rollcall/app has the test that brings the two together.
//
// Start reading at world.go.
package worlds
