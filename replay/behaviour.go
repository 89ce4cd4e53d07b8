package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/scheduler"
)

// OtherRules describes the differences in epochs of a behaviour whose rules this version does not keep. They are no
// divergences.
type OtherRules struct {
	// Behaviour is the behaviour of the epochs. Decides is the behaviour with which this version decided them again.
	Behaviour uint32 `json:"behaviour"`
	Decides   uint32 `json:"decides"`
	// Changed says, a sentence each, which rules were changed since Behaviour.
	Changed []string `json:"changed"`
	// Differences are the first ones found, in order, Count counts all of them.
	Differences []Divergence `json:"differences"`
	Count       uint64       `json:"count"`
}

// String says it in a few lines, without the differences.
func (o *OtherRules) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"decided by behaviour %d, this version decides by %d: %d decisions differ, by rules that were changed",
		o.Behaviour,
		o.Decides,
		o.Count,
	)
	for _, rule := range o.Changed {
		fmt.Fprintf(&b, "\n  %s", rule)
	}
	return b.String()
}

// otherRules returns the known differences in epochs of the Machine's behaviour. It returns nil if its rules are kept,
// so that differences are divergences.
func (v *verifier) otherRules() *OtherRules {
	number := v.machine.Behaviour()
	at := slices.IndexFunc(v.behaviours, func(r scheduler.Rules) bool { return r.Number == number })
	if at < 0 || v.behaviours[at].Kept {
		return nil
	}
	for i := range v.report.OtherRules {
		if o := &v.report.OtherRules[i]; o.Behaviour == number {
			return o
		}
	}
	o := OtherRules{Behaviour: number, Decides: v.behaviours[len(v.behaviours)-1].Number}
	for _, later := range v.behaviours[at+1:] {
		o.Changed = append(o.Changed, later.Changed...)
	}
	v.report.OtherRules = append(v.report.OtherRules, o)
	return &v.report.OtherRules[len(v.report.OtherRules)-1]
}
