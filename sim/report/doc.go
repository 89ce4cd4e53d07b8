// Package report holds the outcome of a simulation, in forms for people and programs.
//
// It owns four things:
//
//   - Account: the running counts and sums of a simulation, and the Summary that they make at its end.
//   - Times and Row: the times of a job's events (a group, or a pod of no group), as a line of CSV.
//   - Timeline: utilisation, queue lengths and reservations over virtual time, bounded in memory.
//   - Figure: a Timeline as a drawing of package internal/svgplot.
//
// Time is an offset from the start of the simulation. All figures follow from the simulation's events, so the same run
// gives the same report; only the scheduler's own speed (Summary.Measured) is measured.
//
// The package never drives a simulation and opens no file: package sim reports the events.
//
// Start reading at Summary.
package report
