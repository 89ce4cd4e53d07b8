package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A SettingError says that a stream cannot keep a log, or a bucket the objects beside one, because of a setting.
type SettingError struct {
	// Path is the stream's address.
	Path string
	// Bucket is the bucket's name; "" if the error is about the log's stream.
	Bucket string
	// Setting is the servers' name for the setting, Has its value, and Want the value that a log needs.
	Setting, Has, Want string
}

// Error implements error.
func (e *SettingError) Error() string {
	if e.Bucket != "" {
		return fmt.Sprintf("%s: the %s of the bucket %s is %s, and snapshots need %s: change it (nats stream edit "+
			"%s), or remove the bucket, and the next snapshot makes it anew", e.Path, e.Setting, e.Bucket, e.Has,
			e.Want, streamOfBucket+e.Bucket)
	}
	text := fmt.Sprintf("%s: the stream's %s is %s, and a log needs %s: ", e.Path, e.Setting, e.Has, e.Want)
	if e.Setting == "num_replicas" {
		return text + "change the stream (nats stream edit --replicas), or say ?replicas=" + e.Has
	}
	return text + "name another stream, which is made as it must be if it does not exist, or change this one"
}

// NoStreamError says that there is no log at an address. It is fs.ErrNotExist.
type NoStreamError struct {
	// Path is the address.
	Path string
	// Empty says that there is a stream, without any message.
	Empty bool
}

// Error implements error.
func (e *NoStreamError) Error() string {
	if e.Empty {
		return fmt.Sprintf("no log at %s: the stream is empty: begin one with rollcall simulate --log", e.Path)
	}
	return fmt.Sprintf("no log at %s: there is no such stream: make one with rollcall simulate --log", e.Path)
}

// Is reports whether target is fs.ErrNotExist.
func (e *NoStreamError) Is(target error) bool { return target == fs.ErrNotExist }

// newConfig returns the settings of a new stream for a log. Its subject has an identity of its own: a writer of a
// deleted stream does not reach the one that replaced it.
func (a *Address) newConfig() jetstream.StreamConfig {
	id := strings.TrimPrefix(nats.NewInbox(), nats.InboxPrefix)
	return jetstream.StreamConfig{
		Name: a.Stream, Description: "a log of Rollcall", Subjects: []string{"rollcall." + a.Stream + "." + id},
		Retention: jetstream.LimitsPolicy, MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1,
		MaxMsgSize: -1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: a.Replicas,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, AllowAtomicPublish: true,
	}
}

// A setting is one setting of a stream: its value, the wanted value, and whether it is good.
type setting struct {
	name, has, want string
	good            bool
}

// firstBad returns the first setting that is not good, nil if all are.
func firstBad(settings []setting) *setting {
	for i := range settings {
		if !settings[i].good {
			return &settings[i]
		}
	}
	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func yes(b bool) string { return strconv.FormatBool(b) }

// checkStream returns a *SettingError for a stream whose settings let messages disappear, be lost or be changed, or
// let an append be torn.
func (a *Address) checkStream(c *jetstream.StreamConfig, forWriting bool) error {
	subject := ""
	if len(c.Subjects) == 1 && !strings.ContainsAny(c.Subjects[0], "*>") {
		subject = c.Subjects[0]
	}
	bad := firstBad([]setting{
		{"subjects", fmt.Sprint(c.Subjects), "one without * and >", subject != ""},
		{"storage", c.Storage.String(), "File", c.Storage == jetstream.FileStorage},
		{"retention", c.Retention.String(), "Limits", c.Retention == jetstream.LimitsPolicy},
		{"max_msgs", number(c.MaxMsgs), "-1 (no limit)", c.MaxMsgs <= 0},
		{"max_bytes", number(c.MaxBytes), "-1 (no limit)", c.MaxBytes <= 0},
		{"max_age", c.MaxAge.String(), "0 (no limit)", c.MaxAge == 0},
		{"max_msgs_per_subject", number(c.MaxMsgsPerSubject), "-1 (no limit)", c.MaxMsgsPerSubject <= 0},
		{"deny_delete", yes(c.DenyDelete), "true", c.DenyDelete},
		{"deny_purge", yes(c.DenyPurge), "true", c.DenyPurge},
		{"allow_rollup_hdrs", yes(c.AllowRollup), "false", !c.AllowRollup},
		{"allow_msg_ttl", yes(c.AllowMsgTTL), "false", !c.AllowMsgTTL},
		{"allow_msg_counter", yes(c.AllowMsgCounter), "false", !c.AllowMsgCounter},
		{"allow_msg_schedules", yes(c.AllowMsgSchedules), "false", !c.AllowMsgSchedules},
		{"allow_direct", yes(c.AllowDirect), "true", c.AllowDirect},
		{"no_ack", yes(c.NoAck), "false", !c.NoAck},
		{"persist_mode", c.PersistMode.String(), "default", c.PersistMode == jetstream.DefaultPersistMode},
		{"mirror", "set", "none", c.Mirror == nil},
		{"sources", "set", "none", len(c.Sources) == 0},
		{"republish", "set", "none", c.RePublish == nil}, // others would get the log's content
		{"subject_transform", "set", "none", c.SubjectTransform == nil},
		{"first_seq", strconv.FormatUint(c.FirstSeq, 10), "1", c.FirstSeq <= 1},
		{"allow_atomic", yes(c.AllowAtomicPublish), "true", c.AllowAtomicPublish || !forWriting},
		{"sealed", yes(c.Sealed), "false", !c.Sealed || !forWriting},
		{"num_replicas", number(int64(c.Replicas)), number(int64(a.Replicas)) + " or more, as the address says or by " +
			"default", c.Replicas >= a.Replicas || !forWriting},
	})
	if bad == nil {
		return nil
	}
	return &SettingError{Path: a.String(), Setting: bad.name, Has: bad.has, Want: bad.want}
}

// info returns the servers' description of the stream. It comes from its leader, or, without a leader, from a member
// that may lack acknowledged entries.
func (c *conn) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	var info jetstream.StreamInfo
	err := c.ask(ctx, "ask for the stream", "STREAM.INFO."+c.at.Stream, struct{}{}, &info)
	if hasCode(err, jetstream.JSErrCodeStreamNotFound) {
		return nil, &NoStreamError{Path: c.at.String()}
	}
	return &info, err
}

