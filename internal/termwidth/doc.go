// Package termwidth fits text for people to the terminal that shows it. It is the one package of the product that asks
// for a terminal's width.
//
// Text that does not go to a terminal stays as it is, byte for byte: scripts and tests read it. Only FitWithin changes
// it. On a terminal a Writer wraps sentences at the width and cuts tables to it. No escape sequence is written.
package termwidth
