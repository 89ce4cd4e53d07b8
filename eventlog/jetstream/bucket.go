package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Bucket is the object store bucket beside the stream of a log. It holds objects, by name, that are about the log
// but not part of it. Every user with the permission may write to it: a claim to the log is not needed. It is safe for
// concurrent use.
//
// It has a connection of its own, which is made when it is first needed: a large object does not delay the log.
type Bucket struct {
	log  *Log
	name string

	mu     sync.Mutex
	conn   *conn // nil until it is needed
	closed bool
}

const (
	// bucketPrefix begins the name of a bucket. The stream's name follows, after one sign. If it cannot be in a
	// bucket's name, its hash follows, after another sign.
	bucketPrefix = "rollcall-snapshots"
	// streamOfBucket begins the name of a bucket's stream.
	streamOfBucket = "OBJ_"
	// mostName is the largest length of a stream's name.
	mostName = 255
)

// BucketOf returns the name of the bucket beside a stream.
func BucketOf(stream string) string {
	name := bucketPrefix + "-" + stream
	fits := len(streamOfBucket+name) <= mostName
	for _, r := range stream {
		fits = fits && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	if !fits {
		return fmt.Sprintf("%s_%x", bucketPrefix, sha256.Sum256([]byte(stream)))
	}
	return name
}

// Bucket returns the bucket beside the log's stream. It is closed with the log.
func (l *Log) Bucket() *Bucket { return l.bucket }

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.name }

// stream returns the name of the bucket's stream.
func (b *Bucket) stream() string { return streamOfBucket + b.name }

// metaSubject returns the subject of an object's description, and chunkSubject the subject of its content.
func (b *Bucket) metaSubject(name string) string { return b.metas() + encodeName(name) }

func (b *Bucket) chunkSubject(id string) string { return b.chunks() + id }

func (b *Bucket) metas() string { return "$O." + b.name + ".M." }

func (b *Bucket) chunks() string { return "$O." + b.name + ".C." }

// encodeName returns the name of an object as a part of a subject.
func encodeName(name string) string { return base64.URLEncoding.EncodeToString([]byte(name)) }

// decodeName is the inverse; false if the token is not an encoded name.
func decodeName(token string) (string, bool) {
	name, err := base64.URLEncoding.DecodeString(token)
	return string(name), err == nil
}

// connection returns the bucket's connection.
func (b *Bucket) connection() (*conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, eventlog.ErrClosed
	}
	if b.conn == nil {
		c, err := b.log.at.dial("snapshots")
		if err != nil {
			return nil, err
		}
		b.conn = c
	}
	return b.conn, nil
}

// close ends the operations in progress.
func (b *Bucket) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.conn.close()
}

// bucketInfo is the servers' description of a bucket's stream.
type bucketInfo struct {
	jetstream.StreamInfo
	Total int `json:"total"` // matching subjects; State has some of them
}

