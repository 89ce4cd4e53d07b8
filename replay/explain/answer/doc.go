// Package answer holds what an explanation says: Pod, Group and Composite, and the parts that they are made of. Their
// JSON form is what `rollcall explain -o json` prints.
//
// The package owns these types, the codes of reasons (Code), and the meaning of each field. Amounts of resources are in
// their base unit, cpu in thousandths of a core. Lists have a limit, and a field beside each says how much more there
// is.
//
// It holds values only: package explain fills them in, and package render writes them for people. It never reads a log.
//
// Start reading at Pod, then Reason.
package answer
