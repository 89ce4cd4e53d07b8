package simulate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/scheduler"
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

// writeEffects writes a line for each effect that is released because its decision is durable. It implements
// engine.Options.Observe. An effect with a line was not necessarily carried out: the process may end in between. The
// resumed run writes the line again.
func (r *run) writeEffects(c engine.Commit) error {
	if len(c.Effects) == 0 {
		return nil
	}
	now := c.Entries[len(c.Entries)-1].Time.Std()
	var lines []byte
	for _, e := range c.Effects {
		kind := "Bind"
		switch e.Kind {
		case scheduler.Evict:
			kind = "Evict"
		case scheduler.Ask:
			continue // it changes nothing
		case scheduler.GiveBack:
			continue // it is about no pod
		}
		line, err := json.Marshal(EffectLine{e.Seq, now, kind, e.Namespace + "/" + e.Name, string(e.UID), e.Node})
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	if _, err := r.Effects.Write(lines); err != nil { // at once: a reader of the file finds whole lines
		return fmt.Errorf("tell of effects: %w", err)
	}
	return nil
}
