package jetstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An object has a description, a message under the object's name, and a content, in messages under a subject of its
// own. This is the form of every object store of JetStream: other clients can read and remove the objects.
//
// A content is published message by message, each expecting the one before it (headerBehind), and then the
// description, expecting the last of them. So no object is incomplete, unless a part is removed afterwards: if a part
// is removed while an object is being put, the server refuses the next message.
type object struct {
	jetstream.ObjectInfo
	seq uint64 // the message with the description; 0 if there is none
}

// there reports whether the object exists: another client may have removed it, which the description then says.
func (o *object) there() bool { return o.seq > 0 && !o.Deleted }

const (
	// headerBehind has the number of the message that a message follows, and headerSubject the subject of that one, if
	// it differs.
	headerBehind  = "Nats-Expected-Last-Subject-Sequence"
	headerSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	// headerRollup makes a message replace the earlier ones of its subject.
	headerRollup = "Nats-Rollup"

	// digestPrefix is the prefix of an object's digest.
	digestPrefix = "SHA-256="
	// mostTries is the largest number of attempts to put an object.
	mostTries = 5
)

// An ObjectError says that an object is incomplete or invalid.
type ObjectError struct {
	// Bucket and Name locate the object.
	Bucket, Name string
	// Err has the details.
	Err error
}

// Error implements error.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("object %s of the bucket %s: %v", e.Name, e.Bucket, e.Err)
}

// Unwrap returns the details.
func (e *ObjectError) Unwrap() error { return e.Err }

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + base64.URLEncoding.EncodeToString(sum[:])
}

// errNoBucket says that there is no bucket.
var errNoBucket = errors.New("there is no such bucket")

