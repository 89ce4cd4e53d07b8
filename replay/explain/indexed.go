package explain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/index"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Index tells which entries of a log may name something, and has single entries.
type Index interface {
	// Last returns the last entry.
	Last() (uint64, error)
	// Until returns the last entry that is not after a time, 0 if there is none.
	Until(ctx context.Context, at eventlog.Time) (uint64, error)
	// Naming returns, ascending, the entries that name one of the keys, and it may be others.
	Naming(ctx context.Context, keys ...index.Key) ([]uint64, error)
	// Pick yields the entries of seqs, which ascend.
	Pick(ctx context.Context, seqs []uint64) iter.Seq2[eventlog.Entry, error]
}

// errWhole says that the whole log has to be read: what is asked for is admitted with others, of which more matters
// than what names it; or most entries name it; or the point in question is outside the log, which is said there.
var errWhole = errors.New("the whole log is to be read")

// mentions are what the entries may name that concern what is explained.
type mentions struct {
	keys  map[index.Key]bool
	uids  map[types.UID]bool
	nodes map[string]bool // on which one of the pods was or is to be
	grown bool            // since they were last looked for
}

func newMentions(keys ...index.Key) *mentions {
	n := &mentions{keys: map[index.Key]bool{}, uids: map[types.UID]bool{}, nodes: map[string]bool{}}
	n.add(index.Barrier())
	for _, k := range keys {
		n.add(k)
	}
	return n
}

func (n *mentions) clone() *mentions {
	return &mentions{keys: maps.Clone(n.keys), uids: maps.Clone(n.uids), nodes: maps.Clone(n.nodes), grown: n.grown}
}

func (n *mentions) add(k index.Key) {
	if !n.keys[k] {
		n.keys[k], n.grown = true, true
	}
}

func (n *mentions) addUID(uid types.UID) {
	n.uids[uid] = true
	n.add(index.UID(uid))
}

func (n *mentions) addNode(name string) {
	if name != "" {
		n.nodes[name] = true
		n.add(index.Node(name))
	}
}

// knows reports whether entries that name the pod, or its node, were looked for.
func (n *mentions) knows(p *cluster.Pod) bool {
	return n.uids[p.Object.UID] && (p.Node == "" || n.nodes[p.Node])
}

// noteDecision adds the nodes that a decision has the pods stand on, and has the results of its evictions looked for.
func (n *mentions) noteDecision(seq uint64, d *eventlog.Decision) {
	if n.uids[d.UID] {
		n.addNode(d.Node)
	}
	for i := range d.Places {
		if n.uids[d.Places[i].UID] {
			n.addNode(d.Places[i].Node)
		}
	}
	if preempts(d) {
		n.add(index.Evictions(seq))
	}
}

// note adds what an entry tells of the names.
func (n *mentions) note(e eventlog.Entry, of func(*v1.Pod) bool) {
	switch p := e.Payload.(type) {
	case *eventlog.Upserted:
		if pod, ok := p.Object.(*v1.Pod); ok && (n.uids[pod.UID] || of(pod)) {
			n.addUID(pod.UID)
			n.addNode(pod.Spec.NodeName)
		}
	case *eventlog.Decision:
		n.noteDecision(e.Seq, p)
	case *eventlog.BindResult:
		if n.uids[p.UID] {
			n.addNode(p.Node)
		}
	}
}

// A search looks in an index for the entries that concern what is explained.
type search struct {
	ctx   context.Context
	opts  *Options
	at    answer.Point
	known *mentions
	seqs  []uint64 // ascending, none behind the point in question
}

// newSearch finds out where the point in question is.
func newSearch(ctx context.Context, opts *Options, known *mentions) (*search, error) {
	s := &search{ctx: ctx, opts: opts, known: known}
	last, err := opts.Index.Last()
	if err != nil {
		return nil, err
	}
	seq := last
	if opts.AtTime > 0 {
		if seq, err = opts.Index.Until(ctx, opts.AtTime); err != nil {
			return nil, err
		}
	}
	if opts.AtSeq > 0 {
		seq = min(seq, opts.AtSeq)
	}
	switch {
	case opts.AtSeq > last || opts.Base > 0 && seq <= opts.Base:
		return nil, errWhole // which says what is wrong with that
	case seq == 0: // before the first entry
		return s, nil
	}
	for e, err := range opts.Index.Pick(ctx, []uint64{seq}) {
		if err != nil {
			return nil, err
		}
		s.at = pointOf(e)
	}
	return s, nil
}

