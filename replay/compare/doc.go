// Package compare finds the differences of two logs: in their configuration, their inputs, their decisions, and the
// outcomes of their gangs and pods.
//
// It reads both logs side by side, with a Machine each. An input is the first appearance of an object, or a change of a
// node. Later changes of pods, claims and statuses follow from decisions in a simulation, so they are not compared.
// Decisions are compared in their order, with the names of pods instead of their UIDs. After the first different
// decision the others are not compared: they are decided in another state.
//
// If the logs begin at different times, all times count from the first entry of each log.
//
// Start reading at Logs in compare.go.
package compare
