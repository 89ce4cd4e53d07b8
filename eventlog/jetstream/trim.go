package jetstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A log's first entries can be removed from its stream, once they are kept elsewhere. The stream permanently denies
// deleting messages and purging. A limit remains possible: for a moment the stream gets a limit of messages, so that
// the servers remove the oldest, and then none again. Before that, the stream's metadata gets the number of the log's
// new first message. It has a hash tree, which gives the log's origin. Missing messages without such a record are
// damage.
//
// A writer may append meanwhile. For each message that it adds in that moment the servers remove one more of the
// oldest. So there is a margin between the last message to remove and the log's new first message.

// firstKey is the key, in a stream's metadata, of the number of its log's first message.
const firstKey = "rollcall.dev/first-message"

// identityKey is the key of the result of Identity, once the first record was removed.
const identityKey = "rollcall.dev/first-record"

// trimMargin is the number of messages that a writer may append while the limit is set. Setting and removing it takes
// some hundredths of a second.
const trimMargin = 1024

// Trimmed is the result of Trim.
type Trimmed struct {
	// Messages is the number of removed messages, Bytes the decrease of the stream's size; 0 if there was nothing to
	// remove.
	Messages, Bytes uint64
	// First is the log's first entry now.
	First uint64
}

// Trim removes a log's first entries from its stream, as far as they are before entry before. The log then begins with
// that entry or an earlier one, at the beginning of an append with a hash tree. The caller has the entries elsewhere.
// Trim completes an interrupted Trim. The user needs the permission to update the stream.
func (a *Address) Trim(ctx context.Context, before uint64) (Trimmed, error) {
	return a.trim(ctx, before, trimMargin)
}

func (a *Address) trim(ctx context.Context, before, margin uint64) (Trimmed, error) {
	c, err := a.dial("trim")
	if err != nil {
		return Trimmed{}, err
	}
	defer c.close()
	info, err := c.info(ctx)
	if err == nil && info.Config.MaxMsgs > 0 && info.Config.Metadata[firstKey] != "" {
		info, err = c.unlimit(ctx, info.Config)
	}
	if err != nil {
		return Trimmed{}, err
	}
	l, err := a.OpenReadOnly(ctx)
	if err != nil {
		return Trimmed{}, err
	}
	defer l.Close()
	if l.behind != nil {
		return Trimmed{}, l.behind
	}
	at, err := l.trimPoint(ctx, before)
	none := Trimmed{First: l.First()}
	if err != nil || at <= info.State.FirstSeq+margin {
		return none, err
	}
	identity, err := l.Identity(ctx)
	if err != nil {
		return none, err
	}
	var behind error
	if info, behind, err = c.newest(ctx, leaderTime); err != nil || behind != nil {
		return none, errors.Join(err, behind)
	}
	config := info.Config
	config.Metadata = maps.Clone(config.Metadata)
	if config.Metadata == nil {
		config.Metadata = map[string]string{}
	}
	config.Metadata[firstKey], config.Metadata[identityKey] = strconv.FormatUint(at, 10), identity
	config.MaxMsgs = int64(info.State.LastSeq - (at - margin) + 1)
	config.Discard = jetstream.DiscardOld
	if _, err := c.update(ctx, config); err != nil {
		return none, err
	}
	after, err := c.unlimit(context.WithoutCancel(ctx), config) // in any case
	if err != nil {
		return none, fmt.Errorf("%w; the stream has a limit of messages now, by which each append removes an old one: "+
			"run the command again at once", err)
	}
	if after.State.FirstSeq > at {
		return none, &eventlog.DamagedError{Path: l.path, Seq: l.First(), Err: fmt.Errorf("a writer has appended more "+
			"than %d messages in a moment: the stream begins with message %d, behind the log's new beginning in "+
			"message %d; what is missing is in the copy", margin, after.State.FirstSeq, at)}
	}
	again, err := a.OpenReadOnly(ctx)
	if err != nil {
		return none, err
	}
	defer again.Close()
	return Trimmed{
		Messages: after.State.FirstSeq - info.State.FirstSeq,
		Bytes:    info.State.Bytes - min(info.State.Bytes, after.State.Bytes),
		First:    again.First(),
	}, nil
}

