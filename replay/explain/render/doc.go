// Package render writes an explanation for people: Pod, Group and Composite. The first line is the answer in
// one sentence. Facts under labels and tables follow, on which the answer rests.
//
// It owns the layout, and how much of a long list is shown. Its sentences are made of the phrases of package phrase, as
// the messages of reasons are. All that it knows stands in the value of package answer that it is given; it never reads
// a log or the state of a scheduler.
//
// Start reading at Pod, then page.go and tables.go.
package render
