package explain

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// Options say what to explain and in which detail.
type Options struct {
	// AtSeq and AtTime are the point in question: nothing behind the last entry that is not after either of them
	// takes part in the answer. 0 is the end of the log.
	AtSeq  uint64
	AtTime eventlog.Time
	// RunnersUp is the number of nodes shown that came next after the chosen one; 0 means 5, and a negative number
	// none.
	RunnersUp int
	// Trace adds, to each decision of a pod that is explained, all that its cycle showed for every node and plugin.
	Trace bool
	// Placing returns the known facts about a pod's way to its node, in a log without decisions; nil for none.
	Placing func(uid types.UID) *answer.Placing
	// Configuration names the configuration with which the log is read in place of its own; "" for its own.
	Configuration string
	// recent replaces recentNames, unless it is 0.
	recent uint64
}

func (o *Options) bound() history.Bound { return history.Bound{Seq: o.AtSeq, Time: o.AtTime} }

func (o *Options) recentNames() uint64 {
	if o.recent == 0 {
		return recentNames
	}
	return o.recent
}

func (o *Options) runnersUp() int {
	if o.RunnersUp == 0 {
		return 5
	}
	return max(0, o.RunnersUp)
}

// recentNames is the number of entries before the point in question that are searched for names like the missing one,
// if the log has an index. The names of the state before them are searched too. Reading so many takes a third of a
// second.
const recentNames = 200_000
