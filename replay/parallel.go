package replay

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

// Parallel says how a log is verified in several parts at a time.
type Parallel struct {
	// Workers is the number of parts that are verified at a time.
	Workers int
	// Begin makes the state that the first entry follows; nil for the empty one. Options.Start is ignored.
	Begin func() (*scheduler.Machine, error)
	// Read reads the log from an entry on; it is called by several goroutines at a time. Last is the last entry.
	Read func(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error]
	Last uint64
	// Load returns the snapshot of an entry of Options.States, whole and of this log.
	Load func(seq uint64) (*snapshot.Snapshot, error)
}

// errAlone says that parts cannot be verified at a time.
var errAlone = errors.New("the log is to be verified in one part")

// VerifyParallel is Verify of the entries behind Begin's state to the last one, in parts that begin with snapshots. The
// report is the same. A part counts only if the one before it ended with the state that its snapshot has: then, by
// induction, it began with the state that Verify has there. If one did not, all entries from its beginning on are
// verified again, in one part.
//
// Feature gates are variables of the process: if the epochs' gates differ, there is one part.
//
// It returns the number of parts. Options.Progress is not called by two goroutines at once.
func VerifyParallel(ctx context.Context, p Parallel, opts Options) (report Report, parts int, err error) {
	v := parallel{Parallel: p, opts: opts, keep: opts.Keep}
	if v.keep == 0 {
		v.keep = 10
	}
	if v.start, err = v.begin(); err != nil {
		return report, 0, err
	}
	v.first = v.start.Seq()
	if err := v.cut(); err == nil && len(v.parts) > 1 {
		if report, err = v.run(ctx); !errors.Is(err, errAlone) {
			return report, len(v.parts), err
		}
	}
	opts.Start = v.start
	report, err = Verify(ctx, p.Read(ctx, v.first+1), opts)
	return report, 1, err
}

// begin makes the state that the first entry follows.
func (v *parallel) begin() (m *scheduler.Machine, err error) {
	if v.Begin != nil {
		m, err = v.Begin()
	}
	if m == nil && err == nil {
		m = scheduler.New(v.opts.Registry)
	}
	return m, err
}

// parallel verifies the parts of a log.
type parallel struct {
	Parallel
	opts  Options
	start *scheduler.Machine
	first uint64 // the entry before the first one
	keep  int
	gates map[string]bool
	parts []*verifiedPart

	mu   sync.Mutex
	read uint64 // entries that were verified
}

// A verifiedPart is a range of entries behind a state.
type verifiedPart struct {
	begin, end uint64             // the entry before the first one, and the last one
	from       *snapshot.Snapshot // nil for Begin's state
	report     Report
	err        error
	done       chan struct{}
}

// cut chooses the parts, about two for each worker, of about the same size. The error is errAlone.
func (v *parallel) cut() error {
	seqs := slices.Sorted(maps.Keys(v.opts.States))
	n := uint64(2 * max(1, v.Workers))
	size := (v.Last - min(v.first, v.Last)) / n
	begin := &verifiedPart{begin: v.first, done: make(chan struct{})}
	v.parts = []*verifiedPart{begin}
	known := v.first > 0
	if known {
		config, err := v.config(v.first)
		if err != nil {
			return errAlone
		}
		v.gates = framework.LoggedFeatureGates(config)
	}
	for _, seq := range seqs {
		last := v.parts[len(v.parts)-1]
		if v.Workers < 2 || seq <= v.first || seq >= v.Last || seq < last.begin+max(1, size) {
			continue
		}
		snap, err := v.Load(seq)
		if err != nil {
			continue // it is compared, and told, where it is passed
		}
		config, _, err := snap.Config()
		if err != nil {
			continue
		}
		gates := framework.LoggedFeatureGates(config)
		if known && !maps.Equal(gates, v.gates) {
			return errAlone
		}
		v.gates, known = gates, true
		last.end = seq
		v.parts = append(v.parts, &verifiedPart{begin: seq, from: snap, done: make(chan struct{})})
	}
	v.parts[len(v.parts)-1].end = v.Last
	return nil
}

// config returns the configuration that the snapshot of an entry has.
func (v *parallel) config(seq uint64) ([]byte, error) {
	snap, err := v.Load(seq)
	if err != nil {
		return nil, err
	}
	config, _, err := snap.Config()
	return config, err
}

// run verifies the parts and puts their reports together.
func (v *parallel) run(ctx context.Context) (Report, error) {
	within, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	// The first Machine puts the feature gates in force, before there are two.
	ahead, err := v.parts[1].from.Restore(v.opts.Registry)
	if err != nil {
		return Report{}, errAlone
	}
	next := make(chan *verifiedPart, len(v.parts))
	for _, part := range v.parts {
		next <- part
	}
	close(next)
	for range min(v.Workers, len(v.parts)) {
		working.Go(func() {
			for part := range next {
				v.work(within, part, ahead)
				close(part.done)
			}
		})
	}
	return v.collect(ctx, cancel)
}

