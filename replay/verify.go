package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Kind is the way in which a log diverges from the decisions made now.
type Kind string

// The kinds.
const (
	// Missing: a decision would be made here that the log does not have.
	Missing Kind = "missing"
	// Extra: the log has a decision where none would be made, or one a second time.
	Extra Kind = "extra"
	// Differs: the log has another decision than would be made.
	Differs Kind = "differs"
	// Unusable: the recorded entry cannot be applied to the state that the entries before it give. It is the
	// last divergence: nothing behind it can be decided again.
	Unusable Kind = "unusable"
)

// Divergence is one place where a log and its replay part.
type Divergence struct {
	Kind Kind `json:"kind"`
	// Seq is the recorded entry, or for Missing the one before which the decision would have been made.
	Seq uint64 `json:"seq"`
	// Pod is namespace/name of the pod that the recorded decision is on, or the one that would be decided on.
	Pod string `json:"pod,omitempty"`
	// Field is the first field that differs, as log cat names it.
	Field string `json:"field,omitempty"`
	// Recorded and Decided are the two values of Field. Without Field they summarize the decisions. For Unusable,
	// Recorded is the reason.
	Recorded string `json:"recorded,omitempty"`
	Decided  string `json:"decided,omitempty"`
}

// String is the divergence in one line.
func (d Divergence) String() string {
	switch d.Kind {
	case Missing:
		return fmt.Sprintf("entry %d: a decision on pod %s is missing before it: %s", d.Seq, d.Pod, d.Decided)
	case Extra:
		return fmt.Sprintf("entry %d: the decision on pod %s is one too many: it would not be made here (recorded: %s)",
			d.Seq, d.Pod, d.Recorded)
	case Unusable:
		return fmt.Sprintf("entry %d cannot be applied, and ends the replay: %s", d.Seq, d.Recorded)
	}
	return fmt.Sprintf("entry %d: the decision on pod %s differs in %s: recorded %s, decided %s", d.Seq, d.Pod, d.Field,
		d.Recorded, d.Decided)
}

// Report is the result of Verify.
type Report struct {
	// Start is the entry of the state that it began with, 0 if that was the empty one: what is behind it was
	// read and compared, and nothing else.
	Start uint64 `json:"start"`
	// Entries and Decisions count what was read and compared.
	Entries   uint64 `json:"entries"`
	Decisions uint64 `json:"decisions"`
	// LastSeq is the last entry read.
	LastSeq uint64 `json:"lastSeq"`
	// Undecided says that there would be more to decide after the last entry. That is no divergence: the
	// writer may have been stopped.
	Undecided bool `json:"undecided"`
	// States are the entries of Options.States that were passed. OtherStates are the ones of them after which the state
	// differs from the given hash.
	States      []uint64 `json:"states,omitempty"`
	OtherStates []uint64 `json:"otherStates,omitempty"`
	// Hash is the digest of the state after the last entry, in hex; "" if an entry was Unusable.
	Hash string `json:"hash"`
	// Divergences are the first ones found, in order; none means identical.
	Divergences []Divergence `json:"divergences,omitempty"`
	// Diverged counts all of them.
	Diverged uint64 `json:"diverged"`
	// OtherRules are differences that are no divergences: they are in epochs whose rules this version does not keep.
	OtherRules []OtherRules `json:"otherRules,omitempty"`
}

// Identical reports whether everything was decided again as recorded.
func (r *Report) Identical() bool { return r.Diverged == 0 && len(r.OtherRules) == 0 }

// Options says how to verify.
type Options struct {
	// Registry holds the plugins that the log's configuration may name.
	Registry framework.Registry
	// Keep is the number of divergences that are kept in the report; 0 means 10.
	Keep int
	// Progress is called now and then with the last entry verified; nil is not called.
	Progress func(seq uint64)
	// Start is the state that the entries follow, for example a snapshot's; nil for the empty one, which entry 1
	// follows. Verify makes it the state after the last entry.
	Start *scheduler.Machine
	// States are hashes of the state after entries, for example of snapshots. They are compared.
	States map[uint64][32]byte
	// Behaviours are the known ones; nil for scheduler.Behaviours.
	Behaviours []scheduler.Rules
}

