package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Report says how two logs differ.
type Report struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Relative says that times count from the first entry of each log, because these are of different times.
	Relative bool `json:"relative"`
	// Settings are the differences of the configuration, at most as many as Options.Show; SettingsDiffer counts all.
	Settings       []Setting `json:"settings"`
	SettingsDiffer int       `json:"settingsDiffer"`
	// Input is the first difference of the inputs, nil if there is none.
	Input *InputDifference `json:"input,omitempty"`
	// InputLater says that the first different input is behind the first different decision, and may be a result of it:
	// a pod that a controller makes again has another name.
	InputLater bool `json:"inputLater,omitempty"`
	// Objects are the differences of the objects that came, and of the nodes as they were last, by resource.
	Objects []ObjectsDiffer `json:"objects"`
	// SameDecisions counts the decisions before the first different one.
	SameDecisions uint64 `json:"sameDecisions"`
	// Decision is the first difference of the decisions, nil if there is none.
	Decision *DecisionDifference `json:"decision,omitempty"`
	// Gangs and Pods are the gangs, and the pods without a gang, with another outcome: the largest change first, at
	// most as many as Options.Show. GangsDiffer and PodsDiffer count all.
	Gangs       []Change `json:"gangs"`
	GangsDiffer int      `json:"gangsDiffer"`
	Pods        []Change `json:"pods"`
	PodsDiffer  int      `json:"podsDiffer"`
}

// Same reports whether the logs do not differ.
func (r *Report) Same() bool {
	return r.SettingsDiffer+r.GangsDiffer+r.PodsDiffer+len(r.Objects) == 0 && r.Input == nil && r.Decision == nil
}

// Side is one of the two logs.
type Side struct {
	Log     string       `json:"log"`
	Entries uint64       `json:"entries"`
	First   answer.Point `json:"first"`
	Last    answer.Point `json:"last"`
	// Gangs and Pods count the outcomes of all gangs, and of all pods without a gang.
	Gangs Totals `json:"gangs"`
	Pods  Totals `json:"pods"`
}

// Totals count outcomes. The waits are of the ones that got nodes.
type Totals struct {
	All         int  `json:"all"`
	Placed      int  `json:"placed"`
	MeanWait    Wait `json:"meanWaitSeconds"`
	LongestWait Wait `json:"longestWaitSeconds"`
	// Evicted counts pods.
	Evicted int `json:"evicted"`
}

// Setting is a field of the configuration that differs. A and B are its values as JSON, "" where there is none.
type Setting struct {
	// Epoch is the number of the epoch in both logs, from 1 on; 0 where it is not asked for.
	Epoch int    `json:"epoch"`
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// Input is something that came from outside: an object that came, or a node that changed or was deleted.
type Input struct {
	answer.Point
	What string `json:"what"`
}

// InputDifference is the first difference of the inputs. A or B is nil if that log has no further input. If both have
// the same text, the object's fields differ, or its time.
type InputDifference struct {
	A *Input `json:"a,omitempty"`
	B *Input `json:"b,omitempty"`
}

// ObjectsDiffer are the objects of a resource that are in one log alone, or have other fields. The lists have at most
// Options.Show names.
type ObjectsDiffer struct {
	Resource string   `json:"resource"`
	OnlyA    []string `json:"onlyA,omitempty"`
	OnlyB    []string `json:"onlyB,omitempty"`
	Other    []string `json:"other,omitempty"`
	CountA   int      `json:"countOnlyA"`
	CountB   int      `json:"countOnlyB"`
	CountOf  int      `json:"countOther"`
}

// Decided is a Decision in a few words.
type Decided struct {
	answer.Point
	Pod     string `json:"pod"`
	Outcome string `json:"outcome"`
	Node    string `json:"node,omitempty"`
}

// DecisionDifference is the first difference of the decisions. A or B is nil if that log has no further decision.
type DecisionDifference struct {
	A *Decided `json:"a,omitempty"`
	B *Decided `json:"b,omitempty"`
	// Field is the field that differs, under the name that log cat gives it, "" if A or B is nil. ValueA and ValueB are
	// its values as JSON.
	Field  string `json:"field,omitempty"`
	ValueA string `json:"valueA,omitempty"`
	ValueB string `json:"valueB,omitempty"`
}

// Change is a gang, or a pod without a gang, with another outcome.
type Change struct {
	Name string `json:"name"`
	// A and B are nil if the log does not have it.
	A *Outcome `json:"a,omitempty"`
	B *Outcome `json:"b,omitempty"`
	// WaitA and WaitB are the times from Complete to Placed, or to the log's end. MoreWait is WaitB less WaitA.
	WaitA    Wait `json:"waitSecondsA"`
	WaitB    Wait `json:"waitSecondsB"`
	MoreWait Wait `json:"moreWaitSeconds"`

	weight int
}

// Wait is a duration; its JSON form is in seconds.
type Wait time.Duration

// MarshalJSON implements json.Marshaler.
func (w Wait) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(w).Seconds()) }

