package explain

import (
	"context"
	"fmt"
	"iter"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Reader reads a log from an entry on, as eventlog.Log does. An explanation calls it more than once.
type Reader = func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]

// ExplainOptions says what to explain and in which detail.
type Options struct {
	// Registry holds the plugins that the log's configuration may name.
	Registry framework.Registry
	// AtSeq and AtTime are the point in question: nothing behind the last entry that is not after either of them
	// takes part in the answer. 0 is the end of the log.
	AtSeq  uint64
	AtTime eventlog.Time
	// RunnersUp is how many of the nodes that came next after the chosen one are shown; 0 means 5, and a
	// negative number none.
	RunnersUp int
	// Trace has each decision that is explained on a pod tell all that its cycle showed, for every node and plugin.
	Trace bool
	// Progress is called now and then with the last entry read; nil is not called. The log is read twice, unless there
	// is an Index.
	Progress func(seq uint64)
	// Base is the entry behind which the log is known, 0 for a log that has its first entry. What was before is
	// answered by the state after it as far as that can tell.
	Base uint64
	// Restore returns the state after the newest entry from Base to last of which there is one, such as a
	// snapshot's, so that the second reading can begin there; nil if there is none, which may be only if Base
	// is 0. A nil Restore has none. Each call returns a Machine of its own.
	Restore func(last uint64) (*scheduler.Machine, error)
	// Index, if it is not nil, is the log's: then the entries alone are read that may concern what is explained. The
	// answer is the same, but for the names that NotFoundError suggests, which are of late then: see recentNames.
	Index Index
	// Snapshots are the entries of which Restore may have a state, ascending: with an Index, entries are not applied
	// between two of them that concern nothing of what is explained.
	Snapshots []uint64
	// leap is over how many entries it pays to restore a state and not to apply them; 0 stands for the default.
	leap uint64
	// recent stands in the place of recentNames, unless it is 0.
	recent uint64
}

// minLeap is Options.leap unless a test says otherwise: with 5,000 nodes and 40,000 pods, restoring takes as long as
// applying twice as many entries. With fewer it does not pay as soon.
const minLeap = 40000

func (o *Options) minLeap() uint64 {
	if o.leap == 0 {
		return minLeap
	}
	return o.leap
}

func (o *Options) recentNames() uint64 {
	if o.recent == 0 {
		return recentNames
	}
	return o.recent
}

// state returns the newest state that is known after an entry up to last; the empty one if there is no other.
func (o *Options) state(last uint64) (*scheduler.Machine, error) {
	if o.Restore == nil && o.Base > 0 {
		return nil, fmt.Errorf("the log is known behind entry %d only, and there is no state to begin with", o.Base)
	}
	if o.Restore != nil {
		m, err := o.Restore(max(last, o.Base))
		if err != nil || m != nil {
			return m, err
		}
	}
	return scheduler.New(o.Registry), nil
}

// knownFrom is the first entry of which the log tells, 0 if that is the first there was.
func (o *Options) knownFrom() uint64 {
	if o.Base == 0 {
		return 0
	}
	return o.Base + 1
}

func (o *Options) runnersUp() int {
	if o.RunnersUp == 0 {
		return 5
	}
	return max(0, o.RunnersUp)
}

func (o *Options) progress(seq uint64) {
	if o.Progress != nil && seq%1000 == 0 {
		o.Progress(seq)
	}
}

// reaches reports whether e is not after the point in question.
func (o *Options) reaches(e eventlog.Entry) bool {
	return (o.AtSeq == 0 || e.Seq <= o.AtSeq) && (o.AtTime == 0 || e.Time <= o.AtTime)
}