const (
	// inTouch is the largest age of the last answer that a leader had from most members, for it to be trusted. Members
	// answer each second. A leader that is cut off from them takes 10 to 20 seconds to notice, and reports until then
	// the old end of the stream.
	inTouch = 3 * time.Second
	// leaderTime is the time that readers wait for a leader that is in touch: an election takes up to 9 seconds.
	leaderTime = 10 * time.Second
)

// ErrNoMajority says that the stream has no leader with answers from most of the servers that keep it: other servers
// may lack acknowledged entries.
var ErrNoMajority = errors.New("most of the servers that keep the stream do not answer, or it has no leader")

// newest is info from a leader that is in touch with most members, once there is one. If there is none for the time
// most, or while patience lasts, it returns the longest stream that a server reported, and behind wraps ErrNoMajority.
func (c *conn) newest(ctx context.Context, most time.Duration) (info *jetstream.StreamInfo, behind, err error) {
	waiting, cancel := within(ctx, min(most, c.at.Patience))
	defer cancel()
	var pauses backoff
	for asking := ctx; ; asking = waiting { // the first answer is worth all the patience
		told, err := c.info(asking)
		switch {
		case err == nil && leads(told):
			return told, nil, nil
		case err == nil && (info == nil || told.State.LastSeq >= info.State.LastSeq):
			info = told
		case err != nil && (info == nil || waiting.Err() == nil):
			return nil, nil, err
		}
		if !pauses.wait(waiting) {
			if ctx.Err() != nil {
				return nil, nil, context.Cause(ctx)
			}
			return info, fmt.Errorf("%s: %w: see that the servers run and reach one another", c.at, ErrNoMajority), nil
		}
	}
}

// leads reports whether a stream's description comes from a leader that is in touch with most members.
func leads(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil { // a single server
		return true
	}
	members, touched := max(len(info.Cluster.Replicas)+1, info.Config.Replicas), 1
	for _, r := range info.Cluster.Replicas {
		if !r.Offline && r.Active > 0 && r.Active <= inTouch { // 0 means that it has not answered yet
			touched++
		}
	}
	return info.Cluster.Leader != "" && touched > members/2
}

const (
	codeNoResources     = 10023 // insufficient resources
	codeNoPeers         = 10005 // no suitable peers for placement
	codeReplicasAlone   = 10074 // replicas > 1 not supported in non-clustered mode
	codeStorageExceeded = 10047 // insufficient storage resources available
)

// create makes the stream.
func (c *conn) create(ctx context.Context) (*jetstream.StreamInfo, error) {
	var info jetstream.StreamInfo
	err := c.ask(ctx, "make the stream", "STREAM.CREATE."+c.at.Stream, c.at.newConfig(), &info)
	if hasCode(err, codeNoPeers, codeReplicasAlone, codeNoResources) {
		err = fmt.Errorf("%w: the stream is to be kept by %d servers: see that as many run with JetStream and have "+
			"room, or say ?replicas=1 for a log that does not survive the loss of its server", err, c.at.Replicas)
	}
	return &info, err
}

// A message is a message of the stream.
type message struct {
	seq  uint64
	data []byte
}

// errNoMessage says that there is no such message.
var errNoMessage = errors.New("there is no such message")

