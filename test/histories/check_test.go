package histories

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/plugins"
)

// recorder makes a recording of two schedulers, one after the other, without servers or processes.
type recorder struct {
	t       *testing.T
	log     *eventlog.Memory
	cluster *cluster
	world   *workload
	engine  *engine.Engine
	id      string
	now     time.Time
	Recording
}

// goodRecording has no violation. It has two schedulers, of which the second takes over the log, pods, a gang that
// fits and one that does not, a bind that fails, and a node that comes later.
func goodRecording(t *testing.T) *Recording {
	t.Helper()
	c := newLocalCluster(t)
	defer c.close()
	r := &recorder{t: t, log: eventlog.NewMemory(), cluster: c, world: newWorkload(c, 1, time.Second, false),
		now: time.Unix(1_700_000_000, 0), Recording: Recording{Notes: map[string][]Note{}, Gangs: map[string]int{}}}
	r.takeOver("s0.1")
	r.step(true)
	r.world.addPod("", "")
	r.world.addGang("")
	r.step(true)
	r.world.addPod("", "")
	r.step(false)
	r.step(true)
	r.takeOver("s1.1")
	r.world.addGang("")
	r.world.addPod("", "")
	r.step(true)
	r.step(true)
	for record, err := range r.log.Records(t.Context(), 1) {
		if err == nil {
			err = r.record(record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Calls = append(c.called(), r.Calls...)
	for _, p := range c.pods() {
		r.Pods = append(r.Pods, EndPod{Name: p.Name, UID: string(p.UID), Gang: gangOf(p), Node: p.Spec.NodeName})
	}
	for _, g := range c.groups() {
		r.Gangs[g.Name] = int(g.Spec.SchedulingPolicy.Gang.MinCount)
	}
	return &r.Recording
}

func (r *recorder) note(n Note) { r.Notes[r.id] = append(r.Notes[r.id], n) }

// seen notes the log's last entry.
func (r *recorder) seen(what What) {
	last, err := r.log.Last()
	if err != nil {
		r.t.Fatal(err)
	}
	hash, err := r.log.RecordHash(r.t.Context(), last)
	if err != nil {
		r.t.Fatal(err)
	}
	r.note(Note{What: what, Last: last, Hash: hex.EncodeToString(hash[:])})
}

// takeOver lets another scheduler have the log.
func (r *recorder) takeOver(id string) {
	config, err := schedulerConfig()
	if err != nil {
		r.t.Fatal(err)
	}
	r.id = id
	r.seen(Seen)
	r.engine, err = engine.Open(r.t.Context(), r.log, r.now, engine.Options{Registry: plugins.NewRegistry(),
		Config: config, Version: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.note(Note{What: Leads})
}

// step tells the scheduler what the cluster has now and carries out what it asks for; if not well, binds fail.
func (r *recorder) step(well bool) {
	r.now = r.now.Add(5 * time.Second)
	var inputs []eventlog.Payload
	for _, res := range []eventlog.Resource{eventlog.PodGroups, eventlog.Nodes, eventlog.Pods} {
		r.cluster.mu.Lock()
		for _, o := range r.cluster.sorted(res) {
			inputs = append(inputs, &eventlog.Upserted{Resource: res, Object: o})
		}
		r.cluster.mu.Unlock()
	}
	ready, err := r.engine.Step(r.t.Context(), r.now, inputs)
	if err != nil {
		r.t.Fatal(err)
	}
	r.seen(Acknowledged)
	var results []eventlog.Payload
	for _, e := range ready.Effects {
		r.note(Note{What: Released, Effect: "bind", Last: e.Seq, UID: string(e.UID), Node: e.Node})
		result := &eventlog.BindResult{UID: e.UID, Node: e.Node, Decision: e.Seq, Outcome: eventlog.BindFailed}
		if well {
			result.Outcome = eventlog.BindBound
			r.bind(e)
		}
		results = append(results, result)
	}
	if _, err := r.engine.Step(r.t.Context(), r.now, results); err != nil {
		r.t.Fatal(err)
	}
	r.seen(Acknowledged)
}

func (r *recorder) bind(e engine.Effect) {
	for _, p := range r.cluster.pods() {
		if p.UID == e.UID {
			p.Spec.NodeName = e.Node
			r.cluster.put(eventlog.Pods, p)
		}
	}
	r.Calls = append(r.Calls, Call{By: r.id, Effect: "bind", UID: string(e.UID), Node: e.Node, Done: true})
}

func TestNothingIsFoundInAGoodRecording(t *testing.T) {
	r := goodRecording(t)
	for _, v := range Check(r) {
		t.Error(v)
	}
	releases, processes := 0, len(r.Notes)
	for _, notes := range r.Notes { // any order
		for _, n := range notes {
			if n.What == Released {
				releases++
			}
		}
	}
	if releases < 8 || processes != 2 || len(r.Gangs) != 3 {
		t.Errorf("%d effects of %d schedulers and %d gangs: want more", releases, processes, len(r.Gangs))
	}
}

// find returns the place of the n-th note of a kind.
func find(t *testing.T, notes []Note, what What, n int) int {
	t.Helper()
	for i := range notes {
		if notes[i].What == what {
			if n == 0 {
				return i
			}
			n--
		}
	}
	t.Fatalf("there is no such note of %s", what)
	return 0
}

const other = "00ff"

// Each violation is planted into a good recording, and is found.
func TestEachViolationIsFound(t *testing.T) {
	const one, two = "s0.1", "s1.1"
	for _, c := range []struct {
		name  string
		plant func(t *testing.T, r *Recording)
		want  []Rule
	}{
		{"the log has another entry than was acknowledged", func(t *testing.T, r *Recording) {
			r.Hashes[r.Notes[one][find(t, r.Notes[one], Acknowledged, 1)].Last-1] = other
		}, []Rule{RuleLost}},
		{"the log ends before what was acknowledged", func(t *testing.T, r *Recording) {
			notes := r.Notes[two]
			last := notes[find(t, notes, Acknowledged, 3)].Last - 1
			r.Entries, r.Hashes = r.Entries[:last], r.Hashes[:last]
		}, []Rule{RuleLost}},
		{"two schedulers were acknowledged different entries of one number", func(t *testing.T, r *Recording) {
			n := r.Notes[one][find(t, r.Notes[one], Acknowledged, 1)]
			n.Hash = other
			r.Notes["s2.1"] = []Note{n}
		}, []Rule{RuleLost, RuleTwice}},
		{"two readers read different entries of one number, and the log ends before", func(_ *testing.T, r *Recording) {
			r.Notes["s2.1"] = []Note{{What: Seen, Last: 9999, Hash: "aa"}}
			r.Notes["s2.2"] = []Note{{What: Seen, Last: 9999, Hash: "bb"}}
		}, []Rule{RuleReaders, RuleTwice}},
		{"a reader read what the log has not", func(t *testing.T, r *Recording) {
			r.Notes[two] = append(r.Notes[two], Note{What: Seen, Last: 3, Hash: other})
		}, []Rule{RuleReaders}},
		{"an effect is released before its decision is acknowledged", func(t *testing.T, r *Recording) {
			notes := r.Notes[one]
			i := find(t, notes, Released, 0)
			ack := i - 1
			notes[ack], notes[i] = notes[i], notes[ack]
		}, []Rule{RuleEarly}},
		{"an effect names a decision on another pod", func(t *testing.T, r *Recording) {
			notes := r.Notes[one]
			i, j := find(t, notes, Released, 0), 1
			for notes[find(t, notes, Released, j)].Last == notes[i].Last {
				j++
			}
			notes[i].Last = notes[find(t, notes, Released, j)].Last
		}, []Rule{RuleBacked}},
		{"an effect names another node than its decision", func(t *testing.T, r *Recording) {
			n := &r.Notes[one][find(t, r.Notes[one], Released, 0)]
			for i := range r.Calls {
				if r.Calls[i].UID == n.UID {
					r.Calls[i].Node = "node-9"
				}
			}
			n.Node = "node-9"
		}, []Rule{RuleBacked}},
		{"an effect of a decision that is not in the log", func(_ *testing.T, r *Recording) {
			r.Notes[two] = append(r.Notes[two], Note{What: Acknowledged, Last: uint64(len(r.Hashes)),
				Hash: r.Hashes[len(r.Hashes)-1]},
				Note{What: Released, Effect: "bind", Last: uint64(len(r.Hashes)), UID: "uid-x", Node: "node-1"})
		}, []Rule{RuleBacked}},
		{"an eviction that nobody decided", func(t *testing.T, r *Recording) {
			n := r.Notes[one][find(t, r.Notes[one], Released, 0)]
			n.Effect, n.Node = "evict", ""
			r.Notes[one] = append(r.Notes[one], n)
		}, []Rule{RuleBacked}},
		{"an effect of no kind", func(t *testing.T, r *Recording) {
			n := r.Notes[one][find(t, r.Notes[one], Released, 0)]
			n.Effect = ""
			r.Notes[one] = append(r.Notes[one], n)
		}, []Rule{RuleBacked}},
		{"a bind that another process had released", func(_ *testing.T, r *Recording) {
			r.Calls[0].By = two
		}, []Rule{RuleCalled}},
		{"a pod is bound twice", func(_ *testing.T, r *Recording) {
			r.Calls = append(r.Calls, r.Calls[0])
		}, []Rule{RuleTwoNodes}},
		{"a pod is sent to two nodes", plantTwoNodes, []Rule{RuleTwoNodes, RuleReplay}},
		{"a gang has fewer members on nodes than it needs", func(t *testing.T, r *Recording) {
			i := slices.IndexFunc(r.Pods, func(p EndPod) bool { return p.Gang != "" && p.Node != "" })
			gang := r.Pods[i].Gang
			left := r.Gangs[gang] - 1
			for i := range r.Pods {
				if r.Pods[i].Gang != gang {
					continue
				}
				if left--; left < 0 {
					r.Pods[i].Node = ""
				}
			}
		}, []Rule{RulePartly}},
		{"a member of a hopeless gang is bound", func(_ *testing.T, r *Recording) {
			i := slices.IndexFunc(r.Pods, func(p EndPod) bool { return p.Gang != "" && p.Node == "" })
			r.Pods[i].Node = "node-1"
		}, []Rule{RulePartly}},
		{"a decision of the log would not be made", func(_ *testing.T, r *Recording) {
			for _, e := range r.Entries {
				if d, ok := e.Payload.(*eventlog.Decision); ok && d.Outcome == eventlog.Scheduled && d.Evaluated > 0 {
					d.Evaluated++
					return
				}
			}
		}, []Rule{RuleReplay}},
		{"a decision is missing in the log", plantMissing, []Rule{RuleReplay}},
		{"a pod of the log is gone", func(_ *testing.T, r *Recording) {
			r.Pods = slices.DeleteFunc(r.Pods, func(p EndPod) bool { return p.Gang == "" })
		}, []Rule{RuleWorld}},
		{"the log cannot be read to its end", func(_ *testing.T, r *Recording) {
			r.Reading = errors.New("damaged")
		}, []Rule{RuleReplay}},
		{"a pod waits for ever", func(_ *testing.T, r *Recording) {
			r.Waiting = []string{"pod-1"}
		}, []Rule{RulePlaced}},
		{"a scheduler says that the log is damaged", func(_ *testing.T, r *Recording) {
			r.Notes[one] = append(r.Notes[one], Note{What: Damaged, Text: "message 3"})
		}, []Rule{RuleDamage}},
		{"a scheduler has lost count", func(_ *testing.T, r *Recording) {
			err := fmt.Errorf("append: %w", &eventlog.ConflictError{Expected: 1})
			r.Notes[one] = append(r.Notes[one], failedNote(err))
		}, []Rule{RuleEnd}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := goodRecording(t)
			c.plant(t, r)
			var found []Rule
			for _, v := range Check(r) {
				t.Log(v)
				if !slices.Contains(found, v.Rule) {
					found = append(found, v.Rule)
				}
			}
			slices.Sort(c.want)
			if !slices.Equal(found, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

// plantTwoNodes has the result of a bind that failed be missing, so that the pod's second bind is one too many.
func plantTwoNodes(t *testing.T, r *Recording) {
	for i, e := range r.Entries {
		b, ok := e.Payload.(*eventlog.BindResult)
		if !ok || b.Outcome != eventlog.BindFailed {
			continue
		}
		notes := r.Notes["s0.1"]
		for j := range notes {
			if n := &notes[j]; n.UID == string(b.UID) && n.Last > b.Decision {
				r.Entries[i].Payload = &eventlog.Tick{}
				moveDecision(r, n)
				return
			}
		}
	}
	t.Fatal("no bind failed and was made again")
}

// moveDecision has a decision, and the note of its effect and its call, name another node.
func moveDecision(r *Recording, n *Note) {
	d := r.Entries[n.Last-1].Payload.(*eventlog.Decision)
	for i := range r.Calls {
		if r.Calls[i].UID == n.UID && r.Calls[i].Node == n.Node {
			r.Calls[i].Node = "node-9"
		}
	}
	d.Node, n.Node = "node-9", "node-9"
}

// plantMissing removes a decision from the log and closes the gap, with the notes about effects released after it.
func plantMissing(_ *testing.T, r *Recording) {
	i := slices.IndexFunc(r.Entries, func(e eventlog.Entry) bool {
		d, ok := e.Payload.(*eventlog.Decision)
		return ok && d.Outcome == eventlog.Unschedulable
	})
	r.Entries[i].Payload = &eventlog.Tick{}
}

// The workload of a seed is the same whenever it is made, and a plan too.
func TestASeedMakesTheSameHistory(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := Random(seed).String(), Random(seed).String(); a != b {
			t.Errorf("seed %d makes %s and %s", seed, a, b)
		}
	}
	if Random(1).String() == Random(2).String() {
		t.Error("two seeds make the same history")
	}
	pods := func() (out []string) {
		c := newLocalCluster(t)
		defer c.close()
		w := newWorkload(c, 5, time.Second, false)
		for range 20 {
			w.step()
		}
		for _, p := range c.pods() {
			out = append(out, p.Name, gangOf(p), p.Spec.Containers[0].Resources.Requests.Cpu().String())
		}
		return out
	}
	if a, b := pods(), pods(); !slices.Equal(a, b) {
		t.Errorf("the workload is %v and %v", a, b)
	}
}

// newLocalCluster returns a cluster to which nobody is linked.
func newLocalCluster(t *testing.T) *cluster {
	t.Helper()
	listen, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	return newCluster(listen)
}