// info returns the servers' description of the bucket, with the number of messages on each subject that matches
// filter; nil if there is no bucket.
func (b *Bucket) info(ctx context.Context, c *conn, filter string) (*bucketInfo, error) {
	subjects := make(map[string]uint64)
	for {
		var info bucketInfo
		err := c.ask(ctx, "ask for the bucket "+b.name, "STREAM.INFO."+b.stream(),
			map[string]any{"subjects_filter": filter, "offset": len(subjects)}, &info)
		if hasCode(err, jetstream.JSErrCodeStreamNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(subjects, info.State.Subjects)
		if len(info.State.Subjects) == 0 || len(subjects) >= info.Total {
			info.State.Subjects = subjects
			return &info, nil
		}
	}
}

// check returns a *SettingError for a bucket whose settings let objects disappear. For writing, it also returns one if
// objects cannot be kept, or are kept by fewer servers than the log.
func (b *Bucket) check(c *jetstream.StreamConfig, forWriting bool) error {
	want := []string{b.chunks() + ">", b.metas() + ">"}
	got := slices.Sorted(slices.Values(c.Subjects))
	bad := firstBad([]setting{
		{"subjects", fmt.Sprint(c.Subjects), fmt.Sprint(want), slices.Equal(got, want)},
		{"storage", c.Storage.String(), "File", c.Storage == jetstream.FileStorage},
		{"retention", c.Retention.String(), "Limits", c.Retention == jetstream.LimitsPolicy},
		{"max_msgs", number(c.MaxMsgs), "-1 (no limit)", c.MaxMsgs <= 0},
		{"max_bytes", number(c.MaxBytes), "-1 (no limit)", c.MaxBytes <= 0},
		{"max_age", c.MaxAge.String(), "0 (no limit)", c.MaxAge == 0},
		{"max_msgs_per_subject", number(c.MaxMsgsPerSubject), "-1 (no limit)", c.MaxMsgsPerSubject <= 0},
		{"allow_msg_ttl", yes(c.AllowMsgTTL), "false", !c.AllowMsgTTL},
		{"allow_msg_counter", yes(c.AllowMsgCounter), "false", !c.AllowMsgCounter},
		{"allow_msg_schedules", yes(c.AllowMsgSchedules), "false", !c.AllowMsgSchedules},
		{"persist_mode", c.PersistMode.String(), "default", c.PersistMode == jetstream.DefaultPersistMode},
		{"mirror", "set", "none", c.Mirror == nil},
		{"sources", "set", "none", len(c.Sources) == 0},
		{"subject_transform", "set", "none", c.SubjectTransform == nil},
		{"no_ack", yes(c.NoAck), "false", !c.NoAck || !forWriting},
		{"allow_rollup_hdrs", yes(c.AllowRollup), "true", c.AllowRollup || !forWriting},
		{"deny_delete", yes(c.DenyDelete), "false", !c.DenyDelete || !forWriting},
		{"deny_purge", yes(c.DenyPurge), "false", !c.DenyPurge || !forWriting},
		{"sealed", yes(c.Sealed), "false", !c.Sealed || !forWriting},
		{"num_replicas", number(int64(c.Replicas)), number(int64(b.log.replicas)) + " or more, as the log's stream has",
			c.Replicas >= b.log.replicas || !forWriting},
	})
	if bad == nil {
		return nil
	}
	return &SettingError{Path: b.log.path, Bucket: b.name, Setting: bad.name, Has: bad.has, Want: bad.want}
}

// newConfig returns the settings of a new bucket beside a stream: the settings of any object store, with the stream's
// storage and number of servers.
func (b *Bucket) newConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.stream(), Description: "snapshots of the log of Rollcall in the stream " + b.log.at.Stream,
		Subjects:  []string{b.chunks() + ">", b.metas() + ">"},
		Retention: jetstream.LimitsPolicy, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1,
		MaxMsgSize: -1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: b.log.replicas,
		AllowRollup: true, AllowDirect: true,
	}
}

// forWriting returns the servers' description of the bucket. It makes the bucket if there is none.
func (b *Bucket) forWriting(ctx context.Context, c *conn, filter string) (*bucketInfo, error) {
	info, err := b.info(ctx, c, filter)
	if err == nil && info == nil {
		info = new(bucketInfo)
		err = c.ask(ctx, "make the bucket "+b.name, "STREAM.CREATE."+b.stream(), b.newConfig(), info)
		// another client was first, and made it with other settings
		if hasCode(err, jetstream.JSErrCodeStreamNameInUse) {
			info, err = b.info(ctx, c, filter)
		}
	}
	if err != nil {
		return nil, b.explain(err)
	}
	if info == nil {
		return nil, fmt.Errorf("%s: the bucket %s is made and removed at the same time", b.log.path, b.name)
	}
	return info, b.check(&info.Config, true)
}

