package logs

import (
	"context"
	"errors"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// openStream opens a log in NATS JetStream for reading. Its writer continues, and is not contacted.
func (o Options) openStream(ctx context.Context, name string) (*Source, error) {
	at, err := streamAt(name)
	if err != nil {
		return nil, err
	}
	if len(o.Archives) > 0 {
		return nil, Refuse("%s: a log in NATS JetStream has no archives: leave --archive out", at)
	}
	log, err := at.OpenReadOnly(ctx)
	if err != nil {
		return nil, err
	}
	if behind := log.Behind(); behind != nil {
		last, err := log.Last()
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		o.report("%v: read up to entry %d, behind which there may be more", behind, last)
	}
	s := &Source{path: at.String(), opts: o, reader: log, stream: log, beside: besideStream(ctx, log, 0)}
	s.snapshots = snapshot.Series{Store: s.beside, Position: s.positionIn(ctx), Registry: o.Registry}
	return s, nil
}

// keepStream opens a log in NATS JetStream for appending. It needs no lock, and is not served: the stream keeps writers
// apart, and readers read it.
func (o KeepOptions) keepStream(
	name string, open func(at *jetstream.Address) (*jetstream.Log, error),
) (*Kept, error) {
	at, err := streamAt(name)
	switch {
	case err != nil:
		return nil, err
	case o.SegmentBytes > 0:
		return nil, Refuse("%s: a log in NATS JetStream has no segments: leave --segment-size out", at)
	case len(o.Archives) > 0:
		return nil, Refuse("%s: a log in NATS JetStream has no archives: leave --archive out", at)
	}
	log, err := open(at)
	if err != nil {
		return nil, err
	}
	k := &Kept{Log: log, path: at.String(), opts: o, beside: besideStream(context.Background(), log, 0)}
	if err := o.mayGoOn(log, k.beside); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return k, nil
}
