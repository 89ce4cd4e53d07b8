package choices

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// gangOf says what Rollcall would have done with a member of a gang: g is the gang before the bind, nil if the log did
// not have it. absent: the member was not in it yet.
func gangOf(g *cluster.Group, name types.NamespacedName, absent bool) *answer.ChoiceGang {
	x := &answer.ChoiceGang{Group: name.String()}
	if g == nil {
		x.Waits = "its PodGroup is not there"
		return x
	}
	x.Min, x.OnNodes, x.Members = g.Min(), g.Placed(), len(g.Members())
	present := g.Count(gang.Present)
	if absent {
		x.Members, present = x.Members+1, present+1
	}
	switch {
	case g.Refusal() != "":
		x.Waits = "the gang is refused: " + g.Refusal()
	case !g.Declared():
		x.Waits = "its PodGroup is not there"
	case present < g.Min() && !g.NonStrict():
		x.Waits = fmt.Sprintf("the gang has %d of the %d members it needs", present, g.Min())
	case g.Count(gang.Assigned)+1 < g.Min():
		x.Waits = fmt.Sprintf("it is held until %d members have nodes; %d had one", g.Min(), x.OnNodes)
	}
	return x
}

// tryGang reports whether all members that a gang needs would have found nodes. tried is false if that cannot be tried.
func tryGang(m *scheduler.Machine, uid types.UID, name types.NamespacedName) (fits, tried bool, err error) {
	trial, err := m.Trial(uid)
	var forgetful *scheduler.NotStatefulError
	if errors.As(err, &forgetful) {
		return false, false, nil
	}
	if err != nil || trial == nil {
		return false, false, err
	}
	for {
		d, ok := trial.Decide(nil)
		if !ok {
			break
		}
		if err := trial.Apply(&d); err != nil {
			return false, false, fmt.Errorf("try gang %s: %w", name, err)
		}
	}
	g := trial.Machine().Cluster().Gangs().Named(name.Namespace, name.Name)
	return g != nil && g.Lacking(gang.OnNodes) <= 0, true, nil
}