// List returns the names of the objects, sorted: none if there is no bucket.
func (b *Bucket) List(ctx context.Context) ([]string, error) {
	c, err := b.connection()
	if err != nil {
		return nil, err
	}
	info, err := b.info(ctx, c, b.metas()+">")
	if err != nil || info == nil {
		return nil, err
	}
	if err := b.check(&info.Config, false); err != nil {
		return nil, err
	}
	var names []string
	for subject := range info.State.Subjects { // any order: they are sorted
		name, ok := decodeName(strings.TrimPrefix(subject, b.metas()))
		if !ok {
			continue
		}
		o, err := b.object(ctx, c, name)
		if err != nil {
			return nil, err
		}
		if o.there() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove removes the object of a name, if there is one.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	c, err := b.connection()
	if err != nil {
		return err
	}
	o, err := b.object(ctx, c, name)
	if err != nil || o.seq == 0 {
		return err
	}
	// An object that replaced it meanwhile stays, for it has another number and another content.
	if err := b.purge(ctx, c, b.metaSubject(name), o.seq); err != nil {
		return err
	}
	return b.purge(ctx, c, b.chunkSubject(o.NUID), 0)
}

// Sweep removes the remains of interrupted writers, of objects whose names come before one. A writer that is still
// writing such an object starts again.
func (b *Bucket) Sweep(ctx context.Context, before string) error {
	c, err := b.connection()
	if err != nil {
		return err
	}
	info, err := b.info(ctx, c, b.chunks()+">")
	if err != nil || info == nil {
		return err
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		id := strings.TrimPrefix(subject, b.chunks())
		name, ok := nameOfID(id)
		if !ok || name >= before {
			continue
		}
		// Read after the contents: a content that is not the object's by now never will be.
		o, err := b.object(ctx, c, name)
		if err == nil && (!o.there() || o.NUID != id) {
			err = b.purge(ctx, c, subject, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purge removes the messages of a subject, up to message last if that is not 0. A missing bucket is no error.
func (b *Bucket) purge(ctx context.Context, c *conn, subject string, last uint64) error {
	request := map[string]any{"filter": subject}
	if last > 0 {
		request["seq"] = last + 1
	}
	var out struct{}
	err := c.ask(ctx, "remove from the bucket "+b.name, "STREAM.PURGE."+b.stream(), request, &out)
	if hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		return nil
	}
	return b.explain(err)
}

// newID returns the identity of the content of a new object, which begins with the object's name.
func newID(name string) string {
	return encodeName(name) + "-" + strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix)
}

// nameOfID returns the name in an identity that newID has made; false for identities from other programs.
func nameOfID(id string) (name string, ok bool) {
	at := strings.LastIndex(id, "-")
	if at < 0 {
		return "", false
	}
	return decodeName(id[:at])
}

// bucketRefusals are answers that mean that the servers refuse an object, with the advice for each.
var bucketRefusals = map[jetstream.ErrorCode]string{
	10002:             "raise the account's limits of JetStream, or make room in it",
	codeNoPeers:       "it is to be kept by as many servers as the log's stream: see that they run and have room",
	codeReplicasAlone: "it is to be kept by as many servers as the log's stream: see that they run and have room",
	codeNoResources:   "the servers lack room for JetStream: see their disks and their limits (max_file_store)",
	10026:             "raise the account's limit of streams: the bucket is one",
	codeStorageExceeded: "the servers lack room for JetStream: see their disks and their limits " +
		"(max_file_store)",
	10054: "the servers' max_payload or the bucket's max_msg_size was lowered: set it back",
	10065: "another stream takes the bucket's subjects: change that one",
	10077: "see the servers' disks, and that the bucket has no limits",
	10109: "the bucket was sealed: remove it, and the next snapshot makes it anew",
}

// explain adds advice to an answer of the servers.
func (b *Bucket) explain(err error) error {
	for code, advice := range bucketRefusals { // any order: an answer has one code
		if hasCode(err, code) {
			return fmt.Errorf("%w: bucket %s: %s", err, b.name, advice)
		}
	}
	return err
}
