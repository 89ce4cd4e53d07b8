package histories

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
)

// A Recording has all that is known about a history when it is over.
type Recording struct {
	// Notes are the schedulers' notes, by process.
	Notes map[string][]Note
	// Calls are the schedulers' requests to the cluster, in the order of its answers.
	Calls []Call
	// Entries are the log as it is read at the end, and Hashes the hashes of their records. Reading is the error with
	// which reading it ended.
	Entries []eventlog.Entry
	Hashes  []string
	Reading error
	// Pods are the cluster's pods at the end.
	Pods []EndPod
	// Gangs are the minimum of each gang of the cluster in the end.
	Gangs map[string]int
	// Gangs are the minimum of each gang of the cluster at the end.
	Waiting []string
}

// An EndPod is a pod at the end.
type EndPod struct{ Name, UID, Gang, Node string }

// A Rule is a promise that every history must keep.
type Rule string

// The rules.
const (
	// RuleLost: an acknowledged entry is in the log at the end.
	RuleLost Rule = "an acknowledged entry is lost"
	// RuleTwice: all processes that got the entry of one number got the same one.
	RuleTwice Rule = "a sequence number was given twice"
	// RuleReaders: every entry that was read is in the log at the end.
	RuleReaders Rule = "readers saw different histories"
	// RuleEarly: an effect is given out once its decision was acknowledged, or read in the log.
	RuleEarly Rule = "an effect was released before its decision was durable"
	// RuleBacked: an effect has a decision in the log that asks for it.
	RuleBacked Rule = "an effect was released without a decision behind it"
	// RuleCalled: the cluster only gets requests for released effects.
	RuleCalled Rule = "a call was made that nobody released"
	// RuleTwoNodes: a pod is sent to another node only after it was found unbound.
	RuleTwoNodes Rule = "a pod was bound to two nodes"
	// RulePartly: a gang has its minimum on nodes in the end, or nothing.
	RulePartly Rule = "a gang is bound in part"
	// RuleReplay: the log can be read, and every decision is made again as it was.
	RuleReplay Rule = "the log does not replay"
	// RulePlaced: at the end everything is placed for which there is room.
	RulePlaced Rule = "what fits is not placed"
	// RuleWorld: the log does not continue with deleted pods.
	RuleWorld Rule = "the log has a pod that is gone"
	// RuleDamage: nobody calls the log damaged.
	RuleDamage Rule = "a log was called damaged"
	// RuleEnd: schedulers end for no other reason than servers that do not answer or refuse.
	RuleEnd Rule = "a scheduler ended for a reason that there was not"
)

// A Violation is a rule that a history has broken.
type Violation struct {
	Rule Rule
	Text string
}

// String says it in a line.
func (v Violation) String() string { return string(v.Rule) + ": " + v.Text }

// A checker finds violations in a recording.
type checker struct {
	*Recording
	found     []Violation
	bindings  map[bindKey][]uint64     // the decisions that ask for a bind, by pod and node
	evictions map[string][]uint64      // and for an eviction, by pod
	unbound   map[uint64]uint64        // the entry that says that the bind of a decision has not bound the pod
	decisions map[uint64]boundDecision // by entry
}

type bindKey struct{ uid, node string }

// A boundDecision is a decision's effect on one pod.
type boundDecision map[string]string // the node, by the pod's UID

// Check returns the violations of a history, each rule's in the order of time.
func Check(r *Recording) []Violation {
	c := &checker{Recording: r, bindings: map[bindKey][]uint64{}, evictions: map[string][]uint64{},
		unbound: map[uint64]uint64{}, decisions: map[uint64]boundDecision{}}
	c.readDecisions()
	c.checkObserved()
	c.checkReleased()
	c.checkCalls()
	c.checkNodes()
	c.checkGangs()
	c.checkWorld()
	c.checkReplay()
	c.checkEnds()
	if len(r.Waiting) > 0 {
		c.found = append(c.found, Violation{RulePlaced, fmt.Sprintf("%d pods wait: %v", len(r.Waiting), r.Waiting)})
	}
	sort.SliceStable(c.found, func(i, j int) bool { return c.found[i].Rule < c.found[j].Rule })
	return c.found
}

func (c *checker) violated(rule Rule, format string, args ...any) {
	c.found = append(c.found, Violation{rule, fmt.Sprintf(format, args...)})
}

// processes are the processes that noted something, sorted.
func (c *checker) processes() []string { return slices.Sorted(maps.Keys(c.Notes)) }

