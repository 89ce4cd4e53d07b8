package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// explained is the script command "explained CAT TIME|ENTRY JSON TEXT": it compares both forms of an answer of explain
// about a gang or a pod. The reference is a naive reader of the lines of log cat up to a time or an entry.
func explained(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: explained CAT TIME|ENTRY JSON TEXT")
	}
	cat, until := ts.ReadFile(args[0]), time.Time{}
	if seq, err := strconv.Atoi(args[1]); err == nil {
		cat = strings.Join(strings.SplitAfter(cat, "\n")[:seq], "") // a line for each entry, from 1 on
	} else {
		until, err = time.Parse(time.RFC3339, args[1])
		ts.Check(err)
	}
	c := onCall{naiveLog: readNaively(ts, cat, until), text: ts.ReadFile(args[3])}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[2])), &c.told))
	compared(ts, neg, c.compare)
}

// preemptor is the script command "preemptor CAT POD": it sets ENTRY to the number of the last entry that evicted pods
// for a pod.
func preemptor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: preemptor CAT POD")
	}
	l, last := readNaively(ts, ts.ReadFile(args[0]), time.Time{}), uint64(0)
	for seq, x := range l.evicts {
		if x.pod == args[1] {
			last = max(last, seq)
		}
	}
	if last == 0 {
		ts.Fatalf("no pod had to go for %s", args[1])
	}
	ts.Setenv("ENTRY", fmt.Sprint(last))
}

// onCall compares one answer.
type onCall struct {
	*naiveLog
	told told
	text string
}

// told is the part of an answer as JSON that is compared.
type told struct {
	At         struct{ Seq uint64 }
	Pod, Group string
	Node       string
	Nominated  string
	Attempts   int
	Members    []struct{ Pod, Node, Nominated string }
	Needs      *struct {
		AsOf      struct{ Seq uint64 }
		Members   int
		Resources []toldUse
	}
	Decision *struct{ Seq uint64 }
	Bind     *struct{ Seq uint64 }
	Reason   *struct {
		Attempts  int
		NextRetry struct{ At, Words string }
		WaitsFor  struct {
			Kind    string
			Plugins []string
		}
		Now *struct {
			Seq       uint64
			Fits      bool
			Shortfall []toldShortfall
		}
		Failed *struct{ Seq uint64 }
	}
	PreemptedBy *toldPreemption // of a pod
	Preempted   []toldPreemption
	History     struct{ PreemptedBy, Preempted []toldPreemption } // of a gang
}

type toldShortfall struct {
	AsOf    struct{ Seq uint64 }
	Pod     string
	Members int
	toldUse
}

type toldUse struct {
	Resource                        string
	Needed, Free, Kept, Allocatable int64
	LargestFree                     int64
	Usable                          int64
	Unusable                        []struct{ Amount int64 }
	Holders, KeptFor                []toldHolder
}

type toldHolder struct {
	Kind, Name string
	Pods       int
	Amount     int64
}

type toldPreemption struct {
	Seq uint64
	By  struct {
		Pod, Group string
		Priority   int32
	}
	Pods         int
	Remaining    int
	Victims, Own []struct {
		Pod, Group string
		Priority   int32
	}
}

func (c *onCall) compare() {
	c.want("the entry that it is about", c.told.At.Seq, c.seq)
	c.says(fmt.Sprintf(`(?m)^at +entry %d, %s$`, c.seq, c.now.Format(time.RFC3339)))
	subject := "podgroup " + c.told.Group
	if c.told.Pod != "" {
		p := c.named(c.told.Pod)
		subject = p.entity()
		if p.goneAt.IsZero() {
			c.want("the node of the pod", c.told.Node, p.node)
		}
		if p.group == "" {
			c.comparePod(p)
		}
	}
	for _, m := range c.told.Members {
		p := c.named(m.Pod)
		c.want("the node of member "+m.Pod, m.Node, p.node)
		if p.node == "" {
			c.want("where member "+m.Pod+" is nominated", m.Nominated, p.nominated)
		}
	}
	c.compareRoom(subject)
	c.comparePreemptions(subject)
}

