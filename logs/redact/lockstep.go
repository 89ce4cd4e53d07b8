package redact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A DiffersError says that the redacted log would not be decided as the log is.
type DiffersError struct {
	// Seq is the entry, Pod its pod in the log, and Field the first field that differs, as log cat names it.
	Seq   uint64
	Pod   string
	Field string
	// Recorded and Decided are the values of the field, both with pseudonyms.
	Recorded, Decided string
}

// Error implements error.
func (e *DiffersError) Error() string {
	return fmt.Sprintf("entry %d: with pseudonyms the decision on pod %s differs in %s: recorded %s, decided %s; "+
		"a plugin may read the value of a label: keep it with --keep-label, or export another range",
		e.Seq, e.Pod, e.Field, e.Recorded, e.Decided)
}

// A lockstep applies a log to one Machine and the redacted log to another one.
type lockstep struct {
	walker *walker
	// original and redacted are the two Machines. The original one decides only where the redacted one differs.
	original, redacted *scheduler.Machine
	// decisions counts the decisions that are the same with pseudonyms. others counts the ones that this program does
	// not make in the log either.
	decisions, others uint64
}

// next returns the redacted entry of e, and applies both.
func (l *lockstep) next(e eventlog.Entry) (eventlog.Entry, error) {
	out := eventlog.Entry{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Settled: e.Settled}
	var err error
	switch recorded, ok := e.Payload.(*eventlog.Decision); {
	case ok:
		out.Payload, err = l.decision(e.Seq, recorded)
	case e.Settled:
		err = l.settled(e.Seq)
		fallthrough
	default:
		out.Payload = l.walker.payload(e.Payload)
	}
	if err = cmp.Or(err, l.walker.err); err != nil {
		return out, err
	}
	if err := l.original.Apply(e); err != nil {
		return out, err
	}
	if err := l.redacted.Apply(out); err != nil {
		return out, fmt.Errorf("entry %d with pseudonyms: %w", e.Seq, err)
	}
	return out, nil
}

// settled checks that nothing is left to decide.
func (l *lockstep) settled(seq uint64) error {
	decided, more := l.redacted.Decide(nil)
	if !more {
		return nil
	}
	if _, also := l.original.Decide(nil); also {
		return nil // the log has no decision where one would be made, with these names and with the others
	}
	return &DiffersError{Seq: seq, Pod: decided.Namespace + "/" + decided.Name, Field: "outcome", Recorded: "nothing",
		Decided: decided.Outcome.String()}
}

// decision returns the redacted decision: the recorded one with pseudonyms, and with the reasons that the redacted
// Machine gives.
func (l *lockstep) decision(seq uint64, recorded *eventlog.Decision) (*eventlog.Decision, error) {
	decided, ok := l.redacted.Decide(nil)
	if ok {
		l.learn(recorded, &decided)
	}
	want := l.walker.decision(recorded)
	if l.walker.err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, l.walker.err)
	}
	var differs *replay.Divergence
	if ok {
		takeReasons(want, &decided)
		differs = replay.Compare(seq, want, &decided)
	} else {
		differs = replay.Compare(seq, want, nil)
	}
	if differs == nil {
		l.decisions++
		return want, nil
	}
	if again, ok := l.original.Decide(nil); !ok || replay.Compare(seq, recorded, &again) != nil {
		l.others++
		return l.walker.decision(recorded), nil // the log itself is not what this program decides
	}
	return nil, &DiffersError{Seq: seq, Pod: recorded.Namespace + "/" + recorded.Name,
		Field: cmp.Or(differs.Field, string(differs.Kind)), Recorded: differs.Recorded, Decided: differs.Decided}
}

// learn notes the names that a decision makes: of claims, and of shares of devices. They follow from other names by a
// rule that pseudonyms do not keep.
func (l *lockstep) learn(recorded, decided *eventlog.Decision) {
	if len(recorded.Devices) != len(decided.Devices) {
		return
	}
	for i := range recorded.Devices {
		was, is := &recorded.Devices[i], &decided.Devices[i]
		if was.UID == "" && is.UID == "" {
			l.walker.names.Make(was.Claim, is.Claim)
		}
		l.learnShares(was, is)
	}
}

func (l *lockstep) learnShares(recorded, decided *eventlog.DeviceClaim) {
	was, err := recorded.Result()
	if err != nil {
		return // the comparison will find that
	}
	is, err := decided.Result()
	if err != nil || len(was.Devices.Results) != len(is.Devices.Results) {
		return
	}
	for i := range was.Devices.Results {
		if a, b := was.Devices.Results[i].ShareID, is.Devices.Results[i].ShareID; a != nil && b != nil {
			l.walker.names.Make(string(*a), string(*b))
		}
	}
}

// takeReasons gives want the refusals of decided if they differ in nothing but their reasons and their order.
func takeReasons(want, decided *eventlog.Decision) {
	a, b := withoutReasons(want.Rejections), withoutReasons(decided.Rejections)
	if slices.Equal(a, b) {
		want.Rejections = decided.Rejections
	}
}

func withoutReasons(list []eventlog.Rejection) []eventlog.Rejection {
	plain := slices.Clone(list)
	for i := range plain {
		plain[i].Reason = ""
	}
	slices.SortFunc(plain, func(a, b eventlog.Rejection) int {
		return cmp.Or(cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Nodes, b.Nodes))
	})
	return plain
}

// errNoEntries says that there is nothing to redact.
var errNoEntries = errors.New("there is no entry to redact")
