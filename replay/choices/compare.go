package choices

import (
	"context"
	"fmt"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// Compare reads a log from entry first to entry last, and passes each choice to emit. An error of emit ends it.
func Compare(ctx context.Context, log *history.Log, first, last uint64, opts Options,
	emit func(*answer.Choice) error) (*Summary, error) {
	m, err := log.At(ctx, first-1)
	if err != nil {
		return nil, err
	}
	reader, sum := NewReader(opts), &Summary{}
	for e, err := range log.Entries(ctx, history.Query{From: first, To: history.Bound{Seq: last}}) {
		if err != nil {
			return nil, err
		}
		x, err := reader.Before(m, e)
		if err == nil && x != nil {
			sum.Add(x)
			err = emit(x)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", e.Seq, err)
		}
		if err := m.Apply(e); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	sum.Close(reader.Came)
	return sum, nil
}