// String is the duration to the millisecond.
func (w Wait) String() string { return time.Duration(w).Round(time.Millisecond).String() }

// report makes the report when both logs have been read.
func (c *comparison) report() (*Report, error) {
	r := &Report{A: c.a.told(), B: c.b.told(), Relative: c.relative, Input: c.input, SameDecisions: c.same,
		Decision: c.decision, Settings: []Setting{}, Objects: c.objects(), Gangs: []Change{}, Pods: []Change{}}
	if i, d := c.input, c.decision; i != nil && d != nil {
		r.InputLater = later(i.A, d.A) && later(i.B, d.B)
	}
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	r.SettingsDiffer = len(settings)
	r.Settings = append(r.Settings, settings[:min(c.Show, len(settings))]...)
	gangs, n := c.changes("gang")
	r.Gangs, r.GangsDiffer = append(r.Gangs, gangs...), n
	pods, n := c.changes("pod")
	r.Pods, r.PodsDiffer = append(r.Pods, pods...), n
	return r, nil
}

// later reports whether an input comes after a decision in one log. One that there is not is later than all.
func later(i *Input, d *Decided) bool { return i == nil || d != nil && i.Seq > d.Seq }

func (s *side) told() Side {
	return Side{Log: s.Name, Entries: s.read, First: s.first, Last: s.last, Gangs: s.outcomes.totals("gang"),
		Pods: s.outcomes.totals("pod")}
}

// settings returns the differences of the configurations, epoch by epoch.
func (c *comparison) settings() (all []Setting, err error) {
	for i := range max(len(c.a.epochs), len(c.b.epochs)) {
		var trees [2]any
		for j, s := range []*side{c.a, c.b} {
			if i >= len(s.epochs) {
				continue
			}
			if trees[j], err = treeOf(s.epochs[i]); err != nil {
				return nil, fmt.Errorf("%s: configuration of epoch %d: %w", s.Name, i+1, err)
			}
		}
		if (trees[0] == nil) != (trees[1] == nil) {
			has := func(tree any) string {
				if tree == nil {
					return ""
				}
				return "started"
			}
			all = append(all, Setting{Epoch: i + 1, Field: "epoch", A: has(trees[0]), B: has(trees[1])})
			continue
		}
		walk("", trees[0], trees[1], func(field string, a, b any) {
			all = append(all, Setting{Epoch: i + 1, Field: field, A: textOf(a), B: textOf(b)})
		})
	}
	return all, nil
}

// Settings returns the differences of two configurations as they are logged, sorted by field. A setting without a value
// on one side is "" there; if it is an object or a list, each field below it is a setting.
func Settings(a, b []byte) (all []Setting, err error) {
	var trees [2]any
	for i, config := range [][]byte{a, b} {
		if trees[i], err = treeOf(&eventlog.EpochStarted{Config: config}); err != nil {
			return nil, err
		}
	}
	walk("", trees[0], trees[1], func(field string, a, b any) {
		if fieldsOf(a) == nil && fieldsOf(b) == nil || a != nil && b != nil {
			all = append(all, Setting{Field: field, A: textOf(a), B: textOf(b)})
			return
		}
		for _, leaf := range leavesOf(field, present(a, b)) {
			s := Setting{Field: leaf.field, A: textOf(leaf.value)}
			if a == nil {
				s.A, s.B = s.B, s.A
			}
			all = append(all, s)
		}
	})
	return all, nil
}

// present returns a, or b if a is nil.
func present(a, b any) any {
	if a == nil {
		return b
	}
	return a
}

type leaf struct {
	field string
	value any
}

// leavesOf returns the fields below a value, without the ones that name its type or the value itself.
func leavesOf(path string, v any) (all []leaf) {
	fields := fieldsOf(v)
	if fields == nil {
		return []leaf{{path, v}}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case strings.HasPrefix(key, "["):
			all = append(all, leavesOf(path+key, fields[key])...)
		case key != "name" && key != "kind" && key != "apiVersion":
			all = append(all, leavesOf(path+"."+key, fields[key])...)
		}
	}
	return all
}

