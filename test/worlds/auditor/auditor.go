package auditor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"
)

// one is the number of pods that a pod counts as against its node's limit of pods.
var one = big.NewRat(1, 1)

// Finding is a fault of a log.
type Finding struct {
	// Check is the name of the check that found it, one of Checks.
	Check string
	// Seq is the entry at which it was found; 0 for a fault of the log as a whole.
	Seq uint64
	// Message describes the fault.
	Message string
}

// String implements fmt.Stringer.
func (f Finding) String() string { return fmt.Sprintf("%s: entry %d: %s", f.Check, f.Seq, f.Message) }

// Report is the result of an audit.
type Report struct {
	Findings []Finding
	// Asked counts, for each check, the number of times that it had something to check.
	Asked map[string]int
	// Entries, Placements and Releases count the log's contents.
	Entries, Placements, Releases int
}

// auditor reads a log, entry by entry.
type auditor struct {
	*state
	report Report
	last   *entry
	// seen has the number of pods of each namespace/name that ever existed.
	seen map[string]int
	// reserved are the present reservations, by profile, and promised the earliest time of each entity's reservations.
	reserved map[string]*reservation
	// evictions are pods whose eviction a Decision requested, with the Decision.
	evictions map[string]uint64
	// recorded says that the workload is another log: pods end as they did there, whatever they declare.
	recorded bool
	// lost counts, by namespace/name, pods that were evicted or lost with their node: others may replace them.
	lost    map[string]int
	outages outages
}

// Audit reads the output of `rollcall log cat` for a simulation and returns the log's faults. inputs are the
// simulation's inputs. An error means that the output could not be read: then there is no audit.
func Audit(log io.Reader, inputs Inputs) (Report, error) {
	a := &auditor{
		state: newState(), seen: map[string]int{}, reserved: map[string]*reservation{}, evictions: map[string]uint64{},
		lost: map[string]int{}, outages: outages{evicting: map[string]evicting{}},
	}
	silences, err := inputs.silences()
	if err != nil {
		return a.report, err
	}
	a.outages.silences = silences
	a.recorded = inputs.isLog()
	a.report.Asked = map[string]int{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				return a.report, fmt.Errorf("after entry %d: %w", a.seq, err)
			}
			if err := a.entry(&e); err != nil {
				return a.report, fmt.Errorf("entry %d: %w", e.Seq, err)
			}
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return a.report, err
		}
	}
	a.end(inputs.Until > 0)
	return a.report, a.accounted(inputs)
}

// asked notes that a check has something to check.
func (a *auditor) asked(check string) { a.report.Asked[check]++ }

// find notes a finding of a check.
func (a *auditor) find(check, format string, args ...any) {
	a.report.Findings = append(a.report.Findings, Finding{check, a.seq, fmt.Sprintf(format, args...)})
}

// entry adds an entry, and checks it against the earlier ones.
func (a *auditor) entry(e *entry) error {
	if e.Time.After(a.now) && a.last != nil {
		a.checkInstant(e)
	}
	a.checkOrder(e)
	a.seq, a.now = e.Seq, e.Time
	a.last = e
	a.report.Entries++
	if e.Kind != "Decision" && e.Kind != "EpochStarted" { // a writer may end, and another begin, amid an attempt
		a.checkHeld("")
	}
	a.checkDeadlines()
	switch e.Kind {
	case "EpochStarted":
		return a.epoch(e)
	case "Upserted":
		err := a.upserted(e)
		followOutages(a, e)
		if e.Resource == "resourceclaims.resource.k8s.io" && err == nil {
			a.checkLogged(claimOf(e))
		}
		a.noteComplete()
		a.changed(e)
		return err
	case "Deleted":
		if p := a.deleted(e); p != nil {
			a.left(p)
		}
		a.noteComplete()
		a.changed(e)
	case "Decision":
		return a.decided(e.Decision)
	case "BindResult":
		a.bindResult(e)
	case "EvictResult":
		if e.Outcome == "GivenUp" || e.Outcome == "Withdrawn" {
			delete(a.evictions, e.UID) // the pod stays
		}
	case "ExtenderResult", "Tick", "Watched": // the answers of extenders are for the next cycle of the pod
	default:
		return fmt.Errorf("kind %q is not known", e.Kind)
	}
	return nil
}