// work verifies a part; ahead is the state that the second one begins with.
func (v *parallel) work(ctx context.Context, part *verifiedPart, ahead *scheduler.Machine) {
	start := v.start
	switch part {
	case v.parts[0]:
	case v.parts[1]:
		start = ahead
	default:
		var err error
		if start, err = part.from.Restore(v.opts.Registry); err != nil {
			part.err = errAlone
			return
		}
	}
	part.report, part.err = v.verify(ctx, part, start)
}

// verify verifies a part.
func (v *parallel) verify(ctx context.Context, part *verifiedPart, start *scheduler.Machine) (Report, error) {
	opts := v.opts
	opts.Start, opts.Progress = start, nil
	entries := func(yield func(eventlog.Entry, error) bool) {
		for e, err := range v.Read(ctx, part.begin+1) {
			if epoch, ok := e.Payload.(*eventlog.EpochStarted); ok && err == nil &&
				!maps.Equal(framework.LoggedFeatureGates(epoch.Config), v.gates) {
				err = errAlone
			}
			if !yield(e, err) || err != nil || e.Seq == part.end {
				return
			}
			v.progress(e.Seq)
		}
	}
	return Verify(ctx, entries, opts)
}

// progress tells how many entries were verified, as if they were the first ones.
func (v *parallel) progress(seq uint64) {
	if v.opts.Progress == nil || seq%1000 != 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read += 1000
	v.opts.Progress(v.first + v.read)
}

// collect puts the reports of the parts together, in order.
func (v *parallel) collect(ctx context.Context, cancel context.CancelFunc) (Report, error) {
	var sum Report
	for i, part := range v.parts {
		<-part.done
		if errors.Is(part.err, errAlone) {
			cancel()
			v.await()
			return v.alone(ctx, max(0, i-1), v.before(i-1))
		}
		if part.err != nil || part.report.Hash == "" { // damage, or an entry that cannot be applied: it ends there
			v.add(&sum, &part.report)
			return sum, part.err
		}
		if i+1 < len(v.parts) && slices.Contains(part.report.OtherStates, part.end) {
			cancel()
			v.await()
			return v.alone(ctx, i, sum)
		}
		v.add(&sum, &part.report)
	}
	return sum, nil
}

// await waits until no part is being verified any more: Machines of other feature gates may come.
func (v *parallel) await() {
	for _, part := range v.parts {
		<-part.done
	}
}

// before returns the sum of the reports of the first n parts.
func (v *parallel) before(n int) (sum Report) {
	for _, part := range v.parts[:max(0, n)] {
		v.add(&sum, &part.report)
	}
	return sum
}

// alone verifies the rest of the log, from a part on, in one part, and adds that to the report of those before.
func (v *parallel) alone(ctx context.Context, from int, sum Report) (Report, error) {
	part, opts := v.parts[from], v.opts
	var err error
	if part.from == nil {
		opts.Start, err = v.begin() // the other state has changed since
	} else {
		opts.Start, err = part.from.Restore(opts.Registry)
	}
	if err != nil {
		return sum, err
	}
	rest, err := Verify(ctx, v.Read(ctx, part.begin+1), opts)
	v.add(&sum, &rest)
	return sum, err
}

// add adds the report of the next part to sum.
func (v *parallel) add(sum, r *Report) {
	if sum.Entries == 0 {
		sum.Start = r.Start
	}
	sum.Entries, sum.Decisions, sum.Diverged = sum.Entries+r.Entries, sum.Decisions+r.Decisions, sum.Diverged+r.Diverged
	sum.LastSeq, sum.Undecided, sum.Hash = r.LastSeq, r.Undecided, r.Hash
	sum.States, sum.OtherStates = append(sum.States, r.States...), append(sum.OtherStates, r.OtherStates...)
	sum.Divergences = first(v.keep, sum.Divergences, r.Divergences)
	for _, o := range r.OtherRules {
		i := slices.IndexFunc(sum.OtherRules, func(known OtherRules) bool { return known.Behaviour == o.Behaviour })
		if i < 0 {
			sum.OtherRules = append(sum.OtherRules, o)
			continue
		}
		sum.OtherRules[i].Count += o.Count
		sum.OtherRules[i].Differences = first(v.keep, sum.OtherRules[i].Differences, o.Differences)
	}
}

// first returns the first n of both lists.
func first(n int, a, b []Divergence) []Divergence {
	return append(a, b[:min(len(b), max(0, n-len(a)))]...)
}
