package logs

import (
	"context"
	"fmt"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// A Followed log is one that another process writes, and that this one may take over.
type Followed struct {
	*jetstream.Log
	beside *inBucket
}

// Follow opens a log in NATS JetStream to follow what another process appends. The error wraps fs.ErrNotExist if there
// is none yet.
func (o KeepOptions) Follow(ctx context.Context, name string) (*Followed, error) {
	if !InStream(name) {
		return nil, Refuse("%s: a log in a directory has one writer, and nobody follows it to take it over", name)
	}
	at, err := streamAt(name)
	if err != nil {
		return nil, err
	}
	log, err := at.OpenReadOnly(ctx)
	if err != nil {
		return nil, err
	}
	return &Followed{log, besideStream(context.WithoutCancel(ctx), log, 0)}, nil
}

// Snapshots returns the store for snapshots of the log that are spacing entries apart.
func (f *Followed) Snapshots(spacing uint64) snapshot.Store {
	f.beside.space(spacing)
	return f.beside
}

// Announce makes this process answer with name to the followers of the log, until it is closed: they notice at once
// when it has ended. A log in a directory has no followers.
func (k *Kept) Announce(name string) error {
	log, ok := k.Log.(*jetstream.Log)
	if !ok {
		return nil
	}
	if err := log.Announce(name); err != nil {
		return fmt.Errorf("%s: answer to those who follow the log: %w", k.path, err)
	}
	return nil
}
