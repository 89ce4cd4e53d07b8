// Package watch makes inputs for an engine of what a Kubernetes cluster has. It watches every resource that the log
// carries, cuts the objects down to what is logged, and gives what has changed: Upserted and Deleted payloads.
//
// There is one client-go Reflector a resource (reflect.go), with its streamed lists, bookmarks, relists and answers to
// 410 Gone. It writes into a store of ours (store.go), which trims, encodes and hashes each object. The ledger
// (ledger.go) knows, by name, what the log has: the UID and a hash of the encoding, not the object. What differs from
// that waits until Take. So
//   - an object of which nothing changed that scheduling reads makes no entry: a node's heartbeat makes none;
//   - a deletion that no watch has told of is found by the next list, and is logged with the UID that the log has;
//   - changes that wait are one change: memory is bounded by the number of objects, however fast these change. An
//     object that has changed back, or that came and went, makes no entry. One that was deleted and made again makes
//     two, Deleted with the UID of the first and Upserted of the second.
//
// Changes are taken in the order of their arrival; an object that changes while it waits goes to the end. The first
// Take is an exception. It comes after every first list is in, and is the reconciling step between the recovered state
// (Options.Known) and the cluster: resources in a fixed order, what others refer to first, then nodes, then pods, each
// by namespace and name.
//
// A finished pod holds nothing, and the state forgets it. So it makes one last entry, Upserted with its final phase,
// if the log knows it, and none otherwise: neither at a restart nor when it is deleted. A pod of which the last watch
// event says that it was deleted after it had finished is logged as finished.
//
// What the API server does not serve (no PodGroup API, no custom resource definition) is asked for again every ten
// seconds and holds nothing up. If an API that had objects is not served any more, these count as deleted once the
// server has said so three times in a row: servers that are being upgraded one after the other may differ.
//
// The package keeps whole objects only where effects need them: volumes, claims of volumes and devices, pod groups
// (Whole). Of a pod it keeps what Pod returns. Everything else of a pod, with the secrets that it may hold, is dropped
// where it arrives.
//
// It never decides anything and writes nothing to the API server. Start reading at Watch in watch.go.
package watch
