package scheduler

import (
	"fmt"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Behaviour is the number of the rules of this version, with which it starts epochs.
const Behaviour = 10

// Rules describes one behaviour.
type Rules struct {
	// Number is the behaviour's. A number is never used for other rules.
	Number uint32 `json:"behaviour"`
	// Plugins is the version of Kubernetes whose plugins belong to the rules. Apply asks two kinds of them: PreEnqueue
	// and the QueueingHints, whose answers are state of the queue.
	Plugins string `json:"plugins"`
	// Changed says, a sentence each, what is different from the behaviour before it.
	Changed []string `json:"changed"`
	// Kept reports whether this version still decides by these rules. If not, decisions of such an epoch that would be
	// made otherwise now are no divergence.
	Kept bool `json:"kept"`
}

// Behaviours is the table of the behaviours whose epochs this version applies and decides again, in ascending order.
//
// Until 0.1.0 is cut, behaviour 10 may change without a new number. From then on these rules hold:
//
//   - A change that lets this version decide or apply otherwise needs a new row, and logs in package compat. So does
//     another version of Kubernetes.
//   - A release adds at most one row.
//   - All later versions apply the logs of every release. A row may lose Kept, but it stays.
//   - A number is never reused. The numbers 1 to 9 belong to versions from before the first release.
//
// A rule of which rows differ asks Machine.Behaviour, in the code that follows the rule.
var Behaviours = []Rules{
	{Number: 10, Plugins: "v1.37.2", Kept: true, Changed: []string{"The first rules that a release keeps."}},
}

// BehaviourError says that an epoch, or the state in a snapshot, has a behaviour that this version does not know.
type BehaviourError struct {
	// Number is the behaviour that was found. Lowest and Highest are the limits of this version.
	Number, Lowest, Highest uint32
}

// Error implements error.
func (e *BehaviourError) Error() string {
	if e.Number < e.Lowest {
		return fmt.Sprintf("it was decided by behaviour %d, before the first release of Rollcall: this version knows "+
			"behaviour %d and later: read it with the program that wrote it, or with one built from commit %s",
			e.Number, e.Lowest, eventlog.LastPrerelease)
	}
	return fmt.Sprintf("it was decided by behaviour %d, and this version knows behaviours up to %d: "+
		"use a newer version", e.Number, e.Highest)
}

// Behaviour returns the number of the rules of the running epoch. Before the first epoch it is this version's own.
func (m *Machine) Behaviour() uint32 { return m.behaviour }

// setBehaviour makes a number that an epoch or a state records the one in force. The first behaviour recorded none.
func (m *Machine) setBehaviour(number uint32) error {
	number = max(1, number)
	if !slices.ContainsFunc(Behaviours, func(r Rules) bool { return r.Number == number }) {
		return &BehaviourError{Number: number, Lowest: Behaviours[0].Number, Highest: Behaviour}
	}
	m.behaviour = number
	return nil
}

// comparesTolerations reports whether tolerations that compare numbers count in the search for room that comes free.
// The gates of the configuration are in force.
func comparesTolerations() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}
