// Package jetstream is the log of several machines: an eventlog.Log in a stream of NATS JetStream.
//
// It owns how records are packed into messages, how an append becomes one atomic publish that only the writer who
// knows the stream's end can make, what is asked of a stream's settings, and what is done when no answer comes. It
// never looks into what an entry means, never changes or removes one of the log's messages, and trusts neither the
// server's deduplication nor a clock for what is in the log: waiting ends by the clock (wait.go), and that is all.
//
// # Layout
//
// A log is a stream with one subject. Its first message says behind which entry the log begins (eventlog.Origin). Each
// further message is a part of an append: a frame (frame.go), and a piece of the append's records, each with its
// length before it. The records have the same bytes as in every other log. An append of one message is published as it
// is; one of several is published as an atomic batch. The frame says which entries the append has and the hash of the
// last record, so a reader puts an append together by itself: it yields none of it before it has all of it, and skips
// parts that were never completed.
//
// About every 4,096 entries a frame carries the hash tree of the place before its append, and each frame says where
// the last such frame is: the tree of any place is known from there on.
//
// # Appending
//
// Every publish carries the stream's last sequence as the writer knows it (Nats-Expected-Last-Sequence). The server
// refuses it if anything was published since: that is all that keeps two writers apart, and it is enough. Whoever
// opens the log and appends has it; the writer before finds what is behind its own last entry, and stops permanently.
//
// When no answer comes, or one that leaves open what became of the append, the writer looks at what is behind its last
// entry, and compares it with what it has published, by content. If it is there, the append has succeeded. If nothing
// is there, the same is published again, with the same expected sequence: of all these tries the stream can take one.
// That continues for as long as Address.Patience says; then the outcome is unknown (eventlog.ErrUnknownOutcome).
//
// # Reading
//
// How long the stream is is asked of its leader; while it has none a member may answer that lags. A single message is
// given by the leader only. Ranges of messages come from any replica (direct get), which may have less than the
// leader, but nothing else. So what lacks at the end is no damage unless the leader lacks it.
//
// # Beside the log
//
// What is kept about the log, and is no part of it, goes into an object store bucket beside the stream (Bucket), in
// the form that all clients of object stores read. It has the stream's storage and number of servers, and a connection
// of its own. An object is published part by part, each behind the one before it, and what the object is last: a
// reader finds all of it or none. Everything is read as the bucket's leader has it. Whoever has the right may write
// there. A bucket is made when the first object is put, and checked by setting whenever it is listed or written to.
//
// # Who asks what of it
//
//   - A program that publishes to the log's subject by mistake: what it has published is no part of the log; reading
//     ends there with damage, and nothing is appended behind it.
//   - A stream of other settings, by which messages could go or be lost: refused, by the setting (*SettingError).
//   - A user without the permissions: the error names the subject that was denied.
//   - A server without JetStream, or older than 2.12, which has no atomic publish: refused when the log is opened.
//   - A full disk, an account's limit, a sealed stream: the append fails with what the server says, and adds nothing.
//   - A stream that was deleted and made again while it was written to: the writer stops, nothing is appended.
//   - A bucket of other settings, or without permissions: an error that names it, and never one of the log.
//
// Start reading at Address (address.go), then Log (log.go), append.go for what an append does, frame.go for the bytes,
// read.go for reading; bucket.go and objects.go for what is kept beside the log.
package jetstream
