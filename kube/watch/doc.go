// Package watch turns the objects of a Kubernetes cluster into inputs for an engine. It watches every resource that the
// log carries, and cuts the objects down to the logged fields. Its output is the changes: Upserted and Deleted
// payloads.
//
// There is one client-go Reflector a resource (reflect.go), with its streamed lists, bookmarks, relists and answers to
// 410 Gone. It writes into a store of ours (store.go), which trims, encodes and hashes each object. The ledger
// (ledger.go) knows, by name, the version that the log has: the UID and a hash of the encoding, not the object. A
// difference from that version waits until Take. So
//   - an object of which nothing changed that scheduling reads makes no entry: a node's heartbeat makes none;
//   - a deletion that no watch has reported is found by the next list, and is logged with the UID that the log has;
//   - changes that wait are one change: memory is bounded by the number of objects, however fast these change. An
//     object that has changed back, or that came and went, makes no entry. One that was deleted and made again makes
//     two, Deleted with the UID of the first and Upserted of the second.
//
// Changes are taken in the order of their arrival; an object that changes while it waits goes to the end. The first
// Take is an exception. It comes after every first list is in, and is the reconciling step between the recovered state
// (Options.Known) and the cluster. It takes the resources in a fixed order: first the objects that others refer to,
// then nodes, then pods, each by namespace and name.
//
// A finished pod holds nothing, and the state forgets it. So it makes one last entry, Upserted with its final phase,
// if the log knows it, and none otherwise: neither at a restart nor when it is deleted. A pod of which the last watch
// event says that it was deleted after it had finished is logged as finished.
//
// A resource that the API server does not serve (no PodGroup API, no custom resource definition) is asked for again
// every ten seconds and holds nothing up. If an API that had objects is no longer served, these count as deleted once
// the server has said so three times in a row. One answer is not enough, because servers that are being upgraded one
// after the other may differ.
//
// The package keeps whole objects only where effects need them: volumes, claims of volumes and devices, pod groups
// (Whole). It keeps the parts of a pod that Pod returns. Everything else of a pod, with the secrets that it may hold,
// is dropped where it arrives.
//
// It never decides anything and writes nothing to the API server. Start reading at Watch in watch.go.
package watch