// get returns a message of the bucket, from its leader. The error is errNoMessage if there is no such message, and
// errNoBucket if there is no bucket.
func (b *Bucket) get(ctx context.Context, c *conn, request map[string]any) (message, error) {
	var out struct {
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err := c.ask(ctx, "read from the bucket "+b.name, "STREAM.MSG.GET."+b.stream(), request, &out)
	switch {
	case hasCode(err, jetstream.JSErrCodeMessageNotFound):
		err = errNoMessage
	case hasCode(err, jetstream.JSErrCodeStreamNotFound):
		err = errNoBucket
	}
	return message{out.Message.Seq, out.Message.Data}, err
}

// last returns the last message of a subject, the zero message if there is none.
func (b *Bucket) last(ctx context.Context, c *conn, subject string) (message, error) {
	m, err := b.get(ctx, c, map[string]any{"last_by_subj": subject})
	if errors.Is(err, errNoMessage) {
		return message{}, nil
	}
	return m, err
}

// object returns the object of a name, the zero object if there is none.
func (b *Bucket) object(ctx context.Context, c *conn, name string) (object, error) {
	m, err := b.last(ctx, c, b.metaSubject(name))
	if errors.Is(err, errNoBucket) {
		return object{}, nil
	}
	if err != nil || m.seq == 0 {
		return object{}, err
	}
	o := object{seq: m.seq}
	if err := json.Unmarshal(m.data, &o.ObjectInfo); err != nil {
		o.ObjectInfo = jetstream.ObjectInfo{} // Get reports the error
	}
	return o, nil
}

// Get returns the object of a name, whole, and its metadata. The error wraps fs.ErrNotExist if there is none, and is
// an *ObjectError if the object is incomplete. most returns the largest size of an object with the given beginning:
// Get does not read on in a larger one.
func (b *Bucket) Get(
	ctx context.Context, name string, most func(begin []byte) int64,
) (data []byte, about map[string]string, err error) {
	c, err := b.connection()
	if err != nil {
		return nil, nil, err
	}
	for range mostTries {
		o, err := b.object(ctx, c, name)
		if err != nil {
			return nil, nil, err
		}
		if !o.there() {
			return nil, nil, fmt.Errorf("%s: bucket %s: there is no object %s: %w", b.log.path, b.name, name,
				fs.ErrNotExist)
		}
		data, err := b.content(ctx, c, &o, most)
		var wrong *ObjectError
		if err == nil || !errors.As(err, &wrong) {
			return data, o.Metadata, err
		}
		now, nerr := b.object(ctx, c, name)
		if nerr != nil || now.seq == o.seq {
			return nil, nil, errors.Join(nerr, &ObjectError{Bucket: b.name, Name: name, Err: err})
		}
		// It was removed or replaced meanwhile.
	}
	return nil, nil, fmt.Errorf("%s: bucket %s: the object %s was replaced whenever it was read", b.log.path, b.name,
		name)
}

// content returns the content of an object. An *ObjectError says that it differs from the description.
func (b *Bucket) content(
	ctx context.Context, c *conn, o *object, most func(begin []byte) int64,
) (data []byte, err error) {
	wrong := func(format string, args ...any) error {
		return &ObjectError{Bucket: b.name, Name: o.Name, Err: fmt.Errorf(format, args...)}
	}
	if o.NUID == "" || o.Opts != nil && o.Opts.Link != nil {
		return nil, wrong("what is said of it is not what is said of an object with a content")
	}
	next := uint64(1)
	for uint64(len(data)) < o.Size {
		m, err := b.get(ctx, c, map[string]any{"seq": next, "next_by_subj": b.chunkSubject(o.NUID)})
		if errors.Is(err, errNoMessage) || errors.Is(err, errNoBucket) {
			return nil, wrong("of its %d bytes there are %d", o.Size, len(data))
		}
		if err != nil {
			return nil, err
		}
		data, next = append(data, m.data...), m.seq+1
		if limit := most(data); o.Size > uint64(max(0, limit)) {
			return nil, wrong("it is said to have %d bytes, and what begins so has %d at the most", o.Size, limit)
		}
	}
	if uint64(len(data)) > o.Size {
		return nil, wrong("it has more than its %d bytes", o.Size)
	}
	if digest := digestOf(data); digest != o.Digest {
		return nil, wrong("its digest is %s, and %s is said", digest, o.Digest)
	}
	return data, nil
}

// Put keeps data as the object of a name, with its metadata. The object exists whole or not at all: if Put fails, the
// earlier object still exists. If the same object exists already, Put writes nothing, so several clients that put the
// same all succeed. Put makes the bucket if there is none.
func (b *Bucket) Put(ctx context.Context, name string, data []byte, about map[string]string) error {
	c, err := b.connection()
	if err != nil {
		return err
	}
	for range mostTries {
		err = b.tryPut(ctx, c, name, data, about)
		if !errors.Is(err, errDisturbed) && !errors.Is(err, errNoBucket) {
			return err
		}
	}
	return fmt.Errorf("%s: bucket %s: %w, %d times", b.log.path, b.name, err, mostTries)
}

// errDisturbed says that parts of an object that is being put were removed, or that others were added.
var errDisturbed = errors.New("others remove, or add to, what is being written")

// tryPut is Put, once.
func (b *Bucket) tryPut(ctx context.Context, c *conn, name string, data []byte, about map[string]string) error {
	info, err := b.forWriting(ctx, c, b.chunks()+">")
	if err != nil {
		return err
	}
	before, err := b.object(ctx, c, name)
	if err != nil {
		return err
	}
	digest := digestOf(data)
	if before.there() && before.Digest == digest && before.Size == uint64(len(data)) &&
		maps.Equal(before.Metadata, about) &&
		info.State.Subjects[b.chunkSubject(before.NUID)] == uint64(before.Chunks) {
		return nil
	}
	size, err := b.chunkSize(c, &info.Config)
	if err != nil {
		return err
	}
	u := upload{bucket: b, conn: c}
	u.info.Name, u.info.Metadata = name, about
	u.info.Opts = &jetstream.ObjectMetaOptions{ChunkSize: uint32(size)}
	u.info.Bucket, u.info.NUID = b.name, newID(name)
	u.info.Size, u.info.Digest = uint64(len(data)), digest
	if err := u.run(ctx, data, size); err != nil {
		_ = b.purge(ctx, c, b.chunkSubject(u.info.NUID), 0) // otherwise it will be swept
		return err
	}
	if before.there() {
		_ = b.purge(ctx, c, b.chunkSubject(before.NUID), 0) // otherwise it will be swept
	}
	return nil
}

// chunkSize returns the number of bytes of a content in one message.
func (b *Bucket) chunkSize(c *conn, config *jetstream.StreamConfig) (int, error) {
	most := c.nc.MaxPayload()
	if config.MaxMsgSize > 0 {
		most = min(most, int64(config.MaxMsgSize))
	}
	if most < leastPayload {
		return 0, &SettingError{Path: b.log.path, Bucket: b.name, Setting: "max_msg_size (or the servers' max_payload)",
			Has: fmt.Sprint(most), Want: fmt.Sprint(leastPayload) + " or more"}
	}
	return int(min(most, mostPiece)) - headerRoom, nil
}

// An upload is an object that is being put.
type upload struct {
	bucket *Bucket
	conn   *conn
	info   jetstream.ObjectInfo
}

// run publishes the content, size bytes in a message, and then the description.
func (u *upload) run(ctx context.Context, data []byte, size int) error {
	chunks := u.bucket.chunkSubject(u.info.NUID)
	last := uint64(0)
	for rest := data; len(rest) > 0; {
		m := nats.NewMsg(chunks)
		m.Data = rest[:min(len(rest), size)]
		rest = rest[len(m.Data):]
		m.Header.Set(headerBehind, strconv.FormatUint(last, 10))
		var err error
		if last, err = u.store(ctx, m, chunks, last); err != nil {
			return err
		}
		u.info.Chunks++
	}
	said, err := json.Marshal(&u.info)
	if err != nil {
		return err
	}
	m := nats.NewMsg(u.bucket.metaSubject(u.info.Name))
	m.Data = said
	m.Header.Set(headerRollup, "sub")
	m.Header.Set(headerBehind, strconv.FormatUint(last, 10))
	m.Header.Set(headerSubject, chunks)
	_, err = u.store(ctx, m, chunks, last)
	return err
}

// store publishes a message after message last of the subject chunks, and returns its number. While no answer comes,
// and patience lasts, it checks whether the message is stored, and publishes it again if it is not.
func (u *upload) store(ctx context.Context, m *nats.Msg, chunks string, last uint64) (uint64, error) {
	b, c := u.bucket, u.conn
	m.Header.Set(headerStream, b.stream())
	waiting, cancel := within(ctx, c.at.Patience)
	defer cancel()
	var pauses backoff
	for {
		seq, err := c.publish(waiting, m)
		var denied *deniedError
		switch {
		case err == nil:
			return seq, nil
		case errors.As(err, &denied), errors.Is(err, nats.ErrConnectionClosed):
			return 0, err
		}
		for code := range bucketRefusals { // any order: an answer has one code
			if hasCode(err, code) {
				return 0, b.explain(fmt.Errorf("%s: the servers refuse to store it: %w", b.log.path, err))
			}
		}
		stands, lerr := b.last(waiting, c, m.Subject)
		if lerr == nil && stands.seq > last && bytes.Equal(stands.data, m.Data) {
			return stands.seq, nil
		}
		if lerr == nil && m.Subject != chunks {
			stands, lerr = b.last(waiting, c, chunks)
		}
		switch {
		case errors.Is(lerr, errNoBucket):
			return 0, lerr
		case lerr == nil && stands.seq != last:
			return 0, errDisturbed
		}
		if !pauses.wait(waiting) {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return 0, fmt.Errorf("%s: write to the bucket %s: %w: see that the servers run, and that most of them "+
				"reach one another", b.log.path, b.name, err)
		}
	}
}

// publish publishes a message to a stream and returns its number there.
func (c *conn) publish(ctx context.Context, m *nats.Msg) (seq uint64, err error) {
	ctx, cancel := within(ctx, min(answerTime, c.at.Patience))
	defer cancel()
	ctx, done := c.asking(ctx, m.Subject)
	defer done()
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, err
	}
	var out struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(answer.Data, &out); err != nil {
		return 0, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if out.Error != nil {
		return 0, out.Error
	}
	return out.Seq, nil
}
