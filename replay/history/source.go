package history

import (
	"context"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A Reader reads the entries of a log. Every eventlog.Reader is one.
type Reader interface {
	// First and Last return the first and the last entry that can be read; Last is 0 for an empty log.
	First() uint64
	Last() (uint64, error)
	// Read yields the entries from one on. Damage is an error where it stands, also right behind the last entry.
	Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
}

// A Source is a log that is open for reading, with its snapshots and its index. *logs.Source is one.
type Source interface {
	Reader
	// Behind returns why the log may have more entries than can be read; nil if it has not, as far as is known.
	Behind() error

	// Base returns the entry after which the first state is known, 0 for the empty state before entry 1.
	Base() (uint64, error)
	// Snapshots returns the entries with a snapshot, ascending. Restore may have no state for some of them.
	SnapshotSeqs() ([]uint64, error)
	// Restore returns the state of the newest snapshot from Base to entry last; nil if there is none, which may be only
	// if Base is 0. Each call returns a Machine of its own.
	Restore(last uint64) (*scheduler.Machine, error)
	// Registry returns the plugins with which states are made.
	Registry() framework.Registry

	// Index returns the log's index, nil if it has none.
	Index(ctx context.Context) (index.Lookup, error)
}

// Plain returns a log that has all its entries, and neither an index nor snapshots, such as one in memory.
func Plain(log Reader, registry framework.Registry) Source { return plain{log, registry} }

type plain struct {
	Reader
	registry framework.Registry
}

var _ Source = plain{}

func (plain) Behind() error { return nil }

func (plain) Base() (uint64, error) { return 0, nil }

func (plain) SnapshotSeqs() ([]uint64, error) { return nil, nil }

func (plain) Restore(uint64) (*scheduler.Machine, error) { return nil, nil }

func (p plain) Registry() framework.Registry { return p.registry }

func (plain) Index(context.Context) (index.Lookup, error) { return nil, nil }