// followOutages follows the taints of nodes, and the deletion of a pod on one.
func followOutages(a *auditor, e *entry) {
	if e.Resource == "nodes" {
		for _, node := range a.nodes {
			a.outages.noteTaints(node, a.now)
		}
	}
	if p := a.going; p != nil {
		a.going = nil
		a.lost[p.name]++
		delete(a.evictions, p.uid) // it is carried out
		if wrong, asked := a.outages.disrupted(p, a.nodes[p.node], a.now); asked && !a.recorded {
			a.asked("evictions")
			if wrong != "" {
				a.find("evictions", "%s", wrong)
			}
		}
	}
}

// checkOrder checks that entries are numbered without a gap, that time and epochs do not go back, and that an epoch
// begins with its configuration.
func (a *auditor) checkOrder(e *entry) {
	const check = "order"
	a.asked(check)
	epoch := uint64(0)
	if a.last != nil {
		epoch = a.last.Epoch
	}
	if e.Kind == "EpochStarted" {
		epoch++
	}
	switch {
	case e.Seq != a.seq+1:
		a.find(check, "entry %d follows entry %d", e.Seq, a.seq)
	case e.Epoch != epoch:
		a.find(check, "entry %d, %s, is of epoch %d: want %d", e.Seq, e.Kind, e.Epoch, epoch)
	case e.Time.Before(a.now):
		a.find(check, "entry %d is of %s, before %s", e.Seq, e.Time.Format(time.RFC3339Nano),
			a.now.Format(time.RFC3339Nano))
	}
}

// changed notes the effects of an input: a new pod, and a change that no reservation could foresee.
func (a *auditor) changed(e *entry) {
	if e.Resource != "pods" && e.Resource != "persistentvolumes" && e.Resource != "persistentvolumeclaims" {
		a.breakPromises()
	}
	for _, p := range a.pods {
		if p.arrivedAt == a.seq {
			a.seen[p.name]++
			a.checkSameName(p)
		}
		for _, r := range a.reserved {
			if p.arrivedAt == a.seq && (p.gang == r.gang && p.gang != "" || p.came) {
				r.promised = time.Time{}
			}
		}
	}
}

// checkSameName checks that no two pods of one name exist at once.
func (a *auditor) checkSameName(p *pod) {
	const check = "names"
	a.asked(check)
	for _, other := range a.pods {
		if other != p && other.name == p.name && other.stage != ended {
			a.find(check, "pod %s is there with the UIDs %s and %s", p.name, p.uid, other.uid)
		}
	}
}

// decided adds a Decision.
func (a *auditor) decided(d *decision) error {
	p, err := a.podOf(d.UID)
	if err != nil || p.name != d.Pod {
		a.find("effects", "the Decision on pod %s, UID %s, is of a pod that is not there", d.Pod, d.UID)
		return nil
	}
	if a.awaitsResize(p) && (d.Outcome == "Unschedulable" || d.Outcome == "Error") {
		a.resized(p, d)
		return nil
	}
	if d.Group != p.gang {
		a.find("gang-minimum", "pod %s is of the gang %q, and the Decision says %q", p.name, p.gang, d.Group)
	}
	if d.Outcome != "Reserved" && d.Outcome != "Asked" { // these are no turn
		a.checkHeld(a.entityOf(p))
	}
	a.checkTurnedAway(p, d)
	for _, uid := range d.Rejected {
		a.rejected(uid)
	}
	switch d.Outcome {
	case "Scheduled", "Waiting":
		a.place(p, d)
	case "Reserved":
		a.reserve(p, d)
	case "Unschedulable", "Error":
		a.checkRefused(p, d)
		p.nominate(d.Nominated, len(d.Victims) > 0)
		if p.stage != pending {
			a.find("effects", "pod %s is refused, and is on node %s", p.name, p.node)
		}
	case "Evicted":
		a.checkEvicted(p, d)
	case "Asked": // nothing changes before the answer
	default:
		return fmt.Errorf("outcome %q is not known", d.Outcome)
	}
	if len(d.Victims) > 0 && d.Outcome != "Evicted" {
		a.checkPreemption(p, d)
	}
	a.carryOut(d)
	a.checkReleased(p, d)
	a.noteComplete()
	return nil
}

// rejected takes a pod that is held off its node.
func (a *auditor) rejected(uid string) {
	p, err := a.podOf(uid)
	switch {
	case err != nil:
		a.find("effects", "a Decision releases a pod: %v", err)
	case p.stage != held:
		a.find("effects", "a Decision releases pod %s, which is not held", p.name)
	default:
		p.release()
		a.report.Releases++
	}
}

