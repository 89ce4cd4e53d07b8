// Package listing lists what a log has at one entry, in the style of kubectl get: what is pending, the queue, gangs,
// nodes and pods.
//
//	list, err := listing.Get(ctx, log, "pending", listing.Options{At: bound}) // log is a *history.Log
//	err = list.WriteText(w, false)
//
// Package explain gives the reasons, codes and amounts: an explain.Survey answers for all entities of one state. The
// package owns the choice of rows and columns, and their forms as text, JSON and CSV. It reads the state at one entry,
// and of nodes that are cordoned or tainted also the earlier entries about them. It never decides anything, and never
// opens a log.
//
// Start reading at Get in get.go; each list has a file.
package listing
