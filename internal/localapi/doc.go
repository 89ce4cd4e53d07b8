// Package localapi is how other processes of the machine read the log of a running scheduler: the scheduler serves it
// at a Unix socket in the log's directory, and readers put what it tells behind the sealed segments that they read
// themselves.
//
// It owns the socket, the protocol and the joined log. It serves whoever may write in the log's directory and nobody
// else, never changes a log, and never keeps the scheduler from appending: a reader that is slow holds a connection
// and a few buffers, for as long as limits allow, and nothing more. A reader trusts nothing: the records that it is
// told must continue the chain of hashes of those that it has read itself.
//
// The protocol is HTTP/1.1:
//
//	GET /v1/log                  what there is, as JSON (Info)
//	GET /v1/records?from=N&to=M  the records of these entries: for each its length as a uvarint, and its bytes
//	                             (eventlog.AppendRecord). If the log cannot be read: a length of 0, and then, with
//	                             its length before it, JSON (trouble). A stream that otherwise ends before entry M
//	                             broke off, because the scheduler ends.
//
// A request has no body and at most 8 KiB. If too many readers are being told records already, the answer has status
// 429 and says what to do. A reader that takes nothing for too long is cut off, and may ask for the rest; if its place
// is taken by then, it waits for another one for a while. A client may lose its connection to a new one.
//
// A follower (Joined.Follow) asks again and again what there is, and reads what has come.
//
// A reader whose scheduler ends continues in the log's directory, or with the scheduler that has taken the log over:
// it reads as far as it said at first, whatever happens.
//
// Start reading at Serve, then Join.
package localapi
