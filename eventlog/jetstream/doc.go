// Package jetstream is the log for several machines: an eventlog.Log in a stream of NATS JetStream.
//
// It owns the packing of records into messages, and the append as one atomic publish, which only a writer that knows
// the stream's end can make. It owns the requirements on a stream's settings, and the handling of missing answers. It
// never looks into the meaning of an entry, and never changes or removes one of the log's messages. The content of the
// log depends neither on the server's deduplication nor on a clock: only waiting ends by the clock (wait.go).
//
// # Layout
//
// A log is a stream with one subject. Its first message names the entry after which the log begins (eventlog.Origin).
// Each further message is a part of an append: a frame (frame.go), and a piece of the append's records, each after its
// length. The records have the same bytes as in every other log. An append of one message is published as it is; one
// of several is published as an atomic batch. The frame has the append's range of entries and the hash of its last
// record, so a reader can assemble an append from the messages alone. It yields no part of an append before it has the
// whole, and skips parts of incomplete ones.
//
// About every 4,096 entries a frame carries the hash tree of the place before its append, and each frame points to the
// last such frame. From there the tree of any place can be computed.
//
// # Appending
//
// Every publish carries the stream's last sequence as the writer knows it (Nats-Expected-Last-Sequence). The server
// refuses it if there was another publish since. Only this keeps two writers apart, and it is enough. A process that
// opens the log and appends owns it. The earlier writer then finds new messages after its own last entry, and stops
// permanently.
//
// When no answer comes, or one that leaves the outcome open, the writer reads the messages after its last entry, and
// compares their content with its publish. If they are the same, the append has succeeded. If there are none, it
// publishes again, with the same expected sequence: the stream can accept at most one of these attempts. That
// continues for the time Address.Patience; then the outcome is unknown (eventlog.ErrUnknownOutcome).
//
// # Reading
//
// The leader of the stream reports its length; while there is no leader, a member may answer that lags. Only the
// leader serves single messages. Ranges of messages come from any replica (direct get), which may have fewer messages
// than the leader, but no different ones. So messages missing at the end are damage only if the leader lacks them too.
//
// # Beside the log
//
// Objects that are about the log, but not part of it, go into an object store bucket beside the stream (Bucket), in
// the form that all clients of object stores read. It has the stream's storage and number of servers, and a connection
// of its own. An object is published part by part, each after the one before it, and its description last: a reader
// finds the whole object or none. Reads of the bucket go to its leader. Every user with the permission may write
// there. A bucket is made when the first object is put. Its settings are checked whenever it is listed or written to.
//
// # Errors, by their cause
//
//   - A program that publishes to the log's subject by mistake: its messages are no part of the log; reading
//     ends there with damage, and nothing is appended after them.
//   - A stream with settings that let messages disappear: refused, with the setting's name (*SettingError).
//   - A user without the permissions: the error names the denied subject.
//   - A server without JetStream, or older than 2.12, which has no atomic publish: refused when the log is opened.
//   - A full disk, an account's limit, a sealed stream: the append fails with the server's message, and adds nothing.
//   - A stream that was deleted and made again while it was written to: the writer stops, nothing is appended.
//   - A bucket with other settings, or without permissions: an error that names it, and never an error of the log.
//
// Start reading at Address (address.go), then Log (log.go), append.go for appends, frame.go for the bytes, read.go for
// reading; bucket.go and objects.go for the objects beside the log.
package jetstream
