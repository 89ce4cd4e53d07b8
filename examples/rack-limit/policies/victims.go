// Package policies has a lane policy and a victim policy to copy. docs/POLICIES.md explains their methods.
package policies

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/framework"
)

// ByAge is a victim policy: after a time that its arguments give, a pod may be preempted by pods of other namespaces,
// whatever their priorities are. The oldest pod goes first.
type ByAge struct {
	view framework.PolicyView
	args struct{ After string }
	age  time.Duration
}

// NewByAge is its factory.
func NewByAge(args json.RawMessage, view framework.PolicyView) (framework.VictimPolicy, error) {
	b := &ByAge{view: view}
	err := json.Unmarshal(args, &b.args)
	if err == nil {
		b.age, err = time.ParseDuration(b.args.After)
	}
	if err != nil {
		return nil, fmt.Errorf("victimPolicyArgs: want {after: DURATION}: %w", err)
	}
	return b, nil
}

// MayPreempt compares the victim's age with the limit.
func (b *ByAge) MayPreempt(p framework.Preemptor, v *framework.Victim) bool {
	return v.Pods[0].Namespace != p.Pod.Namespace && b.view.Now().Sub(created(v)) >= b.age
}

// Compare says that the younger victim is the more important one.
func (b *ByAge) Compare(x, y *framework.Victim) int { return created(y).Compare(created(x)) }

// created returns the time from which a victim's age counts.
func created(v *framework.Victim) time.Time { return v.Pods[0].CreationTimestamp.Time }

// Below knows no bound: any pod becomes old.
func (b *ByAge) Below(framework.Preemptor) (priority int32, ok bool) { return 0, false }
