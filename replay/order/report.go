package order

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/entities"
)

// A Rule says why an overtaking was allowed, or which rule it violates.
type Rule string

// The rules that allow an overtaking.
const (
	// Gated: it was kept out of the queue.
	Gated Rule = "Gated"
	// Backoff: its last attempt had failed, and its backoff had not ended.
	Backoff Rule = "Backoff"
	// Refused: its last attempt had failed, and nothing had come that asked for a retry.
	Refused Rule = "Refused"
	// NoRoom: its last attempt had failed, and it was to be retried once there was room for it.
	NoRoom Rule = "NoRoom"
	// Reserved: the queue policy Backfill kept room for it, and others could use the rest.
	Reserved Rule = "Reserved"
	// Lane: it was active, and another one before it let none of its lane be attempted, and no room was kept for it.
	Lane Rule = "Lane"
	// Asking: HTTP extenders had been asked about it, and had not answered yet.
	Asking Rule = "Asking"
	// Beyond: its gang had its minimum, and members beyond that block nothing.
	Beyond Rule = "Beyond"
	// Nominated: a lane let nothing pass, and the one that was placed went where Decisions had room kept for it, which
	// others of its priority must leave it.
	Nominated Rule = "Nominated"
)

// The rules that an overtaking violates.
const (
	// Turn: it was active, and so its turn came first.
	Turn Rule = "Turn"
	// Strict: the queue policy StrictFIFO lets none pass it.
	Strict Rule = "StrictFIFO"
	// Blocked: it was the first of a lane under Backfill that let nothing pass.
	Blocked Rule = "Blocked"
	// Attempt: its own attempt was under way.
	Attempt Rule = "Attempt"
)

// isViolation reports whether the rule is one that an overtaking violates.
func (r Rule) isViolation() bool { return r == Turn || r == Strict || r == Blocked || r == Attempt }

// The verdicts.
const (
	Allowed   = "allowed"
	Violation = "VIOLATION"
)

// An Entity is a pod, a gang or a CompositePodGroup, as it was in the queue.
type Entity struct {
	// Kind is "pod", "podgroup" or "compositepodgroup", Name its namespace and name.
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Priority int32  `json:"priority"`
	// ActiveSince is the time at which it was first active; "" if it never was.
	ActiveSince string `json:"activeSince,omitempty"`
}

func (e Entity) String() string { return e.entity().String() }

func (e Entity) entity() entities.Entity {
	return entities.Entity{Kind: e.Kind, Name: e.Name, Priority: e.Priority}
}

