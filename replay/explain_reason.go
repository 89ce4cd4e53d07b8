package replay

import (
	"fmt"
	"slices"

	"github.com/rollcall-sched/rollcall/queue"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Code says in one word why a pod or a gang is pending. docs/GANGS.md has a table of them. Codes may be added; none
// changes its meaning.
type Code string

// The codes. What is pending has exactly one: the first of these that holds, but for InFlight, which goes before those
// that count members.
const (
	// Undeclared: the PodGroup, or the CompositePodGroup above it, is not there, and no annotation stands in for it.
	Undeclared Code = "Undeclared"
	// Refused: the gang, or what it is to be admitted with, contradicts itself.
	Refused Code = "Refused"
	// NoProfile: the configuration has no profile that schedules the pod, or the gang as a gang.
	NoProfile Code = "NoProfile"
	// BeingDeleted: the pod's deletion has begun.
	BeingDeleted Code = "BeingDeleted"
	// InFlight: the cycles of the gang's attempt are running at the point in question.
	InFlight Code = "InFlight"
	// Incomplete: there are fewer members than the minimum.
	Incomplete Code = "Incomplete"
	// Gated: scheduling gates, or another PreEnqueue plugin than the gang plugin, keep members out of the queue.
	Gated Code = "Gated"
	// WaitsForOthers: a gang that this one is admitted together with is what is missing.
	WaitsForOthers Code = "WaitsForOthers"
	// HeldByPermit: enough members are held on nodes, and a Permit plugin has not let all of them go.
	HeldByPermit Code = "HeldByPermit"
	// LacksRoom: all nodes together have too little free, so that no cycle was tried.
	LacksRoom Code = "LacksRoom"
	// Unplaceable: plugins refused all nodes for a member, or the member as a whole.
	Unplaceable Code = "Unplaceable"
	// PluginFailed: a plugin ended in an error.
	PluginFailed Code = "PluginFailed"
	// PermitTimedOut: held members were released because one was held until its deadline.
	PermitTimedOut Code = "PermitTimedOut"
	// BrokenOff: held members were released because something came between, such as a lost node.
	BrokenOff Code = "BrokenOff"
	// BindFailed: binding a pod failed, and it lost its node.
	BindFailed Code = "BindFailed"
	// FailedBefore: the last attempt failed, before the first entry of which the log tells.
	FailedBefore Code = "FailedBefore"
	// Backoff: no attempt has failed since a member was last placed, but the backoff of one before that still runs.
	Backoff Code = "Backoff"
	// InTurn: nothing keeps it back; others have their turn first, or it comes with the next cycle.
	InTurn Code = "InTurn"
)

// Codes returns all codes, in the order in which they are looked for.
func Codes() []Code {
	return []Code{Undeclared, Refused, NoProfile, BeingDeleted, InFlight, Incomplete, Gated, WaitsForOthers, HeldByPermit,
		LacksRoom, Unplaceable, PluginFailed, PermitTimedOut, BrokenOff, BindFailed, FailedBefore, Backoff, InTurn}
}

// ofAnAttempt says whether the code tells how an attempt failed.
func (c Code) ofAnAttempt() bool {
	return slices.Contains([]Code{LacksRoom, Unplaceable, PluginFailed, PermitTimedOut, BrokenOff, BindFailed, FailedBefore}, c)
}

// Reason is why a pod or a gang is pending. A pod of a gang has its gang's, and a part of its own beside it. Amounts
// of resources are in their base unit, cpu in thousandths of a core.
type Reason struct {
	Code Code `json:"code"`
	// Message is the reason as one sentence.
	Message string `json:"message"`
	// Group is the gang (namespace/name) whose reason it is, "" for that of a pod by itself.
	Group string `json:"group,omitempty"`
	// BeyondMinimum is how many members are pending if the gang has its minimum on nodes: the reason is theirs.
	BeyondMinimum int `json:"beyondMinimum,omitempty"`
	// Since is since when it has been so: the attempts of a gang that fail one after the other for the same reason are
	// one time of waiting. Zero if that is not known.
	Since Instant `json:"since,omitzero"`
	// Attempts counts the attempts so far, and NextRetry is when the next one comes.
	Attempts  int       `json:"attempts"`
	NextRetry NextRetry `json:"nextRetry"`
	WaitsFor  WaitsFor  `json:"waitsFor"`

	// Failed is the decision, or the result of a bind, by which the last attempt failed; nil unless the code says that
	// one failed and the log has it. Member (namespace/name) is whose it was, and Refusals what was said of it.
	Failed   *Point    `json:"failed,omitempty"`
	Member   string    `json:"member,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// Members are those of the gang that found no node in that attempt, alike ones as one row, and MoreMembers how many
	// others there were beside those rows.
	Members     []RefusedMembers `json:"members,omitempty"`
	MoreMembers int              `json:"moreMembers,omitempty"`
	// KeptOut are the members that count towards no attempt, alike ones as one row: gated, or being deleted.
	KeptOut []KeptOut `json:"keptOut,omitempty"`
	// Shortfall has a row for every resource that there is too little of, the worst first, as of ShortfallAt.
	Shortfall   []Shortfall `json:"shortfall,omitempty"`
	ShortfallAt *Point      `json:"shortfallAt,omitempty"`

	// Reserved is the reservation that it has as the first that does not fit, with the queue policy Backfill.
	Reserved *Reserved `json:"reserved,omitempty"`
	// Held is what is kept free for it as the first that does not fit if nobody knows when there will be room for it.
	Held *Held `json:"held,omitempty"`

	// Pod is the part of a pod of the gang, if a pod is explained.
	Pod *PodPart `json:"pod,omitempty"`

	said     string // Message without its subject
	shortNow bool   // Shortfall is that of the point in question
}

// Reserved is a reservation: At is when there is room by what is declared of the pods that run, on so many Nodes.
type Reserved struct {
	At    Instant `json:"at"`
	Nodes int     `json:"nodes"`
}

// reservedFor returns the reservation of what stands in the queue, nil for none.
func reservedFor(m *scheduler.Machine, e *queue.Entity) *Reserved {
	if e == nil {
		return nil
	}
	for _, r := range m.Reservations() {
		if r.Key == e.Key() {
			nodes := map[string]bool{}
			for _, place := range r.Places {
				nodes[place.Node] = true
			}
			return &Reserved{At: Instant(r.At), Nodes: len(nodes)}
		}
	}
	return nil
}

// Held says that nobody passes the first in line since then, and on how many Nodes how many Pods of the Needed ones find
// room by now.
type Held struct {
	Since  Instant `json:"since"`
	Nodes  int     `json:"nodes"`
	Pods   int     `json:"pods"`
	Needed int     `json:"needed"`
}

// heldFor returns what is kept free for what stands in the queue, nil if others may pass it.
func heldFor(m *scheduler.Machine, e *queue.Entity) *Held {
	if e == nil {
		return nil
	}
	for _, h := range m.Holdings() {
		if h.Key == e.Key() {
			return &Held{Since: Instant(h.Since), Nodes: h.Nodes, Pods: h.Pods, Needed: h.Needed}
		}
	}
	return nil
}

// words say it in full.
func (h *Held) words() string {
	if h.Nodes == 0 {
		return fmt.Sprintf("holds what comes free for it since %s; no node has room for a pod of it yet", h.Since)
	}
	return fmt.Sprintf("holds %s for it since %s, with room for %d of the %s that it needs",
		count(int64(h.Nodes), "node", "nodes"), h.Since, h.Pods, count(int64(h.Needed), "pod", "pods"))
}

// NextRetry is when the next attempt comes.
type NextRetry struct {
	// At is when it comes, or when it is asked again whether it can, though nothing but time passes; zero if something
	// else has to happen.
	At Instant `json:"at,omitzero"`
	// Words say it in full.
	Words string `json:"words"`
}

// WaitsFor is what has to happen.
type WaitsFor struct {
	// Kind is Object (a PodGroup or CompositePodGroup), Agreement (an end of the contradiction), Configuration, Members,
	// Gates, Gangs, Permit, Room, Change (an event that concerns one of the plugins), Time, Turn, Cycles (its own are
	// running), or Nothing.
	Kind string `json:"kind"`
	// Plugins are those that must change their mind: that refused, gate, or hold.
	Plugins []string `json:"plugins,omitempty"`
	// Groups are the gangs, or the object, that it waits for: namespace/name, at most 5. It is the CompositePodGroup that
	// is to have more gangs below it if those are not known.
	Groups []string `json:"groups,omitempty"`
	// Members is how many members are missing, Ahead how many others have their turn first.
	Members int `json:"members,omitempty"`
	Ahead   int `json:"ahead,omitempty"`
	// Until is the end of a backoff, or of the time for which members are held.
	Until Instant `json:"until,omitzero"`
}

// RefusedMembers are members that were refused alike in one attempt.
type RefusedMembers struct {
	// Count is how many they are; Examples are the first of them (namespace/name), at most 3.
	Count    int      `json:"count"`
	Examples []string `json:"examples"`
	// Refusals say who refused how many nodes for each of them: for one of them, where the numbers differ, the most.
	Refusals []Refusal `json:"refusals"`
}

// KeptOut are members that no attempt can place, and why.
type KeptOut struct {
	Count    int      `json:"count"`
	Examples []string `json:"examples"`
	// Plugin is the PreEnqueue plugin that keeps them out, "" if they are being deleted; Message is what it says.
	Plugin  string `json:"plugin,omitempty"`
	Message string `json:"message"`
}

// Shortfall is a resource of which there is too little, with what there is and who has it.
type Shortfall struct {
	// Of is who needs it: Gang, Unit (all gangs that are admitted together), MinResources (what the PodGroup asks for),
	// or Pod: one member, or a pod by itself. Members is how many members need it between them.
	Of      string `json:"of"`
	Members int    `json:"members,omitempty"`
	Pod     string `json:"pod,omitempty"`
	// Missing is by how much Needed is above what is usable: on all nodes together, or for Pod on the node with the most.
	Missing int64 `json:"missing"`
	ResourceUse
}

// PodPart is what is to be said of one pod beside the reason of its gang.
type PodPart struct {
	// Outcome is NoNode (the pod itself was refused in the last attempt), Released (it was given a node, and gave
	// it back), Held (it is on a node, until the gang goes on), KeptOut, BeingDeleted, or NotTried.
	Outcome string `json:"outcome"`
	Message string `json:"message"`
	// At is the decision that says so, if there is one.
	At *Point `json:"at,omitempty"`
	// Node is where it is held, or was held, and Until how long at the most.
	Node  string  `json:"node,omitempty"`
	Until Instant `json:"until,omitzero"`
	// Refusals are those of the pod itself.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// How long the lists of a reason are at most.
const (
	maxRefusedRows = 20
	maxKeptOutRows = 20
	maxWaitedFor   = 5
)

// refusedRows collects members that were refused alike.
type refusedRows struct {
	rows []RefusedMembers
	more int // members that no row has
}

// add counts a member in. Rows are alike if the same plugins said the same, to however many nodes. What the gang plugin
// adds to the refusal of a member for which nodes were refused speaks of the gang.
func (r *refusedRows) add(member string, refusals []Refusal) {
	refusals = ownRefusals(refusals)
	for i := range r.rows {
		if row := &r.rows[i]; alike(row.Refusals, refusals) {
			row.Count++
			if len(row.Examples) < maxExamples {
				row.Examples = append(row.Examples, member)
			}
			for k, refusal := range refusals {
				row.Refusals[k].Nodes = max(row.Refusals[k].Nodes, refusal.Nodes)
			}
			return
		}
	}
	if len(r.rows) == maxRefusedRows {
		r.more++
		return
	}
	r.rows = append(r.rows, RefusedMembers{Count: 1, Examples: []string{member}, Refusals: slices.Clone(refusals)})
}

// total is how many members were refused.
func (r *refusedRows) total() int {
	n := r.more
	for _, row := range r.rows {
		n += row.Count
	}
	return n
}

func alike(a, b []Refusal) bool {
	return slices.EqualFunc(a, b, func(a, b Refusal) bool {
		return a.Plugin == b.Plugin && a.Code == b.Code && a.Reason == b.Reason && (a.Nodes > 0) == (b.Nodes > 0)
	})
}

// ownRefusals are those that speak of the member and not of its gang, if there are any; those that say nothing are left
// out.
func ownRefusals(refusals []Refusal) []Refusal {
	var own, all []Refusal
	for _, r := range refusals {
		if r.Nodes == 0 && r.Reason == "" && r.Code != "Error" {
			continue // a plugin that an event must concern, and that refused no node itself
		}
		all = append(all, r)
		if r.Plugin != gangPlugin || r.Nodes > 0 {
			own = append(own, r)
		}
	}
	switch {
	case len(own) > 0:
		return own
	case len(all) > 0:
		return all
	}
	return refusals
}
