package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim"
)

// EffectLine is the line for one effect.
type EffectLine struct {
	// Seq is the decision that asks for the effect.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	Pod  string    `json:"pod"`
	UID  string    `json:"uid"`
	Node string    `json:"node"`
}

// telling is a Scheduler whose effects are written to a file before the cluster carries them out.
type telling struct {
	sim.Scheduler
	to io.Writer
}

// Step implements sim.Scheduler.
func (t *telling) Step(ctx context.Context, now time.Time, inputs []eventlog.Payload) (engine.Ready, error) {
	ready, err := t.Scheduler.Step(ctx, now, inputs)
	if err == nil {
		err = writeEffects(t.to, ready)
	}
	return ready, err
}

// writeEffects writes a line for each effect that binds or evicts a pod. The effects' decisions are durable. An effect
// with a line was not necessarily carried out: the process may end in between. The resumed run writes the line again.
func writeEffects(to io.Writer, ready engine.Ready) error {
	var lines []byte
	for i := range ready.Effects {
		e, kind := &ready.Effects[i], "Bind"
		switch e.Kind {
		case scheduler.Evict:
			kind = "Evict"
		case scheduler.Ask:
			continue // it changes nothing
		case scheduler.GiveBack:
			continue // it is about no pod
		}
		line, err := json.Marshal(EffectLine{e.Seq, ready.State.Now().Std(), kind, e.Namespace + "/" + e.Name,
			string(e.UID), e.Node})
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if len(lines) == 0 {
		return nil
	}
	if _, err := to.Write(lines); err != nil { // at once: a reader of the file finds whole lines
		return fmt.Errorf("tell of effects: %w", err)
	}
	return nil
}
