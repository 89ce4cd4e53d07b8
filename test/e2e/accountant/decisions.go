package accountant

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// entry is the part of a line of "rollcall log cat" that the accountant reads.
type entry struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	// Decision is the decision. DecisionSeq is, in a result, the entry that asked for the bind or the eviction.
	Decision    json.RawMessage `json:"decision"`
	DecisionSeq uint64          `json:"decisionSeq"`
	UID         string          `json:"uid"`
	Node        string          `json:"node"`
	Outcome     string          `json:"outcome"`
}

// decision is the part of a Decision that the accountant reads.
type decision struct {
	UID     string   `json:"uid"`
	Outcome string   `json:"outcome"`
	Node    string   `json:"node"`
	Allowed []string `json:"allowed"`
	Victims []string `json:"victims"`
}

// place is a Decision that allowed a pod to be bound to a node.
type place struct {
	node string
	seq  uint64
	at   time.Time
}

// Decisions has the facts about binds in a log.
type Decisions struct {
	// allowed are each pod's decisions to bind it, in order, by UID.
	allowed map[string][]place
	// results are the outcomes of each pod's binds, by UID and node.
	results map[[2]string][]string
	// evicted are each pod's decisions to evict it, in order, by UID.
	evicted map[string][]place
	// stays are the pods whose eviction was withdrawn or given up, and was not decided again since, with the entry.
	stays map[string]uint64
	// strange are the results of evictions that no decision before them asked for.
	strange []string
	// Entries counts the log's entries.
	Entries int
}

// ReadDecisions reads the output of "rollcall log cat".
func ReadDecisions(r io.Reader) (*Decisions, error) {
	d := &Decisions{allowed: map[string][]place{}, results: map[[2]string][]string{}, evicted: map[string][]place{},
		stays: map[string]uint64{}}
	waiting := map[string]string{}
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		if len(strings.TrimSpace(string(text))) > 0 {
			var e entry
			if err := json.Unmarshal(text, &e); err != nil {
				return nil, fmt.Errorf("read the log: entry %d: %w", d.Entries+1, err)
			}
			d.Entries++
			if err := d.take(&e, waiting); err != nil {
				return nil, fmt.Errorf("read the log: entry %d: %w", d.Entries, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the log: entry %d: %w", d.Entries+1, err)
		}
	}
}

// take books one entry. waiting has the nodes on which pods are held.
func (d *Decisions) take(e *entry, waiting map[string]string) error {
	if e.Kind == "BindResult" {
		key := [2]string{e.UID, e.Node}
		d.results[key] = append(d.results[key], e.Outcome)
		return nil
	}
	if e.Kind == "EvictResult" {
		d.takeEvictResult(e)
		return nil
	}
	if e.Kind != "Decision" {
		return nil
	}
	var x decision
	if err := json.Unmarshal(e.Decision, &x); err != nil {
		return err
	}
	allow := func(uid, node string) { d.allowed[uid] = append(d.allowed[uid], place{node, e.Seq, e.Time}) }
	for _, uid := range x.Victims {
		d.evicted[uid] = append(d.evicted[uid], place{seq: e.Seq, at: e.Time})
		delete(d.stays, uid)
	}
	switch x.Outcome {
	case "Scheduled":
		allow(x.UID, x.Node)
	case "Waiting":
		waiting[x.UID] = x.Node
	}
	for _, uid := range x.Allowed {
		if node := waiting[uid]; node != "" {
			allow(uid, node)
			delete(waiting, uid)
		}
	}
	return nil
}

func (d *Decisions) takeEvictResult(e *entry) {
	asked := false
	for _, x := range d.evicted[e.UID] {
		asked = asked || x.seq == e.DecisionSeq
	}
	if !asked {
		d.strange = append(d.strange, fmt.Sprintf("entry %d says that the eviction of pod %s is %s, which entry %d "+
			"did not ask for", e.Seq, e.UID, e.Outcome, e.DecisionSeq))
	}
	if e.Outcome == "Withdrawn" || e.Outcome == "GivenUp" {
		d.stays[e.UID] = e.Seq
	}
}

// checkEvictions finds each deletion that a scheduler asked for without a decision of its log before it, and each pod
// that it deleted whose log says that it stays.
func (a *Account) checkEvictions(d *Decisions, o Options, slack time.Duration) (found []string) {
	found = append(found, d.strange...)
	for _, p := range a.order {
		for _, x := range p.deletes {
			if !o.blamed(x.user) {
				continue
			}
			if all := d.evicted[p.uid]; len(all) == 0 || all[0].at.After(x.begun.Add(slack)) {
				found = append(found, fmt.Sprintf("pod %s: %s asked at %s for its deletion: no decision to evict it "+
					"is older", p.name, x.user, clock(x.begun)))
			}
			if seq := d.stays[p.uid]; seq > 0 && x.code/100 == 2 {
				found = append(found, fmt.Sprintf("pod %s was deleted by %s, and entry %d says that it stays", p.name,
					x.user, seq))
			}
		}
	}
	return found
}

// CheckDecisions compares a scheduler's requests in the audit log with its log. It finds binds and evictions that no
// earlier decision asked for. It also finds pods that are bound although the log says that the bind failed, and the
// same for evictions. slack is the amount by which a decision's time may be later than the request: 0 if both clocks
// are the same.
func (a *Account) CheckDecisions(d *Decisions, o Options, slack time.Duration) (found []string) {
	for _, p := range a.order {
		for _, b := range p.binds {
			if !o.blamed(b.user) {
				continue
			}
			if text := d.missing(p, b, slack); text != "" {
				found = append(found, fmt.Sprintf("pod %s: %s asked at %s for a bind to node %s: %s",
					p.name, b.user, clock(b.begun), b.node, text))
			}
		}
		if p.by == "" || !o.blamed(p.by) {
			continue
		}
		results := d.results[[2]string{p.uid, p.node}]
		if k := len(results); k > 0 && results[k-1] != "Bound" && results[k-1] != "Unknown" {
			found = append(found, fmt.Sprintf("pod %s is bound to node %s, and the log's last result says %s",
				p.name, p.node, results[k-1]))
		}
	}
	return append(found, a.checkEvictions(d, o, slack)...)
}

// missing says what the log lacks for a bind; empty if it lacks nothing.
func (d *Decisions) missing(p *pod, b bind, slack time.Duration) string {
	all := d.allowed[p.uid]
	if len(all) == 0 {
		return "the log has no decision to bind this pod"
	}
	for _, x := range all {
		if (x.node == b.node || b.node == "") && !x.at.After(b.begun.Add(slack)) {
			return ""
		}
	}
	last := all[len(all)-1]
	return fmt.Sprintf("no decision for that node is older; the last one is entry %d at %s for node %s",
		last.seq, clock(last.at), last.node)
}
