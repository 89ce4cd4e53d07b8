// Package dump reads what others have written down about a Kubernetes cluster, and turns it into a log in memory that
// every reader of logs understands. It owns the formats:
//
//	objects     the output of kubectl get -o json or -o yaml, in a file, a folder, or a stream; a must-gather folder;
//	            an export of kube-scheduler-simulator
//	audit log   the log of a kube-apiserver (audit.k8s.io/v1), one file or the rotated ones in a folder
//
// The formats are recognised by their content. Files may be compressed by gzip.
//
// Objects become one epoch: its configuration, then an Upserted for each object, in the order in which a live run takes
// its first lists in, all at one time. An audit log becomes an Upserted or a Deleted for each write, at the time of the
// write. No log of this package has a Decision: who decided, and why, is in none of these formats. The little that is
// known about it (Placing) is kept beside the log.
//
// A file is read as a stream (split_json.go, split_yaml.go). One goroutine cuts it into items, and several decode them
// (pipeline.go). So the memory in use depends on the number of objects and not on the size of the files. Whatever is
// not taken in is counted by kind, and reported. An item that cannot be read is an error that names the file, the
// place in it, and the item.
//
// The package never writes a file and never asks an API server. Start reading at Options.Open in open.go.
package dump