// comparePod compares the answer about a pod of no gang: why it has no node, what it waits for and since when, and
// where room is kept for it. For a pod that has a node it compares the entries that led to it.
func (c *onCall) comparePod(p *naivePod) {
	if !p.goneAt.IsZero() {
		return
	}
	if p.node != "" {
		if c.told.Reason != nil || c.told.Decision == nil || c.told.Bind == nil {
			disagree("pod %s has its node, and told is %+v", p.name, c.told)
		}
		c.want("the entry that chose the node", c.told.Decision.Seq, p.decided)
		c.want("the entry of the bind", c.told.Bind.Seq, p.bound)
		c.says(fmt.Sprintf(`(?m)^bind +entry %d, .*: on %s, Bound$`, p.bound, p.node))
		return
	}
	r := c.told.Reason
	if r == nil || r.Now == nil || r.Failed == nil || c.told.Decision == nil {
		disagree("pod %s has no node since entry %d, and told is %+v", p.name, p.refusedAt, c.told)
	}
	c.want("how often it was tried", c.told.Attempts, p.tries)
	c.want("how often it was tried, by the reason", r.Attempts, p.tries)
	c.says(fmt.Sprintf(`(?m)^queue .*; %d attempts?;`, p.tries))
	c.want("the entry that refused it", r.Failed.Seq, p.refusedAt)
	c.want("the last entry about it", c.told.Decision.Seq, p.refusedAt)
	c.says(fmt.Sprintf(`(?m)^decision +entry %d, .*%s Unschedulable`, p.refusedAt, p.name))
	nodes, fit := c.roomFor(p)
	c.want("whether a node would take it now", r.Now.Fits, fit > 0)
	if fit == 0 {
		c.says(fmt.Sprintf(`^Pod %s is pending: none of the %d nodes takes it: Insufficient %s \(%d nodes\)`, p.name,
			nodes, gpu, nodes))
		c.want("what changes have to satisfy", r.WaitsFor.Plugins, p.refusers)
		c.want("what it waits for", r.WaitsFor.Kind, "Change")
		next := "when something changes that may satisfy " + strings.Join(p.refusers, " or ")
		if !strings.HasPrefix(r.NextRetry.Words, next) {
			disagree("the next try is %q, want %q", r.NextRetry.Words, next)
		}
		c.says(`(?m)^next try +` + regexp.QuoteMeta(r.NextRetry.Words) + `$`)
		c.comparePodRoom(p)
	} else {
		c.says(fmt.Sprintf(`^Pod %s is pending: a node would take it now`, p.name))
	}
	c.want("where it is nominated", c.told.Nominated, p.nominated)
	if p.nominated != "" {
		c.says(fmt.Sprintf(`(?m)^nominated +to %s: room there is kept for it$`, p.nominated))
		c.compareLeaving()
	} else if strings.Contains(c.text, "\nnominated ") {
		disagree("by log cat no room is kept for pod %s, and it says\n%s", p.name, c.text)
	}
}