// readDecisions finds the requested effects in the log. It uses the entries alone and knows nothing about the Machine:
// the bind of a pod that waited is requested by the decision that releases it.
func (c *checker) readDecisions() {
	waiting := map[string]string{} // the node on which a pod is held
	for _, e := range c.Entries {
		switch p := e.Payload.(type) {
		case *eventlog.BindResult:
			if p.Outcome == eventlog.BindFailed || p.Outcome == eventlog.BindConflict {
				c.unbound[p.Decision] = e.Seq
			}
		case *eventlog.Decision:
			asked := boundDecision{}
			switch p.Outcome {
			case eventlog.Scheduled:
				asked[string(p.UID)] = p.Node
			case eventlog.Waiting:
				waiting[string(p.UID)] = p.Node
			case eventlog.Evicted:
				c.evictions[string(p.UID)] = append(c.evictions[string(p.UID)], e.Seq)
			}
			for _, uid := range p.Allowed {
				asked[string(uid)] = waiting[string(uid)]
			}
			for _, uid := range p.Victims {
				c.evictions[string(uid)] = append(c.evictions[string(uid)], e.Seq)
			}
			for uid, node := range asked { // any order: each has its own list
				c.bindings[bindKey{uid, node}] = append(c.bindings[bindKey{uid, node}], e.Seq)
			}
			c.decisions[e.Seq] = asked
		}
	}
}

// checkObserved compares the acknowledged entries and the read ones, with the log at the end and with one another.
func (c *checker) checkObserved() {
	type observed struct{ hash, by string }
	first := map[uint64]observed{}
	for _, name := range c.processes() {
		for _, n := range c.Notes[name] {
			rule := map[What]Rule{Acknowledged: RuleLost, Seen: RuleReaders}[n.What]
			if rule == "" {
				continue
			}
			if other, ok := first[n.Last]; !ok {
				first[n.Last] = observed{n.Hash, name}
			} else if other.hash != n.Hash {
				c.violated(RuleTwice, "entry %d has hash %.12s for %s and %.12s for %s", n.Last, other.hash, other.by,
					n.Hash, name)
			}
			switch end := uint64(len(c.Hashes)); {
			case n.Last > end:
				c.violated(rule, "entry %d was %s by %s, and the log ends with %d", n.Last, n.What, name, end)
			case n.Last > 0 && c.Hashes[n.Last-1] != n.Hash:
				c.violated(rule, "entry %d was %s by %s with hash %.12s, and the log has %.12s", n.Last, n.What, name,
					n.Hash, c.Hashes[n.Last-1])
			}
		}
	}
}

// checkReleased finds the decision for every released effect.
func (c *checker) checkReleased() {
	for _, name := range c.processes() {
		durable := uint64(0)
		for _, n := range c.Notes[name] {
			switch n.What {
			case Acknowledged, Seen:
				durable = max(durable, n.Last)
			case Released:
				if n.Last > durable {
					c.violated(RuleEarly, "%s gave out the %s of pod %s by decision %d when it knew that entries up "+
						"to %d are durable", name, n.Effect, n.UID, n.Last, durable)
				}
				c.checkBacked(name, n)
			}
		}
	}
}

func (c *checker) checkBacked(name string, n Note) {
	switch n.Effect {
	case "bind":
		if !slices.Contains(c.bindings[bindKey{n.UID, n.Node}], n.Last) {
			c.violated(RuleBacked, "%s gave out the bind of pod %s to %s by decision %d, and the log has there: %s",
				name, n.UID, n.Node, n.Last, c.entryText(n.Last))
		}
	case "evict":
		if !slices.Contains(c.evictions[n.UID], n.Last) {
			c.violated(RuleBacked, "%s gave out the eviction of pod %s by decision %d, and the log has there: %s", name,
				n.UID, n.Last, c.entryText(n.Last))
		}
	default:
		c.violated(RuleBacked, "%s gave out something unknown on pod %s by decision %d", name, n.UID, n.Last)
	}
}

// entryText describes an entry.
func (c *checker) entryText(seq uint64) string {
	if seq == 0 || seq > uint64(len(c.Entries)) {
		return "nothing"
	}
	e := c.Entries[seq-1]
	if d, ok := e.Payload.(*eventlog.Decision); ok {
		return fmt.Sprintf("a decision on pod %s (%s), outcome %d, node %q", d.Name, d.UID, d.Outcome, d.Node)
	}
	return fmt.Sprintf("%T", e.Payload)
}

// checkCalls compares the requests to the cluster with the effects released by the same process.
func (c *checker) checkCalls() {
	type key struct{ by, effect, uid, node string }
	released := map[key]bool{}
	for name, notes := range c.Notes { // any order: it fills a set
		for _, n := range notes {
			if n.What == Released {
				released[key{name, n.Effect, n.UID, n.Node}] = true
			}
		}
	}
	for _, call := range c.Calls {
		if !released[key{call.By, call.Effect, call.UID, call.Node}] {
			c.violated(RuleCalled, "%s asked for the %s of pod %s, node %q", call.By, call.Effect, call.UID, call.Node)
		}
	}
}

