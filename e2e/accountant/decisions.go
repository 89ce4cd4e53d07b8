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

// entry is what the accountant reads of a line of "rollcall log cat".
type entry struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind string    `json:"kind"`
	// Decision is an object in a Decision, and in a BindResult the number of the Decision that asked for the bind.
	Decision json.RawMessage `json:"decision"`
	UID      string          `json:"uid"`
	Node     string          `json:"node"`
	Outcome  string          `json:"outcome"`
}

// decision is what the accountant reads of a Decision.
type decision struct {
	UID     string   `json:"uid"`
	Outcome string   `json:"outcome"`
	Node    string   `json:"node"`
	Allowed []string `json:"allowed"`
}

// place is a Decision that allowed a pod to be bound to a node.
type place struct {
	node string
	seq  uint64
	at   time.Time
}

// Decisions is what a log says of binds.
type Decisions struct {
	// allowed are each pod's decisions to bind it, in order, by UID.
	allowed map[string][]place
	// results are the outcomes of each pod's binds, by UID and node.
	results map[[2]string][]string
	// Entries counts the log's entries.
	Entries int
}

// ReadDecisions reads the output of "rollcall log cat".
func ReadDecisions(r io.Reader) (*Decisions, error) {
	d := &Decisions{allowed: map[string][]place{}, results: map[[2]string][]string{}}
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
	if e.Kind != "Decision" {
		return nil
	}
	var x decision
	if err := json.Unmarshal(e.Decision, &x); err != nil {
		return err
	}
	allow := func(uid, node string) { d.allowed[uid] = append(d.allowed[uid], place{node, e.Seq, e.Time}) }
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

// CheckDecisions finds each bind that a scheduler asked for without a decision of its log before it, and each pod that
// it bound, as the audit log has it, whose log says that the bind failed. slack is how much later than the request a
// decision's time may be: 0 if both clocks are the same.
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
	return found
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