// comparePodRoom compares the holders of the GPUs that a pod finds on no node.
func (c *onCall) comparePodRoom(p *naivePod) {
	i := slices.IndexFunc(c.told.Reason.Now.Shortfall, func(s toldShortfall) bool { return s.Resource == gpu })
	if i < 0 {
		disagree("nothing is told of %d GPUs that pod %s needs", p.gpus, p.name)
	}
	s := &c.told.Reason.Now.Shortfall[i]
	c.want("the pod that is short", s.Pod, p.name)
	c.want("what it needs", s.Needed, p.gpus)
	c.want("the entry as of which it is short", s.AsOf.Seq, c.seq)
	c.compareUse(&s.toldUse, p.entity())
	there, used, amount, _ := c.gpusHeld()
	kept := c.gpusKept(p.entity())
	c.want("the most that is free on one node", s.LargestFree, kept.most)
	if s.LargestFree >= p.gpus {
		disagree("pod %s needs %d GPUs, a node has %d free by the answer, and it is Insufficient", p.name, p.gpus,
			s.LargestFree)
	}
	row := fmt.Sprintf(`(?m)^%s +%d +%d .* %d +`, gpu, p.gpus, there-used-kept.sum, there)
	if kept.sum > 0 {
		row += inTable(kept.amount) + ` +`
	}
	c.says(row + inTable(amount) + `$`)
	if first, _, _ := strings.Cut(c.text, "\n"); kept.sum == 0 && strings.Contains(first, " kept for ") {
		disagree("by log cat no room is kept from pod %s, and it says\n%s", p.name, first)
	}
	for entity, amount := range kept.amount {
		c.says(fmt.Sprintf(`^Pod .*, with %d %s kept for %s`, amount, gpu, nameIn(entity)))
	}
}

// nameIn is the name of an entity in a sentence.
func nameIn(entity string) string {
	_, name, _ := strings.Cut(entity, " ")
	return name
}

// inTable writes the names of entities, each with its amount, as a table has them: the largest amounts first.
func inTable(amount map[string]int64) string {
	var cells []string
	for _, entity := range largest(amount) {
		name := nameIn(entity)
		if strings.HasPrefix(entity, "podgroup ") {
			name = "gang " + name
		}
		cells = append(cells, fmt.Sprintf(`%s %d`, name, amount[entity]))
	}
	return strings.Join(cells, ", ")
}

// compareLeaving compares the number of pods that were evicted for the subject and are still on their nodes.
func (c *onCall) compareLeaving() {
	for _, x := range c.told.Preempted {
		evicts := c.evicts[x.Seq]
		if evicts == nil {
			disagree("by log cat entry %d evicts nothing", x.Seq)
		}
		left := 0
		for _, v := range evicts.victims {
			if v.node != "" {
				left++
			}
		}
		c.want(fmt.Sprintf("of the eviction at entry %d, how many are still on their nodes", x.Seq), x.Remaining, left)
		switch {
		case left == 0:
			c.says(`(?m)^preempted .*; (it has left its node|they have left their nodes)$`)
		case left == x.Pods:
			c.says(`(?m)^preempted .*; (it is still on its node|they are still on their nodes)$`)
			c.says(fmt.Sprintf(`^Pod .*; for its sake %d pods? had to go at .* \(entry %d\), which still hold`, x.Pods,
				x.Seq))
		}
	}
}

// largest returns the holders of something: the largest amounts first. Ties are ordered by name.
func largest(amount map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(amount), func(a, b string) int {
		if amount[a] != amount[b] {
			return int(amount[b] - amount[a])
		}
		return strings.Compare(a, b)
	})
}

// says ends the script unless the text matches.
func (c *onCall) says(pattern string) {
	if !regexp.MustCompile(pattern).MatchString(c.text) {
		disagree("by log cat it must say %s, and it says\n%s", pattern, c.text)
	}
}

