// Package answer has the types of an explanation: Pod, Group and Composite, and their parts. Their JSON form is the
// output of `rollcall explain -o json`.
//
// The package owns these types, the codes of reasons (Code), and the meaning of each field. Amounts of resources are in
// their base unit, cpu in thousandths of a core. Lists have a limit, and a field beside each has the number of the
// rest.
//
// It has values only: package explain fills them in, and package render writes them for people. It never reads a log.
//
// Start reading at Pod, then Reason.
package answer
