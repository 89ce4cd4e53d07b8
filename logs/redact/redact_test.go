package redact

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
	"github.com/rollcall-sched/rollcall/test/compat"
)

// memory is a log whose entries are in memory.
type memory struct {
	entries  []eventlog.Entry
	registry framework.Registry
}

func (m *memory) Read(_ context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, e := range m.entries {
			if e.Seq >= from && !yield(e, nil) {
				return
			}
		}
	}
}

func (m *memory) RecordHash(context.Context, uint64) ([32]byte, error) { return [32]byte{1}, nil }
func (m *memory) Registry() framework.Registry                         { return m.registry }
func (m *memory) Progress(string, uint64, uint64)                      {}

func load(t *testing.T, l *compat.Log) *memory {
	t.Helper()
	m := &memory{registry: l.Registry}
	for e, err := range l.Entries(t.Context(), l.First) {
		if err != nil {
			t.Fatal(err)
		}
		e.Encoding = eventlog.Encoding{}
		m.entries = append(m.entries, e)
	}
	return m
}

// planFrom returns the plan of the entries behind a state.
func (m *memory) planFrom(t *testing.T, state *scheduler.Machine) *bundle.Plan {
	t.Helper()
	plan := &bundle.Plan{First: 1, Last: m.entries[len(m.entries)-1].Seq}
	if state == nil {
		return plan
	}
	data, err := snapshot.Encode(state, [32]byte{2})
	if err != nil {
		t.Fatal(err)
	}
	plan.First, plan.Snapshot, plan.Config = state.Seq()+1, data, state.Config()
	return plan
}

// result is a redacted log, and what it was made from.
type result struct {
	*Redaction
	plan    *bundle.Plan
	entries []eventlog.Entry
	// raw has all its bytes: the state and the records, unpacked.
	raw []byte
	// of has the pseudonyms by their texts.
	of map[string]string
}