// trimPoint returns the last message with a hash tree that begins an append of entries up to before.
func (l *Log) trimPoint(ctx context.Context, before uint64) (uint64, error) {
	to, err := l.known()
	if err != nil {
		return 0, err
	}
	if before <= l.origin.Seq+1 || to.end.Seq == l.origin.Seq {
		return 0, nil
	}
	at, err := l.reads.find(ctx, min(before, to.end.Seq), to.tail)
	if err != nil {
		return 0, l.explainRead(ctx, before, err)
	}
	f, err := l.reads.frameAt(ctx, at)
	if err != nil {
		return 0, l.explainRead(ctx, before, err)
	}
	if f.treeAt <= l.reads.first() {
		return 0, nil
	}
	_, err = l.originAt(ctx, f.treeAt)
	return f.treeAt, err
}

// originAt returns the place before the append that begins with message at and has a hash tree.
func (l *Log) originAt(ctx context.Context, at uint64) (eventlog.Origin, error) {
	wrong := func(err error) error {
		return &eventlog.DamagedError{Path: l.path, Seq: 1, Err: fmt.Errorf("the log is to begin with message %d of "+
			"the stream: %w", at, err)}
	}
	f, err := l.reads.frameAt(ctx, at)
	if err != nil {
		return eventlog.Origin{}, l.explainOpen(ctx, 1, err)
	}
	if f.tree == nil || f.part != 1 || f.kind != kindAppend {
		return eventlog.Origin{}, wrong(errors.New("it does not begin an append with a hash tree"))
	}
	var a assembly
	for m, err := range l.reads.messages(ctx, at, at+uint64(f.parts)-1) {
		complete := false
		if err == nil {
			complete, err = a.take(m)
		}
		if err != nil {
			return eventlog.Origin{}, l.explainOpen(ctx, f.before+1, err)
		}
		if !complete {
			continue
		}
		rec, _, err := nextRecord(a.body)
		if err != nil {
			return eventlog.Origin{}, wrong(err)
		}
		_, prev, err := eventlog.RecordPlace(rec)
		if err != nil {
			return eventlog.Origin{}, wrong(err)
		}
		origin := eventlog.Origin{Seq: f.before, Hash: prev, Tree: *f.tree}
		if err := origin.Check(); err != nil {
			return origin, wrong(err)
		}
		return origin, nil
	}
	return eventlog.Origin{}, wrong(errors.New("its append is not complete"))
}

// loadTrimmed finds the beginning of a log whose stream lacks its first messages.
func (l *Log) loadTrimmed(ctx context.Context, info *jetstream.StreamInfo) error {
	at, err := strconv.ParseUint(info.Config.Metadata[firstKey], 10, 64)
	if err != nil || info.State.FirstSeq > at {
		return &eventlog.DamagedError{Path: l.path, Seq: 1,
			Err: fmt.Errorf("the stream begins with message %d: those before were removed", info.State.FirstSeq)}
	}
	if l.origin, err = l.originAt(ctx, at); err != nil {
		return err
	}
	l.reads.base, l.reads.origin = at-1, l.origin.End()
	l.identity = info.Config.Metadata[identityKey]
	return nil
}

// Identity returns the log's identity: the hash of the first record that it ever had, in hexadecimal. The record
// begins an epoch and has a random identity.
func (l *Log) Identity(ctx context.Context) (string, error) {
	if l.identity != "" {
		return l.identity, nil
	}
	hash, err := l.RecordHash(ctx, l.First())
	if errors.As(err, new(*eventlog.ArchivedError)) { // since this Log was opened
		if info, ierr := l.reads.info(ctx); ierr == nil && info.Config.Metadata[identityKey] != "" {
			return info.Config.Metadata[identityKey], nil
		}
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash), nil
}

// trimmedSince returns the log's present first entry, if its stream lacks messages that it had when this Log was
// opened.
func (l *Log) trimmedSince(ctx context.Context) (first uint64, trimmed bool) {
	info, err := l.reads.info(ctx)
	if err != nil || info.State.FirstSeq <= l.reads.first() {
		return 0, false
	}
	at, err := strconv.ParseUint(info.Config.Metadata[firstKey], 10, 64)
	if err != nil || at < info.State.FirstSeq {
		return 0, false
	}
	f, err := l.reads.frameAt(ctx, at)
	return f.before + 1, err == nil
}

// unlimit restores the settings of a log's stream.
func (c *conn) unlimit(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	config.MaxMsgs, config.Discard = -1, jetstream.DiscardNew
	return c.update(ctx, config)
}

// update changes the stream's settings.
func (c *conn) update(ctx context.Context, config jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	var info jetstream.StreamInfo
	err := c.ask(ctx, "change the stream's settings", "STREAM.UPDATE."+c.at.Stream, config, &info)
	return &info, err
}