// compareRoom compares the needed and the free GPUs, and the holders of the rest.
func (c *onCall) compareRoom(subject string) {
	needed, members := c.needed(subject)
	if c.told.Pod != "" && c.named(c.told.Pod).group == "" {
		return // comparePod
	}
	compared := 0
	compareUse := func(u *toldUse, of int) {
		if u.Resource == gpu {
			compared++
			c.compareUse(u, subject)
			c.want("how many members need it", of, members)
			c.want("what they need", u.Needed, needed)
		}
	}
	if n := c.told.Needs; n != nil {
		c.want("the entry as of which it is needed", n.AsOf.Seq, c.seq)
		for i := range n.Resources {
			compareUse(&n.Resources[i], n.Members)
		}
	}
	if r := c.told.Reason; r != nil && r.Now != nil {
		c.want("the entry as of which there is no room", r.Now.Seq, c.seq)
		for i := range r.Now.Shortfall {
			s := &r.Now.Shortfall[i]
			c.want("the entry as of which it is short", s.AsOf.Seq, c.seq)
			compareUse(&s.toldUse, s.Members)
		}
	}
	there, used, amount, _ := c.gpusHeld()
	kept := c.gpusKept(subject)
	if members == 0 || there-used-kept.sum >= needed {
		if strings.Contains(c.text, " held by ") {
			disagree("by log cat nothing stands in the way of %d GPUs, and it says\n%s", needed, c.text)
		}
		return
	}
	if compared == 0 {
		disagree("nothing is told of %d GPUs that %s needs", needed, subject)
	}
	holders := largest(amount)
	held, rest := "", int64(0)
	for i, entity := range holders {
		_, name, _ := strings.Cut(entity, " ")
		switch {
		case i == 0:
			held = fmt.Sprintf(", %d held by %s", amount[entity], name)
		case i == 1:
			held += fmt.Sprintf(", %d by %s", amount[entity], name)
		default:
			rest += amount[entity]
		}
	}
	if rest > 0 {
		held += fmt.Sprintf(", %d by %d others?", rest, len(holders)-2)
	}
	keptText := ""
	for i, entity := range largest(kept.amount) {
		keptText += map[bool]string{true: fmt.Sprintf(", %d kept for %s", kept.amount[entity], nameIn(entity)),
			false: fmt.Sprintf(", %d for %s", kept.amount[entity], nameIn(entity))}[i == 0]
	}
	c.says(fmt.Sprintf(`^(Gang|Pod) .* needs %d %s for %d members?; %d free( \([^)]*\))?%s%s`, needed, gpu, members,
		there-used-kept.sum, keptText, held))
}

// needed returns the number of GPUs that those members of a gang need that lack a node for its minimum.
func (c *onCall) needed(subject string) (gpus int64, members int) {
	_, name, _ := strings.Cut(subject, " ")
	g := c.groups[name]
	if g == nil {
		return 0, 0
	}
	placed := 0
	var waiting []*naivePod
	for _, p := range c.pods {
		switch {
		case p.group == name && p.node != "":
			placed++
		case p.group == name && p.goneAt.IsZero():
			waiting = append(waiting, p)
		}
	}
	if members = g.minimum - placed; members <= 0 || len(waiting) < members {
		return 0, 0
	}
	for _, p := range waiting[:members] {
		gpus += p.gpus
	}
	return gpus, members
}

// compareUse compares the answer about the GPUs that a subject needs: what pods hold, what is kept, and what is free.
func (c *onCall) compareUse(u *toldUse, subject string) {
	there, used, amount, pods := c.gpusHeld()
	kept := c.gpusKept(subject)
	c.want("what the nodes offer", u.Allocatable, there)
	c.want("what is kept of it", u.Kept, kept.sum)
	c.want("what is free of it", u.Free, there-used-kept.sum)
	sum := u.Usable
	for _, part := range u.Unusable {
		sum += part.Amount
	}
	c.want("what is usable of it, and what is not by each cause, together", sum, u.Free)
	c.want("what is held, kept and free together", sumOf(u.Holders)+u.Kept+u.Free, there)
	c.want("how many hold the rest", len(u.Holders), len(amount))
	for _, h := range u.Holders {
		entity := strings.Replace(h.Kind, "group", "podgroup", 1) + " " + h.Name
		c.want("what "+entity+" holds", h.Amount, amount[entity])
		c.want("with how many pods", h.Pods, pods[entity])
	}
	c.want("for how many room is kept", len(u.KeptFor), len(kept.amount))
	for _, h := range u.KeptFor {
		entity := strings.Replace(h.Kind, "group", "podgroup", 1) + " " + h.Name
		c.want("what is kept for "+entity, h.Amount, kept.amount[entity])
		c.want("for how many pods of it", h.Pods, kept.pods[entity])
	}
}

