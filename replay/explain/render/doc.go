// Package render writes an explanation for people: Pod, Group and Composite. The first line is the answer in one
// sentence. Facts under labels and tables follow, on which the answer rests.
//
// It owns the layout, and the cut of long lists. Its sentences are made of the phrases of package phrase, as the
// messages of reasons are. It reads only the value of package answer that it is given, never a log or the state of a
// scheduler.
//
// Start reading at Pod, then page.go and tables.go.
package render