// get returns a message from the stream's leader, or, if there is none (conn.anyone), from any server.
func (c *conn) get(ctx context.Context, seq uint64) (message, error) {
	if c.anyone {
		return c.getFromAnyone(ctx, seq)
	}
	var out struct {
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := c.ask(ctx, fmt.Sprintf("read message %d", seq), "STREAM.MSG.GET."+c.at.Stream,
		map[string]uint64{"seq": seq}, &out)
	if hasCode(err, jetstream.JSErrCodeMessageNotFound) {
		err = fmt.Errorf("%s: message %d: %w", c.at, seq, errNoMessage)
	}
	return message{seq, out.Message.Data}, err
}

// getFromAnyone returns a message from the first server that has it. If none has it within answerTime, that is
// errNoMessage.
func (c *conn) getFromAnyone(ctx context.Context, seq uint64) (message, error) {
	waiting, cancel := within(ctx, min(answerTime, c.at.Patience))
	defer cancel()
	var pauses backoff
	for {
		got, err := c.some(waiting, pauses.answer(), seq, seq, nil)
		switch {
		case len(got) > 0:
			return got[0], nil
		case err != nil && !errors.Is(err, errNoAnswer) && !errors.Is(err, nats.ErrNoResponders):
			return message{}, err
		}
		if !pauses.wait(waiting) {
			if ctx.Err() != nil {
				return message{}, context.Cause(ctx)
			}
			if err == nil {
				err = errNoMessage
			}
			return message{}, fmt.Errorf("%s: message %d: %w", c.at, seq, err)
		}
	}
}

const (
	rangeMessages = 256
	rangeBytes    = 4 << 20
)

// some appends messages from one to another to dst, as many as one request gives, from any replica; none if that
// replica has none of them yet. It waits for the first one for the given time, and for all of them for answerTime.
func (c *conn) some(
	ctx context.Context, wait time.Duration, from, to uint64, dst []message,
) ([]message, error) {
	body, err := json.Marshal(map[string]uint64{
		"seq": from, "batch": min(to-from+1, rangeMessages), "max_bytes": rangeBytes,
	})
	if err != nil {
		return dst, err
	}
	subject := c.api + "DIRECT.GET." + c.at.Stream
	ctx, cancel := within(ctx, min(answerTime, c.at.Patience))
	defer cancel()
	ctx, done := c.asking(ctx, subject)
	defer done()
	sub, err := c.nc.SubscribeSync(c.nc.NewInbox())
	if err != nil {
		return dst, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(subject, sub.Subject, body); err != nil {
		return dst, err
	}
	first, end := within(ctx, min(wait, answerTime))
	defer end()
	for next, waiting := from, first; next <= to; next, waiting = next+1, ctx {
		m, err := sub.NextMsgWithContext(waiting)
		if err != nil {
			if waiting.Err() != nil {
				err = context.Cause(waiting)
			}
			return dst, err
		}
		switch seq, status := sequenceOf(m), m.Header.Get("Status"); {
		case seq == "" && status == "503":
			return dst, nats.ErrNoResponders
		case seq == "" && status != "": // the end of the range, or of this replica's messages
			return dst, nil
		case seq != strconv.FormatUint(next, 10):
			return dst, fmt.Errorf("%s: message %d: %w: %s comes next", c.at, next, errNoMessage, seq)
		}
		dst = append(dst, message{next, m.Data})
	}
	return dst, nil
}

// sequenceOf returns the number that the server gives a message; "" for an answer without a message. The server adds
// its headers behind the ones with which the message was published, so that the last one counts.
func sequenceOf(m *nats.Msg) string {
	all := m.Header["Nats-Sequence"]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// messages yields the messages from one to another, all of which the stream's leader has, or had. While patience
// lasts, it waits for replicas that lag, or do not answer.
func (c *conn) messages(ctx context.Context, from, to uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		var got []message
		for next := from; next <= to; {
			var err error
			if got, err = c.patiently(ctx, next, to, got[:0]); err != nil {
				yield(message{}, err)
				return
			}
			for _, m := range got {
				if !yield(m, nil) {
					return
				}
				next++
			}
		}
	}
}

// patiently repeats some until there is a message.
func (c *conn) patiently(ctx context.Context, from, to uint64, dst []message) ([]message, error) {
	waiting, cancel := within(ctx, c.at.Patience)
	defer cancel()
	var pauses backoff
	for {
		got, err := c.some(waiting, pauses.answer(), from, to, dst)
		var denied *deniedError
		if len(got) > 0 || errors.As(err, &denied) || errors.Is(err, errNoMessage) ||
			errors.Is(err, nats.ErrConnectionClosed) {
			if len(got) > 0 {
				err = nil // the missing messages after them come next
			}
			return got, err
		}
		if err == nil { // the replica has none: the leader has them, or no server
			m, gerr := c.get(waiting, from)
			if gerr == nil {
				return append(got, m), nil
			}
			if err = gerr; errors.Is(err, errNoMessage) {
				return got, err
			}
		}
		if !pauses.wait(waiting) {
			if ctx.Err() != nil {
				return got, context.Cause(ctx)
			}
			return got, fmt.Errorf("%s: read message %d: %w: this does not say that the log is damaged: see that the "+
				"servers run, and try again", c.at, from, err)
		}
	}
}
