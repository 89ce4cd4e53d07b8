package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// pendings is the script command "pendings CAT TIME JSON": it compares an answer of get pending with a naive reading of
// log cat.
func pendings(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: pendings CAT TIME JSON")
	}
	until, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	s := readState(ts, ts.ReadFile(args[0]), entriesUntil(until))
	var told struct {
		At    struct{ Seq uint64 }
		Items []toldPending
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	compared(ts, neg, func() {
		if told.At.Seq != s.seq {
			disagree("the list is of entry %d, want %d", told.At.Seq, s.seq)
		}
		s.comparePending(told.Items)
	})
}

type toldPending struct {
	Kind, Name, Code, Never string
	Since                   time.Time
	Position                int
	Needs                   struct {
		Members     int
		Each, Total []struct {
			Resource string
			Amount   int64
		}
	}
}

// comparePending compares which gangs are pending, since when, what each needs, in which order, and which never fit.
func (s *naiveState) comparePending(told []toldPending) {
	var want []toldPending
	for name, g := range s.groups {
		x := toldPending{Kind: "gang", Name: name}
		x.Needs.Members = g.minimum
		pending, each := 0, int64(0)
		for _, p := range s.pods {
			switch {
			case p.group != name:
			case p.succeeded, p.node != "" && !p.leaving:
				x.Needs.Members--
			case p.node == "" && !p.gone && !p.leaving:
				if pending++; pending == 1 || p.came.Before(x.Since) {
					x.Since = p.came
				}
				each, x.Never = p.gpus, s.never(p)
			}
		}
		if x.Position = int(each); pending > 0 {
			want = append(want, x)
		}
	}
	slices.SortFunc(want, func(a, b toldPending) int {
		return cmp.Or(cmp.Compare(s.groups[b.Name].priority, s.groups[a.Name].priority), a.Since.Compare(b.Since))
	})
	if len(told) != len(want) {
		disagree("%d entities are pending, want %d: %+v", len(told), len(want), want)
	}
	for i := range told {
		x := &told[i]
		k := slices.IndexFunc(want, func(w toldPending) bool { return w.Name == x.Name })
		if k < 0 {
			disagree("%s is not pending by log cat", x.Name)
		}
		w := &want[k]
		before := s.groups[x.Name]
		if i > 0 && before.priority > s.groups[told[i-1].Name].priority {
			disagree("%s of priority %d comes after %s", x.Name, before.priority, told[i-1].Name)
		}
		if x.Position != i+1 {
			disagree("%s is at place %d, and listed as number %d", x.Name, x.Position, i+1)
		}
		if x.Kind != w.Kind || !x.Since.Equal(w.Since) || x.Needs.Members != w.Needs.Members {
			disagree("%s is told as %+v, want %+v", x.Name, x, w)
		}
		gpus := int64(0)
		for _, amount := range x.Needs.Each {
			if amount.Resource == gpu {
				gpus = amount.Amount
			}
		}
		if gpus != int64(w.Position) {
			disagree("each pod of %s needs %d GPUs, want %d", x.Name, gpus, w.Position)
		}
		marks := map[string]string{"claim": "persistentvolumeclaim", "labels": "no node has ",
			"size": "no node is large"}
		if (w.Never == "") != (x.Never == "") || !strings.Contains(x.Never, marks[w.Never]) {
			disagree("%s never fits because of %q, want %q", x.Name, x.Never, w.Never)
		}
	}
}