// An Overtaking is one entity placed before another that was ahead of it in the queue.
type Overtaking struct {
	Verdict string `json:"verdict"`
	Rule    Rule   `json:"rule"`
	// Overtaken was ahead of By, which was placed.
	Overtaken Entity `json:"overtaken"`
	By        Entity `json:"by"`
	// Chosen is the entry that begins the attempt of By, and Placed the one that placed it.
	Chosen uint64 `json:"chosen"`
	Placed uint64 `json:"placed"`
	Time   string `json:"time"`
	// Refused is the entry of the Decision that refused Overtaken last, and Reasons are that Decision's reasons; 0 if
	// it was never refused, as far as the log is known.
	Refused uint64   `json:"refused,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Detail says more about the rule: until when, or the name of the policy.
	Detail string `json:"detail,omitempty"`
}

// WriteText writes the overtaking for people, in one or two lines.
func (o *Overtaking) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%-9s entry %d: %s was placed before %s\n", o.Verdict, o.Placed,
		eventlog.Plain(o.By.String()), eventlog.Plain(o.Overtaken.String()))
	line := o.Detail
	if o.Chosen != o.Placed {
		line += fmt.Sprintf("; chosen at entry %d", o.Chosen)
	}
	if o.Refused > 0 {
		line += fmt.Sprintf("; refused at entry %d: %s", o.Refused, strings.Join(o.Reasons, ", "))
	}
	_, err := fmt.Fprintf(w, "          %s: %s\n", o.Rule, eventlog.Plain(line))
	return err
}

// A Report is the result of an audit.
type Report struct {
	// First and Last are the entries that were audited.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Filter says which overtakings are counted and reported; "" for all.
	Filter string `json:"filter,omitempty"`
	// Attempts is the number of attempts that began in them, Placed the number of entities that these placed.
	Attempts uint64 `json:"attempts"`
	Placed   uint64 `json:"placed"`
	// Allowed and Violations count the overtakings, Rules the overtakings of each rule.
	Allowed    uint64          `json:"allowed"`
	Violations uint64          `json:"violations"`
	Rules      map[Rule]uint64 `json:"rules"`
	// Overtakings are the violations and the first of the allowed ones, the least regular ones first. Omitted is the
	// number that were left out.
	Overtakings []Overtaking `json:"overtakings"`
	Omitted     uint64       `json:"omitted,omitempty"`
}

// ranks order the rules, the least regular one first. Violations come first. The exceptions are next: the overtaken
// entity could have been attempted, or has the right to be the first, and a rule let another one go before it. The
// ordinary rules are last: the entity could not be attempted at all.
var ranks = []Rule{Attempt, Turn, Strict, Blocked, Nominated, Lane, Reserved, Beyond, Asking, Refused, NoRoom, Backoff,
	Gated}

// compareRegularity orders overtakings, the least regular one first: by rule, then by the difference of the priorities,
// the larger one first, then as in the log.
func compareRegularity(a, b *Overtaking) int {
	return cmp.Or(
		cmp.Compare(slices.Index(ranks, a.Rule), slices.Index(ranks, b.Rule)),
		cmp.Compare(b.passes(), a.passes()),
		cmp.Compare(a.Placed, b.Placed),
	)
}

// passes returns by how much the priority of the overtaken entity is higher.
func (o *Overtaking) passes() int64 { return int64(o.Overtaken.Priority) - int64(o.By.Priority) }

// add counts an overtaking, and keeps it if it is among the least regular ones: keep of the allowed ones, and
// maxViolations of the others.
func (r *Report) add(o Overtaking, keep uint64) {
	r.Rules[o.Rule]++
	violations := min(r.Violations, maxViolations)
	part, room := r.Overtakings[violations:], keep
	if o.Verdict == Violation {
		part, room = r.Overtakings[:violations], maxViolations
		r.Violations++
	} else {
		r.Allowed++
	}
	at, _ := slices.BinarySearchFunc(part, &o, func(x Overtaking, o *Overtaking) int {
		return cmp.Or(compareRegularity(&x, o), -1) // ties go to the first in the log
	})
	full := uint64(len(part)) >= room
	if full {
		r.Omitted++
	}
	if uint64(at) >= room {
		return
	}
	if o.Verdict != Violation {
		at += int(violations)
	}
	r.Overtakings = slices.Insert(r.Overtakings, at, o)
	if full {
		last := int(room)
		if o.Verdict != Violation {
			last += int(violations)
		}
		r.Overtakings = slices.Delete(r.Overtakings, last, last+1)
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	for i := range r.Overtakings {
		if err := r.Overtakings[i].WriteText(w); err != nil {
			return err
		}
	}
	if r.Omitted > 0 {
		fmt.Fprintf(w, "… and %d more\n", r.Omitted)
	}
	about := ""
	if r.Filter != "" {
		about = " of " + eventlog.Plain(r.Filter)
	}
	fmt.Fprintf(w, "entries %d to %d: %d attempts placed %d; %d overtakings%s allowed, %d in VIOLATION\n",
		r.First, r.Last, r.Attempts, r.Placed, r.Allowed, about, r.Violations)
	for _, rule := range slices.Sorted(maps.Keys(r.Rules)) {
		fmt.Fprintf(w, "  %-11s %d\n", rule, r.Rules[rule])
	}
	verdict := "no entity was placed against the order of the queue"
	switch {
	case r.Violations > 0:
		verdict = "the order of the queue was VIOLATED"
	case r.Filter != "":
		verdict = "none of these was placed, or overtaken, against the order of the queue"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// maxReasons is the number of reasons of a refusal that are kept.
const maxReasons = 3

// reasonsOf returns the reasons that a Decision gives for its refusal of the pod.
func reasonsOf(d *eventlog.Decision) []string {
	var out []string
	for i := range d.Rejections {
		r := &d.Rejections[i]
		if i == maxReasons {
			out = append(out, fmt.Sprintf("and %d more reasons", len(d.Rejections)-maxReasons))
			break
		}
		text := r.Plugin + ": " + r.Reason
		if r.Reason == "" {
			text = r.Plugin + ": " + r.Code
		}
		if r.Nodes > 0 {
			text += fmt.Sprintf(" (%d nodes)", r.Nodes)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		out = append(out, "no reason is recorded")
	}
	return out
}