// treeOf returns an epoch's configuration, with the other settings that decisions depend on.
func treeOf(e *eventlog.EpochStarted) (any, error) {
	tree := map[string]any{}
	if len(e.Config) > 0 {
		d := json.NewDecoder(bytes.NewReader(e.Config))
		d.UseNumber()
		if err := d.Decode(&tree); err != nil {
			return nil, err
		}
	}
	if e.Behaviour > 0 {
		tree["behaviour"], tree["seed"] = fmt.Sprint(e.Behaviour), fmt.Sprint(e.Seed)
	}
	return tree, nil
}

// walk calls differs for each field that differs. Elements of a list with names are compared by name.
func walk(path string, a, b any, differs func(field string, a, b any)) {
	x, y := fieldsOf(a), fieldsOf(b)
	if x == nil || y == nil {
		if !bytes.Equal(jsonOf(a), jsonOf(b)) {
			differs(path, a, b)
		}
		return
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		field := key
		if path != "" && strings.HasPrefix(key, "[") {
			field = path + key
		} else if path != "" {
			field = path + "." + key
		}
		va, inA := x[key]
		vb, inB := y[key]
		if !inA || !inB {
			differs(field, va, vb)
			continue
		}
		walk(field, va, vb, differs)
	}
}

// fieldsOf returns the fields of an object, or the elements of a list as [NAME] or [INDEX]; nil for other values.
func fieldsOf(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		fields := map[string]any{}
		for i, each := range v {
			key := fmt.Sprintf("[%d]", i)
			if object, ok := each.(map[string]any); ok {
				for _, by := range []string{"name", "schedulerName"} {
					if name, ok := object[by].(string); ok {
						key = "[" + name + "]"
					}
				}
			}
			if _, twice := fields[key]; twice {
				return nil
			}
			fields[key] = each
		}
		return fields
	}
	return nil
}

func textOf(v any) string {
	if v == nil {
		return ""
	}
	return string(jsonOf(v))
}

func jsonOf(v any) []byte {
	text, _ := json.Marshal(v) // it came from JSON
	return text
}

// differentDecision returns the difference of two decisions, nil if they are the same. One of them may be nil.
func (c *comparison) differentDecision(a, b *eventlog.Entry) (*DecisionDifference, error) {
	var d DecisionDifference
	var fields [2]map[string]any
	for i, each := range []struct {
		s     *side
		e     *eventlog.Entry
		told  **Decided
		value *string
	}{{c.a, a, &d.A, &d.ValueA}, {c.b, b, &d.B, &d.ValueB}} {
		if each.e == nil {
			continue
		}
		p := each.e.Payload.(*eventlog.Decision)
		*each.told = &Decided{answer.Point{Seq: each.e.Seq, Time: answer.Instant(each.e.Time)},
			p.Namespace + "/" + p.Name, p.Outcome.String(), p.Node}
		var err error
		if fields[i], err = c.fieldsOfDecision(each.s, each.e); err != nil {
			return nil, fmt.Errorf("%s: %w", each.s.Name, err)
		}
	}
	if a == nil || b == nil {
		return &d, nil
	}
	others := maps.Clone(fields[0])
	maps.Copy(others, fields[1])
	for _, field := range slices.Concat(decisive, slices.Sorted(maps.Keys(others))) {
		x, y := textOf(fields[0][field]), textOf(fields[1][field])
		if x != y {
			d.Field, d.ValueA, d.ValueB = field, x, y
			return &d, nil
		}
	}
	return nil, nil
}

// decisive are the fields that are compared first: a difference in one of them explains the others.
var decisive = []string{"pod", "outcome", "node", "time"}

// fieldsOfDecision returns the fields of a Decision in their JSON form, without numbers and UIDs that differ from log
// to log.
func (c *comparison) fieldsOfDecision(s *side, e *eventlog.Entry) (map[string]any, error) {
	text, err := eventlog.AppendNamedJSON(nil, *e, func(uid types.UID) string { return s.names[uid] })
	if err != nil {
		return nil, err
	}
	var entry struct {
		Time     any            `json:"time"`
		Decision map[string]any `json:"decision"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&entry); err != nil {
		return nil, err
	}
	fields := entry.Decision
	for _, field := range []string{"cycle", "allowed", "rejected", "victims", "activated"} {
		delete(fields, field)
	}
	dropUIDs(fields)
	fields["time"] = entry.Time
	if c.relative {
		delete(fields, "waitUntil")
		fields["time"] = time.Duration(s.timeOf(answer.Point{Time: answer.Instant(e.Time)}, true)).String()
	}
	return fields, nil
}

// dropUIDs removes the UIDs of pods below a value of JSON: their names are beside them.
func dropUIDs(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "uid")
		delete(v, "order")
		// any order: each is changed alone
		for _, each := range v {
			dropUIDs(each)
		}
	case []any:
		for _, each := range v {
			dropUIDs(each)
		}
	}
}
