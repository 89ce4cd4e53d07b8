// Package phrase puts parts of an answer into words: an amount, what plugins refused, who was preempted for whom, why a
// pod is pending. Explanations make the message of a reason of them, and the text for people has the same words.
//
// The package owns these phrases. It adds no fact to an answer, and writes no lines or tables: package render does.
//
// Start reading at Refusals and NoNode in phrases.go, then PodPending in pod.go.
package phrase
