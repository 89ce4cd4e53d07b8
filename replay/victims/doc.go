// Package victims audits the preemptions of a log. For each Decision that evicts pods for another pod or gang, it
// checks on the state before the Decision whether these victims had to go.
//
// It checks in two ways. First the Decision is made again, by the rules of the log's configuration, and its victims are
// compared. Then each victim is checked by itself, with the plugins' filters and the victim policy. This check does not
// use the search that chooses victims. The members of the gang keep the nodes that the Decision nominates them to. A
// victim that could stay beside them did not have to go. So a fault of the search is found too, though its log replays
// as identical.
//
// The package applies the recorded Decisions as facts. It does not ask whether the preemptor had its turn (package
// replay/order does), nor why a gang below its minimum lost its other pods.
//
// Start reading at Audit.
package victims