func redacted(t *testing.T, m *memory, plan *bundle.Plan) (*result, error) {
	t.Helper()
	r, err := Redact(t.Context(), m, plan, Options{Key: []byte("a key for tests only"), At: "2026-01-01T00:00:00Z",
		Dir: t.TempDir(), KeepLabels: []string{"approval", "fault", "gated", "opens"}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { r.Close() })
	out := &result{Redaction: r, plan: plan, of: map[string]string{"": ""}}
	for _, one := range r.Names() {
		out.of[one.Text] = one.Pseudonym
	}
	for rec, err := range r.log.Records(t.Context(), plan.First) {
		if err != nil {
			t.Fatal(err)
		}
		out.raw = append(out.raw, rec.Bytes...)
	}
	for e, err := range r.log.Read(t.Context(), plan.First) {
		if err != nil {
			t.Fatal(err)
		}
		out.entries = append(out.entries, e)
	}
	if len(plan.Snapshot) > 0 {
		zip, err := gzip.NewReader(bytes.NewReader(plan.Snapshot[108:]))
		if err != nil {
			t.Fatal(err)
		}
		zip.Multistream(false)
		state, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		out.raw = append(out.raw, state...)
	}
	return out, nil
}

// restored returns the state of a snapshot, nil for none.
func restored(t *testing.T, data []byte, registry framework.Registry) *scheduler.Machine {
	t.Helper()
	if len(data) == 0 {
		return nil
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Restore(registry)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func seqOf(entries []eventlog.Entry) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestLogsOfEveryKindAreDecidedTheSameWithPseudonyms redacts the logs and stories of package compat, as a whole and
// from the middle on. A replay of the result must be as identical as the log's. Its decisions must be the recorded ones
// by other names. No text of the log may be left.
func TestLogsOfEveryKindAreDecidedTheSameWithPseudonyms(t *testing.T) {
	decisions := uint64(0)
	compat.Each(t, "../../test/compat/testdata", func(t *testing.T, l *compat.Log) {
		m := load(t, l)
		plan := m.planFrom(t, restored(t, l.Snapshots[l.First-1], l.Registry))
		for range 2 {
			before := slices.Clone(plan.Snapshot)
			entries := m.entries[plan.First-m.entries[0].Seq:]
			r, err := redacted(t, m, plan)
			if err != nil && len(before) > 0 && strings.Contains(err.Error(), "a plugin keeps a state of its own") {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			decisions += r.Report.Decisions
			wantSameReplay(t, m, r, before)
			wantSameDecisions(t, entries, r)
			wantNoText(t, m.entries, r)
			if plan = m.fromTheMiddle(t, before); plan == nil {
				return
			}
		}
	})
	if decisions < 1000 {
		t.Errorf("%d decisions were compared: want more", decisions)
	}
}

// fromTheMiddle returns the plan of the second half of the entries behind a snapshot; nil if there is no state then.
func (m *memory) fromTheMiddle(t *testing.T, before []byte) *bundle.Plan {
	t.Helper()
	state := restored(t, before, m.registry)
	if state == nil {
		state = scheduler.New(m.registry)
	}
	for _, e := range m.entries[state.Seq()+1-m.entries[0].Seq : len(m.entries)/2] {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if state.Epoch() == 0 || state.Restorable() != nil {
		return nil
	}
	return m.planFrom(t, state)
}

// wantSameReplay compares the replays of a log and of its redacted form.
func wantSameReplay(t *testing.T, m *memory, r *result, before []byte) {
	t.Helper()
	options := func(state []byte) replay.Options {
		return replay.Options{Registry: m.registry, Start: restored(t, state, m.registry)}
	}
	was, err := replay.Verify(t.Context(), seqOf(m.entries[r.plan.First-m.entries[0].Seq:]), options(before))
	if err != nil {
		t.Fatal(err)
	}
	is, err := replay.Verify(t.Context(), seqOf(r.entries), options(r.plan.Snapshot))
	if err != nil {
		t.Fatal(err)
	}
	if is.Diverged != was.Diverged || is.Undecided != was.Undecided || is.Decisions != was.Decisions {
		t.Errorf("replay: %d of %d decisions diverge, and %d of %d before: %v", is.Diverged, is.Decisions, was.Diverged,
			was.Decisions, is.Divergences)
	}
}

// wantSameDecisions compares decisions, by a map from texts to pseudonyms.
func wantSameDecisions(t *testing.T, entries []eventlog.Entry, r *result) {
	t.Helper()
	if len(entries) != len(r.entries) {
		t.Fatalf("%d entries of %d", len(r.entries), len(entries))
	}
	uids := func(list []types.UID) (out []string) {
		for _, uid := range list {
			out = append(out, r.of[string(uid)])
		}
		return out
	}
	plain := func(list []types.UID) (out []string) {
		for _, uid := range list {
			out = append(out, string(uid))
		}
		return out
	}
	codes := func(list []eventlog.Rejection) (out []string) {
		for _, one := range list {
			out = append(out, fmt.Sprint(one.Plugin, one.Code, one.Nodes))
		}
		slices.Sort(out)
		return out
	}
	for i, e := range entries {
		was, ok := e.Payload.(*eventlog.Decision)
		if !ok {
			continue
		}
		is, ok := r.entries[i].Payload.(*eventlog.Decision)
		if !ok || r.of[was.Name] != is.Name || r.of[was.Node] != is.Node || r.of[was.Group] != is.Group ||
			r.of[was.Nominated] != is.Nominated || was.Outcome != is.Outcome || was.Score != is.Score ||
			was.Feasible != is.Feasible || was.WaitUntil != is.WaitUntil ||
			!slices.Equal(uids(was.Victims), plain(is.Victims)) ||
			!slices.Equal(uids(was.Allowed), plain(is.Allowed)) ||
			!slices.Equal(codes(was.Rejections), codes(is.Rejections)) {
			t.Errorf("entry %d: the decision\n%+v\nhas become\n%+v", e.Seq, was, r.entries[i].Payload)
		}
	}
}

// keptNames are the fields of the JSON form of entries whose texts are kept, each with everything below it.
var keptNames = set("kind", "resource", "outcome", "time", "operator", "effect", "key", "topologyKey",
	"whenUnsatisfiable",
	"apiVersion", "version", "config", "plugin", "code", "reason", "waitFor", "phase", "type", "status",
	"creationTimestamp", "deletionTimestamp", "startTime", "protocol", "accessModes", "driver", "provisioner",
	"volumeBindingMode", "volumeMode", "allocationMode", "expression", "preemptionPolicy", "restartPolicy",
	"matchLabelKeys", "attacher", "declaredFeatures", "extendedResourceName", "resourceName", "apiGroup",
	"allocationTimestamp", "bindingConditions", "bindingFailureConditions", "ended", "medium", "result",
	"requiredTopologyLevel", "preferredTopologyLevel", "rollcall.dev/topology-required",
	"rollcall.dev/topology-preferred", "rollcall.dev/below-minimum", "gang.scheduling.koordinator.sh/mode",
	"gang.scheduling.koordinator.sh/match-policy", "distinctAttribute",
	"matchAttribute", "preemptibility", "mode", "hostIP", "pv.kubernetes.io/provisioned-by",
	"pv.kubernetes.io/migrated-to", "approval", "fault", "gated",
	"opens")

// messageWords are words of plugins' reasons that are names in some story.
var messageWords = set("must", "ports", "extended", "container", "memory")

// wantNoText searches all bytes of the redacted log for the texts of the log that are not kept.
func wantNoText(t *testing.T, entries []eventlog.Entry, r *result) {
	t.Helper()
	texts, kept := map[string]string{}, []byte{}
	for _, e := range entries { // the whole log, also for a part of it
		line, err := eventlog.AppendJSON(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(line, &tree); err != nil {
			t.Fatal(err)
		}
		textsOf(tree, "", texts, &kept)
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if len(text) < 4 || plainValue.MatchString(text) || quantity.MatchString(text) ||
			madeRequest.MatchString(text) || messageWords[text] || wordIn(kept, text) >= 0 {
			continue
		}
		if at := wordIn(r.raw, text); at >= 0 {
			t.Errorf("%q, which is in %s, is left: %q", text, texts[text],
				r.raw[max(0, at-60):min(len(r.raw), at+60)])
		}
	}
}

// textsOf collects the texts in a value of JSON, with the field that each is in. Into kept it puts keys, and texts that
// are kept, except reasons: they have names.
func textsOf(value any, field string, into map[string]string, kept *[]byte) {
	switch value := value.(type) {
	case string:
		into[value] = field
	case []any:
		for _, v := range value {
			textsOf(v, field, into, kept)
		}
	case map[string]any:
		for key, v := range value {
			*kept = append(append(*kept, key...), ' ')
			switch {
			case !keptNames[key]:
				textsOf(v, field+"."+key, into, kept)
			case key != "reason":
				text, _ := json.Marshal(v)
				*kept = append(append(*kept, text...), ' ')
			}
		}
	}
}

// wordIn returns where a text is in bytes, -1 for nowhere. It is no part of a longer word there, unless the byte before
// it is its length.
func wordIn(raw []byte, text string) int {
	isLetter := func(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }
	for from := 0; ; {
		at := bytes.Index(raw[from:], []byte(text))
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(text)
		begins := at == 0 || !isLetter(raw[at-1]) || int(raw[at-1]) == len(text)
		if begins && (end == len(raw) || !isLetter(raw[end])) {
			return at
		}
		from = at + 1
	}
}

// TestADecisionThatANameMadeIsFound redacts logs of plugins of others that read the value of a label. The error must
// name the entry, the pod and the field. With the label kept they are redacted.
func TestADecisionThatANameMadeIsFound(t *testing.T) {
	found := 0
	compat.Each(t, "../../test/compat/testdata", func(t *testing.T, l *compat.Log) {
		if !strings.Contains(t.Name(), "stories/backfill-") || l.First != 1 {
			return
		}
		m := load(t, l)
		_, err := Redact(t.Context(), m, m.planFrom(t, nil),
			Options{Key: []byte("a key for tests only"), Dir: t.TempDir()})
		var differs *DiffersError
		switch {
		case err == nil:
		case !errors.As(err, &differs):
			t.Errorf("error %v", err)
		default:
			found++
			e := m.entries[differs.Seq-1]
			d, ok := e.Payload.(*eventlog.Decision)
			if !ok || differs.Pod != d.Namespace+"/"+d.Name || differs.Field == "" {
				t.Errorf("%+v is not about entry %d: %+v", differs, e.Seq, e.Payload)
			}
		}
	})
	if found == 0 {
		t.Error("every story could be redacted: want one whose plugin reads a label")
	}
}

// TestOnlyNamesThatKeepTheirOrderDecideTheSame turns the order of pseudonyms round: the comparison finds that.
func TestOnlyNamesThatKeepTheirOrderDecideTheSame(t *testing.T) {
	l := incidentLog(t)
	plan := l.planFrom(t, nil)
	names := NewNames([]byte("a key for tests only"))
	w := newWalker(names)
	_, original, err := w.collect(t.Context(), l, plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := names.Assign(); err != nil {
		t.Fatal(err)
	}
	texts := slices.Sorted(maps.Keys(names.out))
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	for i, j := 0, len(texts)-1; i < j; i, j = i+1, j-1 {
		names.out[texts[i]], names.out[texts[j]] = names.out[texts[j]], names.out[texts[i]]
	}
	w.replace = true
	step := &lockstep{walker: w, original: original, redacted: scheduler.New(l.registry)}
	for _, e := range l.entries {
		if _, err = step.next(e); err != nil {
			break
		}
	}
	var differs *DiffersError
	if !errors.As(err, &differs) {
		t.Errorf("error %v: want a decision that differs", err)
	}
}

// incidentLog returns a log in which many nodes are equally good.
func incidentLog(t *testing.T) *memory {
	t.Helper()
	r := replaytest.Record(t, 1000)
	m := &memory{registry: plugins.NewRegistry()}
	for e, err := range r.Log.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		m.entries = append(m.entries, e)
	}
	return m
}