// sumOf adds up the amounts of holders.
func sumOf(holders []toldHolder) (sum int64) {
	for _, h := range holders {
		sum += h.Amount
	}
	return sum
}

// comparePreemptions compares all evictions for the subject, and all evictions of its pods.
func (c *onCall) comparePreemptions(subject string) {
	told := map[uint64]*toldPreemption{}
	var seqs []uint64
	all := slices.Concat(c.told.Preempted, c.told.History.PreemptedBy, c.told.History.Preempted)
	if by := c.told.PreemptedBy; by != nil {
		all = append(all, *by)
	}
	for i := range all {
		told[all[i].Seq] = &all[i]
		seqs = append(seqs, all[i].Seq)
	}
	var found []uint64
	for _, seq := range slices.Sorted(maps.Keys(c.evicts)) {
		x := c.evicts[seq]
		by := entityBy(x)
		mine := slices.DeleteFunc(slices.Clone(x.victims), func(v *naivePod) bool {
			return c.told.Pod != "" && v.name != c.told.Pod || v.entity() != subject
		})
		if by != subject && len(mine) == 0 || c.told.Pod != "" && by == subject && x.pod != c.told.Pod {
			continue
		}
		found = append(found, seq)
		if p := told[seq]; p != nil {
			c.comparePreemption(x, p)
			c.saysPreemption(x, by == subject, mine)
		}
	}
	slices.Sort(seqs)
	c.want("the entries that evict for it or from it", seqs, found)
}

func (c *onCall) comparePreemption(x *naiveEviction, p *toldPreemption) {
	place := fmt.Sprintf("of the eviction at entry %d, ", x.seq)
	c.want(place+"for which pod", p.By.Pod, x.pod)
	c.want(place+"for which gang", p.By.Group, x.group)
	c.want(place+"the priority", p.By.Priority, c.priorityOf(entityBy(x)))
	c.want(place+"how many had to go", p.Pods, len(x.victims))
	for _, v := range slices.Concat(p.Victims, p.Own) {
		i := slices.IndexFunc(x.victims, func(o *naivePod) bool { return o.name == v.Pod })
		if i < 0 {
			disagree("%svictim %s is none by log cat", place, v.Pod)
		}
		c.want(place+"the gang of "+v.Pod, v.Group, x.victims[i].group)
		c.want(place+"the priority of "+v.Pod, v.Priority, c.priorityOf(x.victims[i].entity()))
	}
}

// saysPreemption compares the text about an eviction, for the subject or of its pods.
func (c *onCall) saysPreemption(x *naiveEviction, isFor bool, mine []*naivePod) {
	when := fmt.Sprintf("entry %d, %s: ", x.seq, x.time.Format(time.RFC3339))
	if isFor {
		of := map[string]int{}
		for _, v := range x.victims {
			of[v.entity()]++
		}
		for entity, n := range of {
			noun := map[bool]string{true: "pod", false: "pods"}[n == 1]
			what := fmt.Sprintf("%d %s of gang %s", n, noun, strings.TrimPrefix(entity, "podgroup "))
			if strings.HasPrefix(entity, "pod ") {
				what = strings.TrimPrefix(entity, "pod ")
			}
			c.says(fmt.Sprintf(`(?m)^preempted +%s.*%s \(priority %d\)`, when, what, c.priorityOf(entity)))
		}
		return
	}
	by := strings.Replace(entityBy(x), "podgroup", "gang", 1)
	c.says(fmt.Sprintf(`(?m)^preempted by +%s%s \(priority %d, above its own %d\)`, when, by,
		c.priorityOf(entityBy(x)), c.priorityOf(mine[0].entity())))
}