// checkNodes finds pods that were sent to two nodes, although the first bind had not failed when the second was
// decided.
func (c *checker) checkNodes() {
	nodes := map[string][]uint64{} // the decisions that sent a pod to nodes
	for _, name := range c.processes() {
		for _, n := range c.Notes[name] {
			if n.What == Released && n.Effect == "bind" && !slices.Contains(nodes[n.UID], n.Last) {
				nodes[n.UID] = append(nodes[n.UID], n.Last)
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(nodes)) {
		sent := slices.Sorted(slices.Values(nodes[uid]))
		for i := 1; i < len(sent); i++ {
			before, after := sent[i-1], sent[i]
			failed, ok := c.unbound[before]
			if c.decisions[before][uid] == c.decisions[after][uid] || ok && failed < after {
				continue
			}
			c.violated(RuleTwoNodes, "pod %s was sent to %s by decision %d, and to %s by decision %d, and nothing in "+
				"between says that the first had not bound it", uid, c.decisions[before][uid], before,
				c.decisions[after][uid], after)
		}
	}
	done := map[string]string{}
	for _, call := range c.Calls {
		if call.Effect != "bind" || !call.Done {
			continue
		}
		if other, ok := done[call.UID]; ok {
			c.violated(RuleTwoNodes, "pod %s was bound to %s and to %s", call.UID, other, call.Node)
		}
		done[call.UID] = call.Node
	}
}

// checkGangs counts the members that have nodes in the end.
func (c *checker) checkGangs() {
	bound := map[string]int{}
	for _, p := range c.Pods {
		if p.Gang != "" && p.Node != "" {
			bound[p.Gang]++
		}
	}
	for _, gang := range slices.Sorted(maps.Keys(bound)) {
		if bound[gang] < c.Gangs[gang] {
			c.violated(RulePartly, "gang %s has %d members on nodes, and its minimum is %d", gang, bound[gang],
				c.Gangs[gang])
		}
	}
}

// checkWorld finds pods of the log that the cluster no longer has. The last pods came after all deletions, so a
// scheduler that has placed them knows about the deletions. If they are not placed, checkWorld finds nothing.
func (c *checker) checkWorld() {
	if len(c.Waiting) > 0 {
		return
	}
	there, logged := map[string]bool{}, map[string]string{}
	for _, p := range c.Pods {
		there[p.UID] = true
	}
	for _, e := range c.Entries {
		switch p := e.Payload.(type) {
		case *eventlog.Upserted:
			if p.Resource == eventlog.Pods {
				logged[string(p.Object.GetUID())] = p.Object.GetName()
			}
		case *eventlog.Deleted:
			delete(logged, string(p.UID))
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(logged)) {
		if !there[uid] {
			c.violated(RuleWorld, "%s (%s)", logged[uid], uid)
		}
	}
}

// checkReplay makes every decision again.
func (c *checker) checkReplay() {
	if c.Reading != nil {
		c.violated(RuleReplay, "it cannot be read behind entry %d: %v", len(c.Entries), c.Reading)
	}
	entries := func(yield func(eventlog.Entry, error) bool) {
		for _, e := range c.Entries {
			if !yield(e, nil) {
				return
			}
		}
	}
	report, err := replay.Verify(context.Background(), iter.Seq2[eventlog.Entry, error](entries),
		replay.Options{Registry: plugins.NewRegistry()})
	switch {
	case err != nil:
		c.violated(RuleReplay, "%v", err)
	case !report.Identical():
		for _, d := range report.Divergences {
			c.violated(RuleReplay, "%s", d)
		}
	}
}

// checkEnds checks why schedulers ended.
func (c *checker) checkEnds() {
	for _, name := range c.processes() {
		for _, n := range c.Notes[name] {
			switch n.What {
			case Damaged:
				c.violated(RuleDamage, "%s: %s", name, n.Text)
			case Failed:
				if n.Effect != endExpected {
					c.violated(RuleEnd, "%s: %s", name, n.Text)
				}
			}
		}
	}
}

// endExpected is the Effect of the note Failed of a scheduler that ends as it must, see isExpected.
const endExpected = "expected"

// isExpected reports whether a scheduler may end because of err, when servers do not answer or refuse requests. An
// append may fail, with an unknown outcome or a server's refusal, and the log may fail to open.
func isExpected(err error) bool {
	var conflict *eventlog.ConflictError
	var entry *eventlog.EntryError
	var limit *eventlog.LimitError
	return !errors.As(err, &conflict) && !errors.As(err, &entry) && !errors.As(err, &limit) &&
		!errors.Is(err, eventlog.ErrReadOnly) && !errors.Is(err, eventlog.ErrClosed)
}

// acknowledged returns the last entry that was acknowledged.
func (r *Recording) acknowledged() int {
	last := uint64(0)
	for _, notes := range r.Notes { // any order
		for _, n := range notes {
			if n.What == Acknowledged {
				last = max(last, n.Last)
			}
		}
	}
	return int(last)
}

// record adds a record of the log to the recording.
func (r *Recording) record(record eventlog.Record) error {
	entry, _, err := eventlog.DecodeRecord(slices.Clone(record.Bytes))
	if err != nil {
		return err
	}
	r.Entries = append(r.Entries, entry)
	r.Hashes = append(r.Hashes, hex.EncodeToString(record.Hash[:]))
	return nil
}
