// Package report holds the outcome of a simulation, and how people and programs read it.
//
// It owns four things:
//
//   - Account: the counts and sums that a simulation keeps on its way, and the Summary that they make at its end.
//   - Times and Row: when what happened to a job (a group, or a pod of no group), as a line of CSV.
//   - Timeline: utilisation, queue lengths and reservations over virtual time, bounded in memory.
//   - Figure: a Timeline as a drawing of package sim/svgplot.
//
// Time is an offset from the start of the simulation. All figures follow from what the simulation tells, so the same
// run gives the same report; only the scheduler's own speed (Summary.Measured) is measured.
//
// The package never drives a simulation and opens no file: package sim tells it what happens.
//
// Start reading at Summary.
package report