// carryOut applies the rest of a Decision: pods that may continue, pods to evict, and nominations.
func (a *auditor) carryOut(d *decision) {
	for _, uid := range d.Allowed {
		p, err := a.podOf(uid)
		switch {
		case err != nil:
			a.find("effects", "a Decision allows a pod: %v", err)
		case p.stage != held:
			a.find("effects", "a Decision allows pod %s, which is not held", p.name)
		default:
			p.stage, p.waitUntil, p.placed = going, time.Time{}, a.now
		}
	}
	if len(d.Victims)+len(d.Nominations) > 0 || d.Nominated != "" {
		a.breakPromises()
	}
	for _, v := range d.Victims {
		if p := a.pods[v.UID]; p != nil {
			p.leaving = true
			a.evictions[v.UID] = a.seq
		}
	}
	for _, n := range d.Nominations {
		if p := a.pods[n.UID]; p != nil {
			p.nominate(n.Node, true)
		}
	}
}

// place notes that a pod has a node.
func (a *auditor) place(p *pod, d *decision) {
	if p.stage == held && p.node == d.Node && d.Outcome == "Scheduled" { // the end of its wait
		if d.Evaluated > 0 {
			a.find("effects", "pod %s is held on %s, and has another turn", p.name, p.node)
		}
		p.stage, p.waitUntil, p.placed = going, time.Time{}, a.now
		return
	}
	a.report.Placements++
	if p.stage != pending {
		a.find("effects", "pod %s is placed on %s and is on %s", p.name, d.Node, p.node)
		return
	}
	a.checkPlacement(p, d)
	a.checkNominations(p, d)
	a.checkTopology(p, d)
	a.checkLane(p, d)
	a.checkReservation(p, d)
	p.stage, p.node, p.placed, p.placedAt = going, d.Node, a.now, a.seq
	if d.Outcome == "Waiting" {
		p.stage, p.waitUntil = held, d.WaitUntil
	}
	a.checkDevices(p, d)
	p.settles = map[string]string{}
	for _, v := range d.Volumes {
		p.settles[v.Claim] = v.Volume
	}
}

// nominate records a Decision's nomination of a pod. A Decision that gives it the node which its object names, and
// evicts no pod for it, only repeats that.
func (p *pod) nominate(node string, anew bool) {
	switch {
	case node == "":
		p.own = false
	case anew || node != p.nominated && node != p.object.Status.NominatedNodeName:
		p.own = true
	}
	p.nominated = node
}

// bindResult checks that a bind follows from a Decision, and records its result.
func (a *auditor) bindResult(e *entry) {
	const check = "effects"
	a.asked(check)
	p := a.pods[e.UID]
	if e.Outcome != "Unknown" {
		delete(a.inFlight, e.UID)
	}
	if p == nil { // it is gone, and its bind with it
		if e.Outcome == "Bound" {
			a.find(check, "a pod that is not there, UID %s, is bound to %s", e.UID, e.Node)
		}
		return
	}
	if p.node != e.Node || p.stage != going {
		a.find(check, "pod %s is bound to %s (%s), and no Decision says so", p.name, e.Node, e.Outcome)
		return
	}
	switch e.Outcome {
	case "Bound":
		p.stage, p.nominated, p.own, p.boundAt = bound, "", false, a.now
	case "Failed", "Conflict":
		p.release()
		a.breakPromises()
	}
}

// left checks that a pod that has ended had a reason: its time is over, its node is lost, or it was evicted.
func (a *auditor) left(p *pod) {
	const check = "endings"
	a.asked(check)
	_, evicted := a.evictions[p.uid]
	nodeGone := p.node != "" && a.nodes[p.node] == nil
	deleted := p.object.Metadata.DeletionTimestamp != nil && p.node != ""
	if (evicted || nodeGone) && !deleted {
		a.lost[p.name]++
	}
	delete(a.evictions, p.uid)
	length, declares := p.declared()
	end, heard := a.outages.heardEnd(p, p.placed.Add(length))
	early := declares && (!heard || a.now.Before(end))
	if (p.stage == bound || p.stage == ended) && !evicted && !nodeGone && !deleted && !p.came && early && !a.recorded {
		a.find(check, "pod %s is gone from %s, where it was to run until %s", p.name, p.node, end.Format(time.RFC3339))
	}
	for profile, r := range a.reserved {
		if slices.Contains(r.uids, p.uid) {
			delete(a.reserved, profile)
		}
	}
}