// died is the script command "died CAT NODE JSON": it compares the last episode in an answer of explain node with a
// naive reading of log cat.
func died(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: died CAT NODE JSON")
	}
	var told struct {
		At       struct{ Seq uint64 }
		Episodes []struct {
			From  struct{ Seq uint64 }
			Until *struct{ Seq uint64 }
			Worst string
			Pods  []toldNodePod
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	compared(ts, neg, func() {
		if len(told.Episodes) == 0 {
			disagree("the node was never down")
		}
		last := told.Episodes[len(told.Episodes)-1]
		cat := ts.ReadFile(args[0])
		before := readState(ts, cat, func(e *stateLine) bool { return e.Seq < last.From.Seq })
		after := readState(ts, cat, func(e *stateLine) bool { return e.Seq <= told.At.Seq })
		if n := before.nodes[args[1]]; n == nil || n.down || n.cordoned {
			disagree("node %s was not up before entry %d", args[1], last.From.Seq)
		}
		from := readState(ts, cat, func(e *stateLine) bool { return e.Seq <= last.From.Seq })
		worst, n := "Gone", from.nodes[args[1]]
		switch {
		case n != nil && n.down:
			worst = "Unreachable"
		case n != nil && n.cordoned:
			worst = "Cordoned"
		case n != nil:
			disagree("node %s is up after entry %d", args[1], last.From.Seq)
		}
		if last.Worst != worst {
			disagree("node %s was %s, want %s", args[1], last.Worst, worst)
		}
		compareFates(before, after, args[1], worst, last.Pods)
	})
}

type toldNodePod struct {
	Pod, UID, Fate string
	Next           *struct{ Pod, UID, Node string }
}

// compareFates compares which pods were on a node, what became of each, and what came in its place.
func compareFates(before, after *naiveState, node, worst string, told []toldNodePod) {
	var names, want []string
	for i := range told {
		names = append(names, told[i].Pod)
	}
	for _, p := range before.pods {
		if p.node == node && !p.gone {
			want = append(want, p.name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		disagree("on %s were %v, want %v", node, names, want)
	}
	used := map[string]bool{}
	for i := range told {
		x := &told[i]
		p := after.byUID(x.UID)
		fate := "Stays"
		switch {
		case p.reason == "DeletionByTaintManager", p.gone && !p.succeeded && worst == "Gone":
			fate = "LostWithNode"
		case p.reason == "EvictionByEvictionAPI":
			fate = "Drained"
		case p.succeeded:
			fate = "Succeeded"
		case p.gone || p.leaving:
			fate = "Preempted"
		}
		if x.Fate != fate {
			disagree("what became of %s is %s, want %s", x.Pod, x.Fate, fate)
		}
		if fate == "Stays" || fate == "Succeeded" {
			continue
		}
		if x.Next == nil || used[x.Next.UID] {
			disagree("in the place of %s came %+v", x.Pod, x.Next)
		}
		used[x.Next.UID] = true
		if n := after.byUID(x.Next.UID); n.group != p.group || n.cameSeq <= before.seq || n.first != x.Next.Node {
			disagree("in the place of %s came %+v, and by log cat it is %+v", x.Pod, x.Next, n)
		}
	}
}

// evicted is the script command "evicted CAT POD JSON": it compares an answer of explain eviction with a naive reading
// of log cat.
func evicted(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: evicted CAT POD JSON")
	}
	var told struct {
		Decision   struct{ Seq uint64 }
		Preemption struct {
			By   struct{ Pod, Group string }
			Pods int
		}
		Possible []struct {
			Pod      string
			Priority int32
			Chosen   bool
		}
		OtherPossible int
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	s := readState(ts, ts.ReadFile(args[0]), entriesUntil(time.Time{}))
	compared(ts, neg, func() {
		var x *stateEviction
		for i := range s.evictions {
			if slices.Contains(s.evictions[i].victims, args[1]) {
				x = &s.evictions[i]
			}
		}
		if x == nil || told.Decision.Seq != x.seq || told.Preemption.By.Pod != x.pod ||
			told.Preemption.By.Group != x.group {
			disagree("%s is evicted by %+v, want %+v", args[1], told, x)
		}
		var possible, chosen []string
		for i, p := range told.Possible {
			possible = append(possible, p.Pod)
			if p.Chosen {
				chosen = append(chosen, p.Pod)
			}
			if i > 0 && p.Priority < told.Possible[i-1].Priority {
				disagree("%s of priority %d comes after one of priority %d", p.Pod, p.Priority,
					told.Possible[i-1].Priority)
			}
		}
		slices.Sort(possible)
		if told.OtherPossible > 0 || !slices.Equal(possible, x.possible) {
			disagree("possible were %v, want %v", possible, x.possible)
		}
		victims := slices.Sorted(slices.Values(x.victims))
		if slices.Sort(chosen); !slices.Equal(chosen, victims) || told.Preemption.Pods != len(victims) {
			disagree("evicted were %v, want %v", chosen, victims)
		}
	})
}

// victimof is the script command "victimof CAT GROUP": it sets VICTIM to the last pod that was evicted for a gang.
func victimof(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: victimof CAT GROUP")
	}
	s, victim := readState(ts, ts.ReadFile(args[0]), entriesUntil(time.Time{})), ""
	for _, x := range s.evictions {
		if x.group == args[1] {
			victim = x.victims[len(x.victims)-1]
		}
	}
	if victim == "" {
		ts.Fatalf("no pod had to go for %s", args[1])
	}
	ts.Setenv("VICTIM", victim)
}

// wrong is the script command "wrong CAT TIME JSON": it compares an answer of explain without a name with a naive
// reading of log cat.
func wrong(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: wrong CAT TIME JSON")
	}
	until, err := time.Parse(time.RFC3339, args[1])
	ts.Check(err)
	s := readState(ts, ts.ReadFile(args[0]), entriesUntil(until))
	var told struct {
		Findings []struct {
			Kind  string
			Names []string
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &told))
	compared(ts, neg, func() {
		is := map[string][]string{}
		for _, f := range told.Findings {
			is[f.Kind] = append(is[f.Kind], f.Names...)
		}
		want := map[string][]string{}
		for name, n := range s.nodes {
			if n.down {
				want["NodesDown"] = append(want["NodesDown"], name)
			} else if n.cordoned {
				want["NodesCordoned"] = append(want["NodesCordoned"], name)
			}
		}
		for name, g := range s.groups {
			placed, done, never := 0, 0, false
			for _, p := range s.pods {
				if p.group != name {
					continue
				}
				if p.node != "" && !p.leaving {
					placed++
				}
				if p.succeeded {
					done++
				}
				never = never || !p.gone && p.node == "" && s.never(p) != ""
			}
			if never {
				want["NeverPlaced"] = append(want["NeverPlaced"], name)
			}
			if placed > 0 && placed+done < g.minimum {
				want["BelowMinimum"] = append(want["BelowMinimum"], name)
			}
		}
		for _, kind := range []string{"NodesDown", "NodesCordoned", "NeverPlaced", "BelowMinimum"} {
			slices.Sort(is[kind])
			if slices.Sort(want[kind]); !slices.Equal(is[kind], want[kind]) {
				disagree("%s is %v, want %v", kind, is[kind], want[kind])
			}
		}
		if len(is["Waiting"]) == 0 || len(is["Preemption"]) == 0 {
			disagree("the answer names no waiting entity, or no preemption: %s", fmt.Sprint(is))
		}
	})
}
