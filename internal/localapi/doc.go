// Package localapi lets other processes of the machine read the log of a running scheduler. The scheduler serves it at
// a Unix socket in the log's directory. Readers read the sealed segments themselves, and append the records that the
// scheduler sends.
//
// It owns the socket, the protocol and the joined log. It serves every process that may write in the log's directory
// and no other. It never changes a log, and never blocks the scheduler's appends: a slow reader holds a connection and
// a few buffers, for as long as limits allow, and nothing else. A reader trusts nothing: the records that it receives
// must continue the chain of hashes of the records that it has read itself.
//
// The protocol is HTTP/1.1:
//
//	GET /v1/log                  the range of the log and its server, as JSON (Info)
//	GET /v1/records?from=N&to=M  the records of these entries: for each its length as a uvarint, and its bytes
//	                             (eventlog.AppendRecord). If the log cannot be read: a length of 0, and then, with
//	                             its length before it, JSON (trouble). A stream that otherwise ends before entry M
//	                             broke off, because the scheduler ends.
//
// A request has no body and at most 8 KiB. If too many readers are receiving records already, the answer has status
// 429 and says what to do. The server disconnects a reader that takes nothing for too long. That reader may ask for
// the rest. If its place is taken by then, it waits for another one for a while. A client may lose its connection to a
// new one.
//
// A follower (Joined.Follow) polls the range of the log, and reads the new records.
//
// A reader whose scheduler ends continues in the log's directory, or with the scheduler that has taken over the log.
// In any case it reads up to the entry that it announced at first.
//
// Start reading at Serve, then Join.
package localapi