// Verify decides every recorded decision again and compares. It applies the recorded decision in any case, so that one
// divergence does not become many.
//
// A divergence is part of the Report and no error. Verify returns an error if it cannot read the log. The error is a
// *scheduler.BehaviourError for an epoch of a behaviour that this version does not know. It is a
// *scheduler.ConfigError for an epoch whose configuration this program cannot start.
func Verify(ctx context.Context, entries iter.Seq2[eventlog.Entry, error], opts Options) (Report, error) {
	v := verifier{machine: opts.Start, keep: opts.Keep, behaviours: opts.Behaviours}
	if v.behaviours == nil {
		v.behaviours = scheduler.Behaviours
	}
	if v.machine == nil {
		v.machine = scheduler.New(opts.Registry)
	}
	v.report.Start, v.report.LastSeq = v.machine.Seq(), v.machine.Seq()
	if v.keep == 0 {
		v.keep = 10
	}
	for e, err := range entries {
		if err != nil {
			return v.report, err
		}
		if err := ctx.Err(); err != nil {
			return v.report, err
		}
		if err := v.next(e); err != nil {
			var newer *scheduler.BehaviourError
			if errors.As(err, &newer) {
				return v.report, err
			}
			var config *scheduler.ConfigError
			if errors.As(err, &config) {
				return v.report, fmt.Errorf("%w: replay the log with a program that can start this configuration", err)
			}
			v.diverged(notApplicable(e, err))
			return v.report, nil
		}
		if want, ok := opts.States[e.Seq]; ok {
			v.compareState(e.Seq, want)
		}
		if opts.Progress != nil && e.Seq%1000 == 0 {
			opts.Progress(e.Seq)
		}
	}
	if !framework.LoggedRecording(v.machine.Config()) { // else others decide
		_, v.report.Undecided = v.machine.Decide(nil)
	}
	v.report.Hash = fmt.Sprintf("%x", v.machine.Hash())
	return v.report, nil
}

type verifier struct {
	machine *scheduler.Machine
	keep    int
	report  Report
	// behaviours are Options.Behaviours.
	behaviours []scheduler.Rules
}

func (v *verifier) next(e eventlog.Entry) error {
	if recorded, ok := e.Payload.(*eventlog.Decision); ok {
		v.compare(e.Seq, recorded)
	} else if e.Settled {
		if d, ok := v.machine.Decide(nil); ok {
			v.diverged(Divergence{Kind: Missing, Seq: e.Seq, Pod: podOf(&d), Decided: inShort(&d)})
		}
	}
	if err := v.machine.Apply(e); err != nil {
		return err
	}
	v.report.Entries++
	v.report.LastSeq = e.Seq
	return nil
}

func (v *verifier) compareState(seq uint64, want [32]byte) {
	v.report.States = append(v.report.States, seq)
	if v.machine.Hash() != want {
		v.report.OtherStates = append(v.report.OtherStates, seq)
	}
}

func (v *verifier) compare(seq uint64, recorded *eventlog.Decision) {
	v.report.Decisions++
	decided, ok := v.machine.Decide(nil)
	// A decision on another pod with a cycle of its own shows that the ones between are gone, or that the log had it
	// before.
	another := recorded.UID != decided.UID
	switch {
	case !ok || another && recorded.Cycle < decided.Cycle:
		v.diverged(Divergence{Kind: Extra, Seq: seq, Pod: podOf(recorded), Recorded: inShort(recorded)})
		return
	case another && recorded.Cycle > decided.Cycle:
		v.diverged(Divergence{Kind: Missing, Seq: seq, Pod: podOf(&decided), Decided: inShort(&decided)})
		return
	}
	if field, r, d, differ := firstDifference(recorded, &decided); differ {
		v.diverged(Divergence{Kind: Differs, Seq: seq, Pod: podOf(recorded), Field: field, Recorded: r, Decided: d})
	}
}

func (v *verifier) diverged(d Divergence) {
	if o := v.otherRules(); o != nil && d.Kind != Unusable {
		o.Count++
		if len(o.Differences) < v.keep {
			o.Differences = append(o.Differences, d)
		}
		return
	}
	v.report.Diverged++
	if len(v.report.Divergences) < v.keep {
		v.report.Divergences = append(v.report.Divergences, d)
	}
}

func notApplicable(e eventlog.Entry, err error) Divergence {
	d := Divergence{Kind: Unusable, Seq: e.Seq, Recorded: err.Error()}
	if why := errors.Unwrap(err); why != nil {
		d.Recorded = why.Error() // without the entry's number, which is there already
	}
	if decision, ok := e.Payload.(*eventlog.Decision); ok {
		d.Pod = podOf(decision)
	}
	return d
}

// Compare compares the decision that is recorded as entry seq with the one that is made now in its place, nil for none.
// It returns nil if they are equal.
func Compare(seq uint64, recorded, decided *eventlog.Decision) *Divergence {
	out := &Divergence{Kind: Differs, Seq: seq, Pod: podOf(recorded), Recorded: inShort(recorded)}
	if decided == nil {
		out.Kind = Extra
		return out
	}
	field, was, is, differ := firstDifference(recorded, decided)
	if !differ {
		return nil
	}
	out.Field, out.Decided = field, inShort(decided)
	if out.Recorded == out.Decided {
		out.Recorded, out.Decided = was, is
	}
	return out
}

func podOf(d *eventlog.Decision) string { return d.Namespace + "/" + d.Name }

// inShort says what was decided in a few words.
func inShort(d *eventlog.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", podOf(d), d.Outcome)
	if d.Node != "" {
		fmt.Fprintf(&b, " on %s", d.Node)
	}
	for _, r := range d.Rejections {
		if d.Node == "" {
			fmt.Fprintf(&b, "; %s: %s", r.Plugin, r.Reason)
		}
	}
	return b.String()
}
