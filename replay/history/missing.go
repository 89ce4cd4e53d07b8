package history

import (
	"context"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// A Missing says that the log of a recorder may lack changes.
type Missing struct {
	// Seq is the entry that says so: from there on nothing is missing. Since and Until are the times between which
	// changes may be missing.
	Seq   uint64 `json:"seq"`
	Since string `json:"since"`
	Until string `json:"until"`
	// Resources are the kinds of objects, and Reason is the reason.
	Resources []eventlog.Resource `json:"resources"`
	Reason    string              `json:"reason,omitempty"`
	// Message is all of it in words.
	Message string `json:"message"`
}

// maxMissing is the largest number of Missing that a log tells.
const maxMissing = 100

// Missing returns the last times of which changes may be missing, at most 100, in order.
func (l *Log) Missing(ctx context.Context) (all []Missing, err error) {
	query := Query{Keys: []index.Key{index.Missing()}, Kinds: []eventlog.Kind{eventlog.KindWatched}}
	for e, err := range l.Entries(ctx, query) {
		if err != nil {
			return all, err
		}
		for _, gap := range e.Payload.(*eventlog.Watched).Gaps() {
			all = append(all, Missing{Seq: e.Seq, Since: gap.Since.String(), Until: e.Time.String(),
				Resources: gap.Resources, Reason: gap.Reason, Message: gap.Words(e.Time)})
		}
		all = all[max(0, len(all)-maxMissing):]
	}
	return all, nil
}
