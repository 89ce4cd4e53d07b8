package explain

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/gang"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// maxDetailed is the number of decisions about members without a node that are explained, beside the last of an
// attempt.
const maxDetailed = 8

// trial runs an attempt at the point in question, to say what keeps a pod or a gang from nodes then.
type trial struct {
	r   *rerun // of the point in question
	on  *rerun // of the trial's own Machine; it has the explained decisions
	own types.UID
	now *scheduler.Trial

	attempt  int     // how many attempts had ended before this one
	fail     failure // the last one of the attempt
	rows     refusedRows
	found    int
	evicted  int
	detailed int
	decision *answer.Decision            // the last one that placed nothing; nil if it is not explained
	byPod    map[string]*answer.Decision // the explained ones of the attempt
	ownNode  *answer.Decision
	refused  refusal // by the last cycle that was explained
}

// try makes a trial of the entity that has the pod; nil if there is nothing to try, or if a plugin has a memory that
// cannot be copied.
func (r *rerun) try(uid types.UID) (*trial, error) {
	now, err := r.machine.Trial(uid)
	var forgetful *scheduler.NotStatefulError
	if errors.As(err, &forgetful) {
		return nil, nil
	}
	if err != nil || now == nil {
		return nil, err
	}
	t := &trial{r: r, own: r.own, now: now, byPod: map[string]*answer.Decision{},
		on: &rerun{reading: r.reading, at: r.at, machine: now.Machine(), done: map[uint64]*answer.Decision{}}}
	for {
		trace := &framework.Trace{}
		d, ok := now.Decide(trace)
		if !ok {
			return t, nil
		}
		t.take(&d, trace)
		if err := now.Apply(&d); err != nil {
			return nil, err
		}
	}
}

// take looks at the next decision, which is to be applied then.
func (t *trial) take(d *eventlog.Decision, trace *framework.Trace) {
	m := t.now.Machine()
	pod := m.Cluster().Pods().Get(d.UID)
	if n := t.now.Attempts(); n != t.attempt { // another one, in another domain
		t.attempt, t.fail, t.rows, t.found, t.detailed = n, failure{}, refusedRows{}, 0, 0
		t.byPod, t.refused = map[string]*answer.Decision{}, refusal{}
	}
	t.evicted += len(d.Victims)
	rec := recorded{t.r.at, d}
	if !rec.failed() {
		if t.found++; t.refused.pod == nil { // the domain that it goes to
			t.refused.left = refusalIn(trace, pod).left
		}
		return
	}
	f := failure{recorded: rec, pod: nameOf(pod.Object)}
	if pod.Group != nil {
		f.gang = pod.Group.Key()
	}
	f.judge(m, pod)
	t.fail = f
	t.decision = nil
	e := m.Queue().Find(d.UID)
	if t.detailed++; t.detailed <= maxDetailed || d.UID == t.own || e == nil || e.NumToTry() <= 1 {
		t.decision = t.on.told(rec, trace)
		t.byPod[f.pod] = t.decision
		t.refused = refusalIn(trace, pod)
	}
	if d.UID == t.own {
		t.ownNode = t.decision
	}
	if f.code == answer.Unplaceable || f.code == answer.PluginFailed {
		t.rows.add(decidedPod(d), refusalsOf(d.Rejections))
	}
}

// answer returns the result of the trial for a gang, or for the pod by itself if g is nil. g is the gang at the point
// in question.
func (t *trial) answer(g *cluster.Group) *answer.Trial {
	x := &answer.Trial{Point: t.r.at, Found: t.found, Evicted: t.evicted}
	if x.Fits = t.fits(g); x.Fits {
		x.AskedFirst = t.asksExtenders(g)
		x.Message = t.fitsText(g)
		if x.AskedFirst {
			x.Message += ", if the HTTP extenders agree: they are asked when it is tried"
		}
		return x
	}
	f := &t.fail
	x.Code, x.Decision, x.Own = f.code, t.decision, t.ownNode
	if f.gang.Name != "" {
		x.Group = f.gang.String()
	}
	t.on.done = map[uint64]*answer.Decision{t.r.at.Seq: t.decision}
	as := &answer.Reason{Code: f.code, Group: x.Group}
	addAttempt(as, &t.rows, f, t.on)
	if d := t.byPod[as.Member]; d != nil {
		x.Decision = d // the decision on the last member stays that member's
		t.on.done[t.r.at.Seq] = d
	}
	if g == nil {
		as.Members, as.MoreMembers = nil, 0
		if t.decision != nil {
			as.Shortfall = shortOf(t.decision, f)
		}
	} else {
		t.addShortfall(as, g)
	}
	x.Member, x.Refusals, x.Members, x.MoreMembers = as.Member, as.Refusals, as.Members, as.MoreMembers
	x.Shortfall = as.Shortfall
	switch {
	case g == nil && t.decision != nil:
		x.Message = phrase.NoNode(t.decision, t.r.at)
	case g != nil && f.gang != g.Key() && !f.together:
		x.Message = fmt.Sprintf("waits for gang %s, which it is admitted together with: that one %s", f.gang,
			failedText(as, t.on, f))
	default:
		x.Message = failedText(as, t.on, f)
	}
	return x
}

// addShortfall adds what all nodes together have too little of at the point in question, or else what the trial's last
// decision found too little.
func (t *trial) addShortfall(x *answer.Reason, g *cluster.Group) {
	if x.Shortfall = shortNow(t.r.at, t.r.machine, g); len(x.Shortfall) == 0 && t.decision != nil &&
		(t.fail.gang == g.Key() || t.fail.together) {
		x.Shortfall = shortOf(t.decision, &t.fail)
	}
}

// fits reports whether all that is needed found nodes.
func (t *trial) fits(g *cluster.Group) bool {
	if g == nil || g.Beyond() {
		return !t.fail.known()
	}
	after := t.now.Machine().Cluster().Gangs().Named(g.Namespace, g.Name)
	return after != nil && after.Lacking(gang.OnNodes) <= 0
}

// asksExtenders reports whether HTTP extenders have a say in where the pods of the entity go.
func (t *trial) asksExtenders(g *cluster.Group) bool {
	m := t.r.machine
	if g == nil {
		p := m.Cluster().Pods().Get(t.own)
		return p != nil && m.ExtendersFilter(p.Object)
	}
	return slices.ContainsFunc(g.Members(), func(p *cluster.Pod) bool { return m.ExtendersFilter(p.Object) })
}

func (t *trial) fitsText(g *cluster.Group) string {
	if g == nil {
		return "a node would take it now"
	}
	return fmt.Sprintf("would find nodes now for %s", phrase.Count(int64(t.found), "member", "members"))
}
