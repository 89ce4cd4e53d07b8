// Package worlds makes small random worlds to test the scheduler in: nodes, a workload, a configuration and the flags
// of a simulation, all from a seed. The same seed always gives the same files.
//
// A world has 2 to 30 nodes and 5 to 80 pods, and is made to be hard: room is tight, arrivals and ends fall on the
// same instants, priorities are equal as often as not. It uses every way to name a gang, plain pods and Jobs, and all
// three queue policies. It uses everything that can forbid a node: selectors, affinity, taints, spread, ports,
// volumes, devices. Nodes join, fail and are cordoned; pods are deleted and made again under the same name.
//
// The package only writes files. It imports no package of the product, only the standard library, so that its idea of
// a possible world is independent of the product. Package test/worlds/auditor checks the program's output for a world;
// cmd/rollcall/app has the test that uses both.
//
// Start reading at world.go.
package worlds