// naming returns the entries up to the point in question that may name one of the keys.
func (s *search) naming(keys ...index.Key) ([]uint64, error) {
	seqs, err := s.opts.Index.Naming(s.ctx, keys...)
	if err != nil {
		return nil, err
	}
	from, _ := slices.BinarySearch(seqs, s.opts.Base+1)
	to, _ := slices.BinarySearch(seqs, s.at.Seq+1)
	return seqs[min(from, to):to], nil
}

// find looks for the entries that name what is known by now, and has note look at those that are new, until that adds
// no more.
func (s *search) find(note func(eventlog.Entry) error) error {
	seen := 0
	for s.known.grown {
		s.known.grown = false
		keys := make([]index.Key, 0, len(s.known.keys))
		// any order: the index sorts them
		for k := range s.known.keys {
			keys = append(keys, k)
		}
		var err error
		if s.seqs, err = s.naming(keys...); err != nil {
			return err
		}
		if len(s.seqs) == seen {
			continue
		}
		if seen = len(s.seqs); uint64(seen) > 1000+s.at.Seq/8 {
			return errWhole
		}
		if err := s.each(note); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with the entries that were found.
func (s *search) each(f func(eventlog.Entry) error) error {
	for e, err := range s.opts.Index.Pick(s.ctx, s.seqs) {
		if err == nil {
			err = s.ctx.Err()
		}
		if err == nil {
			err = f(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take hands the entries that were found to a scanner. Damage that stands right behind the point in question is found
// as reading the whole log finds it. For key and again see missing.
func (s *search) take(read Reader, key index.Key, to, again scanner) error {
	err := s.each(func(e eventlog.Entry) error {
		to.take(e)
		return nil
	})
	if err != nil {
		return err
	}
	if !to.found() {
		return s.missing(read, key, to, again)
	}
	for _, err := range read(s.ctx, s.at.Seq+1) {
		return err
	}
	return nil
}

// scanPod is scanPrefix by the index.
func scanPod(ctx context.Context, read Reader, opts *Options, to *podScan) (*search, error) {
	s, err := newSearch(ctx, opts, newMentions(index.Pod(to.name)))
	if err != nil {
		return nil, err
	}
	if _, err := startScan(opts, to); err != nil {
		return nil, err
	}
	if to.seen {
		s.known.addUID(to.uid)
		s.known.addNode(to.object.Spec.NodeName)
		if to.group.Name != "" {
			s.known.add(index.Group(to.group))
		}
	}
	own := func(pod *v1.Pod) bool { return pod.Namespace == to.name.Namespace && pod.Name == to.name.Name }
	err = s.find(func(e eventlog.Entry) error {
		if p, ok := e.Payload.(*eventlog.Upserted); ok {
			if pod, ok := p.Object.(*v1.Pod); ok && own(pod) {
				if group, ok := cluster.GroupName(pod); ok {
					s.known.add(index.Group(group))
				}
			}
		}
		s.known.note(e, own)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, s.take(read, index.Pod(to.name), to, newPodScan(to.name.Namespace, to.name.Name))
}

// scanGroup is scanPrefix by the index.
func scanGroup(ctx context.Context, read Reader, opts *Options, to *groupScan) (*search, error) {
	s, err := newSearch(ctx, opts, newMentions(index.Group(to.name)))
	if err != nil {
		return nil, err
	}
	if _, err := startScan(opts, to); err != nil {
		return nil, err
	}
	// any order: fills a map
	for uid := range to.members {
		s.known.addUID(uid)
	}
	err = s.find(func(e eventlog.Entry) error {
		if inComposite(e, to.name) {
			return errWhole
		}
		s.known.note(e, func(pod *v1.Pod) bool {
			group, ok := cluster.GroupName(pod)
			return ok && group == to.name
		})
		return nil
	})
	if err == nil && (to.composite || len(to.below) > 0 || len(to.levels) > 1) {
		err = errWhole
	}
	if err != nil {
		return nil, err
	}
	return s, s.take(read, index.Group(to.name), to, newGroupScan(to.name.Namespace, to.name.Name))
}

// addMembers has the other members of a pod's gang looked for as well: it may be pending with them, and how many of
// them are on nodes is told in any case.
func (s *search) addMembers(group types.NamespacedName) error {
	s.known.grown = true
	return s.find(func(e eventlog.Entry) error {
		s.known.note(e, func(pod *v1.Pod) bool {
			of, ok := cluster.GroupName(pod)
			return ok && of == group
		})
		return nil
	})
}

// tryMembers is addMembers for a pod that is not pending: if most entries name its gang, nothing is added, and a later
// state is made in which the members are.
func (s *search) tryMembers(group types.NamespacedName) error {
	seqs, known := s.seqs, s.known.clone()
	err := s.addMembers(group)
	if errors.Is(err, errWhole) {
		s.seqs, s.known = seqs, known
		return nil
	}
	return err
}

// inComposite reports whether an entry brings a PodGroup of that name that is below a CompositePodGroup, or something
// that is below a CompositePodGroup of that name.
func inComposite(e eventlog.Entry, name types.NamespacedName) bool {
	p, ok := e.Payload.(*eventlog.Upserted)
	if !ok {
		return false
	}
	parent, ok := cluster.ParentName(p.Object)
	_, group := p.Object.(*schedulingv1beta1.PodGroup)
	return ok && (parent == name ||
		group && p.Object.GetNamespace() == name.Namespace && p.Object.GetName() == name.Name)
}

// leaps are what the second reading needs to leave entries out: those that concern what is explained, so that between
// two of them it can go on at a snapshot.
type leaps struct {
	*search
	group  types.NamespacedName // that must not be admitted with others; the zero value for none
	failed uint64               // the snapshot that could not be leapt to
	own    []uint64             // of seqs those that may name the pod itself, or begin an epoch; nil if all count
}

// remain reports whether one of the last entries that concern what is explained is of those that count when it is gone.
func (l *leaps) remain(rest []uint64) bool {
	if len(rest) == 0 || l.own == nil {
		return len(rest) > 0
	}
	i, _ := slices.BinarySearch(l.own, rest[0])
	return i < len(l.own)
}

// leap goes on at the newest snapshot before the next entry that concerns what is explained, if there is one far enough
// ahead, and w has nothing to see on the way.
func (r *rerun) leap(w watcher) error {
	l, m := r.leaps, r.machine
	if l == nil || m.Seq() == 0 {
		return nil
	}
	if g := m.Cluster().Group(l.group.Namespace, l.group.Name); g != nil && g.Composite() != nil {
		return errWhole
	}
	next := r.at.Seq + 1
	i, _ := slices.BinarySearch(l.seqs, m.Seq()+1)
	if err := r.finish(w, l.seqs[i:]); err != nil || r.over {
		return err
	}
	if i < len(l.seqs) {
		next = l.seqs[i]
	}
	i, _ = slices.BinarySearch(r.opts.Snapshots, next)
	if i == 0 {
		return nil
	}
	to := r.opts.Snapshots[i-1]
	if to < m.Seq()+r.opts.minLeap() || to == l.failed || !w.rests(m, l.known) {
		return nil
	}
	later, err := r.opts.state(to)
	if err != nil {
		return err
	}
	if later.Seq() < m.Seq()+r.opts.minLeap() || !w.leapt(m, later, l.known) {
		l.failed = to
		return nil
	}
	if later.Seq() > to {
		return fmt.Errorf("the state after entry %d was asked for, and that after entry %d came", to, later.Seq())
	}
	r.machine = later
	return r.leap(w)
}

// finish ends the second reading before the point in question if no state from here on can mean anything to the
// answer: what is explained is gone, or is a pod that stays bound, and rest, the entries ahead that concern it, are
// none, or the one that takes it away. So the state at the point in question, and that in which it went, need not be
// made. It returns errWhole if the state at hand was made up and the reading has to go on.
func (r *rerun) finish(w watcher, rest []uint64) error {
	m, l := r.machine, r.leaps
	made := false // whether the state at hand is made up, with which the reading cannot go on
	if len(rest) > 0 && !l.remain(rest[1:]) && w.goesWith(m, rest[0], l.known) {
		for e, err := range r.opts.Index.Pick(l.ctx, rest[:1]) {
			if err != nil {
				return err
			}
			e.Seq = m.Seq() + 1 // as if it came next: what is between concerns others
			if err := m.Apply(e); err != nil {
				return fmt.Errorf("replay: entry %d: %w", rest[0], err)
			}
		}
		rest, made = rest[1:], true
	}
	r.over = !l.remain(rest) && w.over(m, l.known)
	if made && !r.over {
		return errWhole
	}
	return nil
}

// over reports whether the pod is gone, or bound and its gang's members are known, with nothing that was asked of the
// world for it, and told without its victims and those that it was a victim of.
func (s *podScan) over(m *scheduler.Machine, known *mentions) bool {
	p := m.Cluster().Pod(s.uid)
	if p == nil || !s.standsAlone(m) {
		return p == nil && s.standsAlone(m)
	}
	return p.Stage == cluster.Bound && known.knows(p) && (p.Group == nil || p.Group.Composite() == nil &&
		!slices.ContainsFunc(p.Group.Members(), func(p *cluster.Pod) bool { return !known.knows(p) }))
}

func (s *podScan) standsAlone(m *scheduler.Machine) bool {
	return m.Queue().Find(s.uid) == nil && !s.lostTo.exists() && len(s.preempted) == 0 &&
		m.AskedBy(s.uid, scheduler.Evict) == 0 && m.AskedBy(s.uid, scheduler.Bind) == 0
}

// goesWith reports whether nothing is told of the entry, which is the next one that concerns the pod, but that it takes
// the pod away from the node where it is bound.
func (s *podScan) goesWith(m *scheduler.Machine, seq uint64, known *mentions) bool {
	p := m.Cluster().Pod(s.uid)
	return p != nil && p.Stage == cluster.Bound && s.gone != nil && s.gone.Seq == seq && s.goneHow == "Deleted" &&
		known.knows(p) && s.standsAlone(m)
}

// rests reports whether the pod is where only entries that name it, its gang or its node can change what is told of it.
func (s *podScan) rests(m *scheduler.Machine, known *mentions) bool {
	p := m.Cluster().Pod(s.uid)
	return p == nil || known.knows(p)
}

// leapt says no if the pod has left the queue or the cluster on the way: how it stood right before is told.
func (s *podScan) leapt(from, to *scheduler.Machine, known *mentions) bool {
	was, is := from.Cluster().Pod(s.uid), to.Cluster().Pod(s.uid)
	if (was == nil) != (is == nil) || !s.rests(to, known) {
		return false
	}
	if from.Queue().Find(s.uid) != nil && to.Queue().Find(s.uid) == nil {
		return false
	}
	s.noteStanding(to)
	return true
}

// rests reports whether nothing is pending of the gang, and nobody is counted that is let past.
func (h *gangHistory) rests(m *scheduler.Machine, known *mentions) bool {
	if h.past.open || h.entityIn(m) != nil {
		return false
	}
	g := h.gang(m)
	if g == nil {
		return true
	}
	if code, _ := h.code(m); code != "" || g.Composite() != nil {
		return false
	}
	return !slices.ContainsFunc(g.Members(), func(p *cluster.Pod) bool { return !known.knows(p) })
}

// leapt says no if the gang is not as it was.
func (h *gangHistory) leapt(from, to *scheduler.Machine, known *mentions) bool {
	was, is := h.gang(from), h.gang(to)
	return (was == nil) == (is == nil) && h.rests(to, known) && conditionOf(was) == conditionOf(is)
}

// over reports whether nothing is pending of the gang, and it is told without victims.
func (h *gangHistory) over(m *scheduler.Machine, known *mentions) bool {
	return h.rests(m, known) && len(h.preempted.list) == 0 && len(h.preemptedBy.list) == 0
}

// goesWith says no: how each member goes is told.
func (h *gangHistory) goesWith(*scheduler.Machine, uint64, *mentions) bool { return false }

// over says no: the gang is pending.
func (w podOfGang) over(*scheduler.Machine, *mentions) bool { return false }

func (w podOfGang) goesWith(*scheduler.Machine, uint64, *mentions) bool { return false }

func (w podOfGang) rests(m *scheduler.Machine, known *mentions) bool {
	return w.podScan.rests(m, known) && w.gang.rests(m, known)
}

func (w podOfGang) leapt(from, to *scheduler.Machine, known *mentions) bool {
	return w.gang.leapt(from, to, known) && w.podScan.leapt(from, to, known)
}

// rests says no: of a CompositePodGroup every entry is applied.
func (w *compositeWatch) rests(*scheduler.Machine, *mentions) bool { return false }

func (w *compositeWatch) leapt(_, _ *scheduler.Machine, _ *mentions) bool { return false }

func (w *compositeWatch) over(*scheduler.Machine, *mentions) bool { return false }

func (w *compositeWatch) goesWith(*scheduler.Machine, uint64, *mentions) bool { return false }
