package victims

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/entities"
)

// maxViolations is the number of preemptions with a violation that a report keeps; it counts all.
const maxViolations = 100_000

// A Rule is a rule that a preemption violates, or about which there is something to say.
type Rule string

// The rules.
const (
	// Choice: decided again by the rules of the log's configuration, other pods are victims.
	Choice Rule = "Choice"
	// Needless: the victim could stay while the preemptor keeps its nodes.
	Needless Rule = "Needless"
	// LessImportant: a less important pod could go in place of the victim.
	LessImportant Rule = "LessImportant"
	// Policy: the victim policy does not let the victim be preempted for the preemptor.
	Policy Rule = "Policy"
	// Never: the preemptor preempts nobody.
	Never Rule = "Never"
	// Own: the victim is admitted together with the preemptor.
	Own Rule = "Own"
	// Together: some pods that are disrupted together stay.
	Together Rule = "Together"
	// Budget: a PodDisruptionBudget is broken.
	Budget Rule = "Budget"
	// TooFew: the victims do not make room enough.
	TooFew Rule = "TooFew"
	// Nowhere: pods go, and no node is kept for the preemptor.
	Nowhere Rule = "Nowhere"
	// Unknown: a victim is no pod of the state.
	Unknown Rule = "Unknown"
	// OtherRules: decided again other pods are victims, by rules that were changed since.
	OtherRules Rule = "OtherRules"
)

// The verdicts.
const (
	Allowed   = "allowed"
	Violation = "VIOLATION"
)

// A Victim is a pod that gave up its node.
type Victim struct {
	Pod      string `json:"pod"`
	UID      string `json:"uid"`
	Gang     string `json:"gang,omitempty"`
	Node     string `json:"node"`
	Priority int32  `json:"priority"`
	// Held says that the pod was not running: Permit held it on its node.
	Held bool `json:"held,omitempty"`
}

// A Finding is one rule about one preemption.
type Finding struct {
	Verdict string `json:"verdict"`
	Rule    Rule   `json:"rule"`
	// Victim is the victim, or the gang whose pods go together; "" if the finding is about all victims.
	Victim string `json:"victim,omitempty"`
	Detail string `json:"detail"`
}

// A Preemption is a Decision with victims.
type Preemption struct {
	Verdict string `json:"verdict"`
	Seq     uint64 `json:"seq"`
	Time    string `json:"time"`
	// By is the pod or gang that needed the room, Policy its victim policy.
	By      entities.Entity `json:"by"`
	Policy  string          `json:"policy"`
	Victims []Victim        `json:"victims"`
	// Findings are empty if every victim was the least important one that was sufficient, and all budgets were kept.
	Findings []Finding `json:"findings,omitempty"`
	// Unproven says which check could not be made; "" if all were made.
	Unproven string `json:"unproven,omitempty"`
}

func (p *Preemption) find(verdict string, rule Rule, victim, detail string) {
	p.Findings = append(p.Findings, Finding{verdict, rule, victim, detail})
}

// A Report is the result of an audit.
type Report struct {
	// First and Last are the entries that were audited, Filter says which of their preemptions.
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	Filter string `json:"filter,omitempty"`
	// Decisions counts the preemptions, Victims their victims, Violations the preemptions with a violation. Unproven
	// counts the ones of which a check could not be made.
	Decisions  uint64 `json:"decisions"`
	Victims    uint64 `json:"victims"`
	Violations uint64 `json:"violations"`
	Unproven   uint64 `json:"unproven"`
	// Rules counts the findings of each rule.
	Rules map[Rule]uint64 `json:"rules"`
	// Preemptions are the ones with violations and the first of the others, in the log's order. Omitted is the number
	// that were left out.
	Preemptions []Preemption `json:"preemptions"`
	Omitted     uint64       `json:"omitted,omitempty"`
}

// add counts a preemption, and keeps it if there is room.
func (r *Report) add(p Preemption, keep uint64) {
	p.Verdict = Allowed
	for _, f := range p.Findings {
		r.Rules[f.Rule]++
		if f.Verdict == Violation {
			p.Verdict = Violation
		}
	}
	room := r.Decisions-r.Violations < keep
	r.Decisions++
	r.Victims += uint64(len(p.Victims))
	if p.Unproven != "" {
		r.Unproven++
	}
	if p.Verdict == Violation {
		room = r.Violations < maxViolations
		r.Violations++
	}
	if !room {
		r.Omitted++
		return
	}
	r.Preemptions = append(r.Preemptions, p)
}

// WriteText writes the preemption for people.
func (p *Preemption) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%-9s entry %d: %s evicted %s\n", p.Verdict, p.Seq, eventlog.Plain(p.By.String()),
		eventlog.Plain(p.evicted()))
	for _, f := range p.Findings {
		mark := ""
		if p.Verdict == Violation && f.Verdict == Allowed {
			mark = " (allowed)"
		}
		about := ""
		if f.Victim != "" {
			about = f.Victim + ": "
		}
		_, err = fmt.Fprintf(w, "          %s%s: %s\n", f.Rule, mark, eventlog.Plain(about+f.Detail))
	}
	if p.Unproven != "" {
		_, err = fmt.Fprintf(w, "          not proven: %s\n", p.Unproven)
	}
	return err
}

// evicted names the victims, the ones of one gang together.
func (p *Preemption) evicted() string {
	var said []string
	counts, order := map[entities.Entity]int{}, []entities.Entity{}
	for _, v := range p.Victims {
		e := entities.Entity{Kind: entities.Pod, Name: v.Pod, Priority: v.Priority}
		if v.Gang != "" {
			e.Kind, e.Name = entities.Gang, v.Gang
		}
		if counts[e]++; counts[e] == 1 {
			order = append(order, e)
		}
	}
	for i, e := range order {
		if i == maxNames {
			said = append(said, fmt.Sprintf("%d more", len(order)-maxNames))
			break
		}
		text := e.String()
		switch n := counts[e]; {
		case e.Kind == entities.Gang && n == 1:
			text = "a pod of " + text
		case e.Kind == entities.Gang:
			text = fmt.Sprintf("%d pods of %s", n, text)
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	for i := range r.Preemptions {
		if err := r.Preemptions[i].WriteText(w); err != nil {
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
	fmt.Fprintf(w, "entries %d to %d: %d preemptions%s with %d victims; %d in VIOLATION, %d not proven\n",
		r.First, r.Last, r.Decisions, about, r.Victims, r.Violations, r.Unproven)
	for _, rule := range slices.Sorted(maps.Keys(r.Rules)) {
		fmt.Fprintf(w, "  %-13s %d\n", rule, r.Rules[rule])
	}
	verdict := "every victim was the least important one that was sufficient"
	switch {
	case r.Violations > 0:
		verdict = "the rules of preemption were VIOLATED"
	case r.Decisions == 0:
		verdict = "nobody was preempted"
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
