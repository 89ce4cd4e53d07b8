package scheduler_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

const packingProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 1
`

const strictProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
` + strictProfiles

const strictProfiles = `
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args:
      queuePolicy: StrictFIFO
`

const backfillProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args:
      queuePolicy: Backfill
      backfillHoldSeconds: 30
`

const earlyProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
featureGates: {SchedulerPopFromBackoffQ: true}
`

const approvingProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    permit:
      enabled:
      - name: Approval
`

// racksProfile has a plugin that keeps its reservations in its own memory.
const racksProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: RackLimit
`

// TestInvariantsHoldInGeneratedHistories plays generated histories on a Machine and checks, after every entry,
// what must always hold against books of its own. Each kind of history is played rapid.checks times (100);
// for a soak run: go test ./scheduler -run TestInvariantsHoldInGeneratedHistories -rapid.checks=2300.
func TestInvariantsHoldInGeneratedHistories(t *testing.T) {
	fixedseed.Checks(t, 50)
	// any order: the histories have nothing to do with each other
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := encodedConfig(t, shape.config)
			rapid.Check(t, func(t *rapid.T) {
				h := newHistory(t, shape, config)
				h.live()
				h.end()
				h.replay()
			})
		})
	}
}

// shapes are the kinds of histories, by name.
func shapes() map[string]shape {
	one, two := []string{"default-scheduler"}, []string{"default-scheduler", "packer", "somebody-else"}
	return map[string]shape{
		"Alone":                      {schedulers: one},
		"BesideOthers":               {schedulers: one, foreign: true},
		"Interrupted":                {schedulers: one, interrupts: true},
		"InterruptedBesideOthers":    {schedulers: one, interrupts: true, foreign: true},
		"TwoProfilesBesideOthers":    {schedulers: two, config: packingProfile, foreign: true},
		"TwoProfilesAndInterruption": {schedulers: two, config: packingProfile, interrupts: true},
		"StrictFIFO":                 {schedulers: one, config: strictProfile, foreign: true},
		"StrictFIFOComposites":       {schedulers: one, config: strictProfile, composites: true, interrupts: true},
		"PolicyChanges": {
			schedulers: one,
			others:     []string{strictProfile, backfillProfile},
			composites: true,
			durations:  true,
			foreign:    true,
		},
		"Backfill":              {schedulers: one, config: backfillProfile, foreign: true, durations: true},
		"BackfillInterrupted":   {schedulers: one, config: backfillProfile, interrupts: true, durations: true},
		"Topology":              {schedulers: one, topology: true, foreign: true},
		"TopologyInterrupted":   {schedulers: one, topology: true, composites: true, interrupts: true},
		"Composites":            {schedulers: one, composites: true, foreign: true},
		"CompositesInterrupted": {schedulers: two, config: packingProfile, composites: true, interrupts: true},
		"Crowded":               {schedulers: one, crowded: true},
		"CrowdedAndInterrupted": {schedulers: one, crowded: true, interrupts: true},
		"CrowdedComposites":     {schedulers: one, crowded: true, composites: true, foreign: true},
		"CrowdedTopology":       {schedulers: one, crowded: true, topology: true},
		"CrowdedBackfill":       {schedulers: one, config: backfillProfile, crowded: true, durations: true},
		"EarlyAttempts":         {schedulers: one, config: earlyProfile, composites: true, interrupts: true},
		"CrowdedEarlyAttempts":  {schedulers: one, others: []string{earlyProfile}, crowded: true, foreign: true},
		"TwoPermitPlugins":      {schedulers: one, config: approvingProfile, foreign: true, approval: true},
		"RackLimit":             {schedulers: one, config: racksProfile, foreign: true, racks: true},
		"RackLimitAndInterruption": {schedulers: one, config: racksProfile, interrupts: true, racks: true,
			others: []string{approvingProfile}},
		"Extenders": {schedulers: one, config: extendersProfile, extenders: true, interrupts: true},
		"ExtendersComposites": {schedulers: one, config: extendersProfile, extenders: true, composites: true,
			foreign: true},
		"ExtendersCrowded":          {schedulers: one, config: extendersProfile, extenders: true, crowded: true},
		"ExtendersStrictFIFO":       {schedulers: one, config: extendersProfile + strictProfiles, extenders: true},
		"TwoPermitsAndInterruption": {schedulers: one, config: approvingProfile, interrupts: true, approval: true},
	}
}

func encodedConfig(t *testing.T, text string) []byte {
	t.Helper()
	cfg := framework.DefaultConfig()
	if text != "" {
		var err error
		if cfg, err = framework.LoadConfig([]byte(text), "config"); err != nil {
			t.Fatal(err)
		}
	}
	config, err := framework.EncodeConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// history is a Machine with its inputs and effects, and the naive books.
type history struct {
	t     *rapid.T
	shape shape
	m     *scheduler.Machine

	configs  [][]byte // the one that it began with, one that differs in its backoff, and others
	policy   string   // the queue policy of the running epoch
	epoch    uint64
	now      eventlog.Time
	entries  []eventlog.Entry
	hashes   [][32]byte
	uids     int
	released uint64
	inflight []scheduler.Effect // given out, with no last word on them
	open     []types.UID        // pods about which extenders were asked, with no last word on them

	customs map[string]custom // by gang

	resting bool // extenders agree to all, at once
	rounds  int  // of their answers since the last rest

	books
}

func newHistory(t *rapid.T, shape shape, config []byte) *history {
	start := eventlog.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	h := &history{
		t:       t,
		shape:   shape,
		m:       scheduler.New(transcripts.Registry()),
		now:     start,
		customs: map[string]custom{},
		books:   newBooks(),
	}
	other, err := framework.LoadConfig(config, "config")
	h.must(err)
	other.PodMaxBackoffSeconds = 4
	changed, err := framework.EncodeConfig(other)
	h.must(err)
	h.configs = [][]byte{config, changed}
	for _, text := range shape.others {
		cfg, err := framework.LoadConfig([]byte(text), "config")
		h.must(err)
		config, err := framework.EncodeConfig(cfg)
		h.must(err)
		h.configs = append(h.configs, config)
	}
	h.take(h.started(0))
	return h
}

func (h *history) started(config int) *eventlog.EpochStarted {
	return &eventlog.EpochStarted{
		ID:        "an epoch",
		Version:   "test",
		Format:    eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour,
		Config:    h.configs[config],
	}
}

// startAgain begins another epoch, with the same configuration or another.
func (h *history) startAgain() {
	h.step(h.started(rapid.IntRange(0, len(h.configs)-1).Draw(h.t, "config")))
}

// live lets the world change for a while.
func (h *history) live() {
	actions := map[string]func(*rapid.T){}
	add := func(weight int, name string, action func()) {
		for i := range weight {
			actions[fmt.Sprintf("%s %d", name, i)] = func(*rapid.T) { action() }
		}
	}
	add(3, "join node", h.joinNode)
	add(1, "cordon node", h.cordonNode)
	add(1, "lose node", h.loseNode)
	add(2, "declare group", h.declareGroup)
	add(1, "withdraw group", h.withdrawGroup)
	add(4, "create gang", h.createGang)
	add(2, "create pod", h.createPod)
	add(1, "ungate pod", h.ungatePod)
	add(1, "terminate pod", h.terminatePod)
	add(1, "finish pod", h.finishPod)
	add(1, "relabel pod", h.relabelPod)
	add(1, "resize pod", h.resizePod)
	add(2, "delete pod", h.deletePod)
	add(5, "bind comes back", h.bindComesBack)
	add(2, "eviction comes back", h.evictionComesBack)
	add(3, "time passes", h.timePasses)
	if h.shape.extenders {
		add(9, "extenders answer", h.extendersAnswer)
	}
	add(1, "start again", h.startAgain)
	if h.shape.composites {
		add(2, "declare composite", h.declareComposite)
		add(1, "withdraw composite", h.withdrawComposite)
	}
	if h.shape.crowded {
		h.fillUp()
		add(9, "fill up", h.fillUp)
		add(5, "urge", h.urge)
		add(9, "create another gang", h.createGang)
		add(5, "leave", func() { h.finishLeaving() })
	}
	if h.shape.foreign {
		add(1, "bind outside", h.bindOutside)
		add(1, "shrink node", h.shrinkNode)
	}
	h.t.Repeat(actions)
}

// queuePolicy is the policy of a configuration, "" for the default.
func queuePolicy(config []byte) string {
	for _, policy := range []string{"StrictFIFO", "Backfill"} {
		if bytes.Contains(config, []byte(policy)) {
			return policy
		}
	}
	return ""
}

// step takes inputs in as the engine does: all of them, then decisions until nothing is left. An interrupted
// step ends before, as one does whose process is killed after a part of its entries was durable.
func (h *history) step(inputs ...eventlog.Payload) {
	for _, input := range inputs {
		h.take(input)
	}
	atMost := -1
	if h.shape.interrupts && h.chance(30, "interrupted") {
		atMost = rapid.IntRange(0, 4).Draw(h.t, "decisions")
	}
	idle := false
	for n := 0; n != atMost; n++ {
		if n > 1000 {
			h.fatalf("more than %d decisions without an input between them", n)
		}
		d, ok := h.m.Decide(nil)
		if !ok {
			idle = true
			break
		}
		h.take(&d)
	}
	h.inflight = append(h.inflight, binds(h.m.EffectsAfter(h.released))...)
	h.released = h.m.Seq()
	if idle {
		h.checkIdle()
	}
	if h.resting {
		h.extendersAgree()
	}
}

// take makes p the next entry, of the Machine and of the books, and checks all that must hold after it.
func (h *history) take(p eventlog.Payload) {
	if up, ok := p.(*eventlog.Upserted); ok {
		obj, err := eventlog.Canonical(up.Resource, eventlog.Trim(up.Resource, up.Object))
		h.must(err)
		up.Object = obj
	}
	if started, ok := p.(*eventlog.EpochStarted); ok {
		if h.m.Queue() != nil && !framework.SameConfig(h.m.Config(), started.Config) {
			clear(h.questions)
			clear(h.preemptions)
		}
		h.epoch++
		h.policy = queuePolicy(started.Config)
	}
	if d, ok := p.(*eventlog.Decision); ok {
		if h.checkMayAsk(d); h.policy == "StrictFIFO" {
			h.checkTurn(d)
		}
	}
	e := eventlog.Entry{Seq: h.m.Seq() + 1, Epoch: h.epoch, Time: h.now, Payload: p}
	h.must(h.m.Apply(e))
	h.entries = append(h.entries, e)
	h.hashes = append(h.hashes, h.m.Hash())
	h.enter(p)
	h.checkPods()
	h.checkGroups()
	h.checkQueue()
	h.checkEffects()
	h.checkNominations()
	h.checkAsking()
}

// end lets the world come to rest: what fits must then be placed, first among all others, then without its
// largest member, then by itself.
func (h *history) end() {
	h.shape.interrupts = false
	if h.shape.extenders {
		h.forgive()
	}
	h.rest()
	h.checkPlaced()
	h.largestGiveWay()
	h.rest()
	h.checkPlaced()
	for len(h.pending()) > 0 {
		name, _ := pick(h, h.pending(), "left alone")
		h.clearAllBut(name)
		h.rest()
		h.checkPlaced()
		h.clearAllBut("")
	}
}

// rest confirms all binds and lets time pass until it makes no more work, half a minute at the most.
func (h *history) rest() {
	h.rounds = 0
	h.confirmBinds()
	h.finishLeaving()
	for until, n := h.now.Add(30*time.Second), 0; ; {
		wake, ok := h.m.Wake()
		if !ok || eventlog.TimeOf(wake) > until {
			break
		}
		h.now = eventlog.TimeOf(wake)
		h.step(&eventlog.Tick{})
		h.confirmBinds()
		if h.finishLeaving() {
			until = h.now.Add(30 * time.Second) // there is news for the pods that remain
			if n++; n > 30 {
				h.fatalf("pods are evicted without end")
			}
		}
	}
	h.checkClaims()
}

// largestGiveWay deletes, of every gang, the pending member that wants the most.
func (h *history) largestGiveWay() {
	var inputs []eventlog.Payload
	pending := h.pending()
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		p := slices.MaxFunc(pending[name], func(a, b *bookedPod) int {
			return cmp.Compare(requests(a.object)[0], requests(b.object)[0])
		}).object
		inputs = append(
			inputs,
			&eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: p.Name, UID: p.UID},
		)
	}
	h.step(inputs...)
}

// clearAllBut deletes the pods that are not of the gang, or the pod, of that name.
func (h *history) clearAllBut(name string) {
	var inputs []eventlog.Payload
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		if p := h.pods[uid]; h.entity(p) != name {
			inputs = append(
				inputs,
				&eventlog.Deleted{Resource: eventlog.Pods, Namespace: namespace, Name: p.object.Name, UID: uid},
			)
		}
	}
	h.step(inputs...)
}

// replay reads the entries through the codec into a Machine that decides them all again, and into one that
// never decides.
func (h *history) replay() {
	again, follower := scheduler.New(transcripts.Registry()), scheduler.New(transcripts.Registry())
	var rec, decided []byte
	for i, e := range h.entries {
		var err error
		rec, err = eventlog.AppendRecord(rec[:0], e, [32]byte{})
		h.must(err)
		read, _, err := eventlog.DecodeRecord(rec)
		h.must(err)
		if _, ok := read.Payload.(*eventlog.Decision); ok {
			d, ok := again.Decide(nil)
			if !ok {
				h.fatalf("entry %d is not decided on replay", e.Seq)
			}
			if i%16 == 0 {
				h.checkTraced(again, &d)
			}
			decided, err = eventlog.AppendRecord(
				decided[:0],
				eventlog.Entry{Seq: e.Seq, Epoch: e.Epoch, Time: e.Time, Payload: &d},
				[32]byte{},
			)
			h.must(err)
			if !bytes.Equal(rec, decided) {
				h.fatalf("entry %d is decided as %+v on replay, recorded %+v", e.Seq, d, read.Payload)
			}
		}
		h.must(again.Apply(read))
		h.must(follower.Apply(read))
		if again.Hash() != h.hashes[i] || follower.Hash() != h.hashes[i] {
			h.fatalf("after entry %d the state differs on replay", e.Seq)
		}
	}
}

// checkTraced decides once more with a trace, which changes nothing and has all that the decision counts.
func (h *history) checkTraced(m *scheduler.Machine, d *eventlog.Decision) {
	trace := &framework.Trace{}
	traced, ok := m.Decide(trace)
	if diff := gocmp.Diff(*d, traced); !ok || diff != "" {
		h.fatalf("cycle %d is decided otherwise with a trace (- without, + with):\n%s", d.Cycle, diff)
	}
	if wrong := wrongTrace(d, trace); wrong != "" {
		h.fatalf("cycle %d: %s\n%+v\n%+v", d.Cycle, wrong, d, trace)
	}
}

func (h *history) must(err error) {
	if err != nil {
		h.fatalf("%v", err)
	}
}

// fatalf tells what happened, and then what is wrong.
func (h *history) fatalf(format string, args ...any) {
	var b strings.Builder
	for _, e := range h.entries {
		fmt.Fprintf(&b, "\n%d %s %s", e.Seq, e.Time.Std().Format("15:04:05.000"), describe(e.Payload))
	}
	h.t.Fatalf("%s\n%s", b.String(), fmt.Sprintf(format, args...))
}

func describe(p eventlog.Payload) string {
	switch p := p.(type) {
	case *eventlog.Upserted:
		switch obj := p.Object.(type) {
		case *v1.Node:
			return fmt.Sprintf(
				"node %s %v cordoned=%v",
				obj.Name,
				amountsOf(obj.Status.Allocatable),
				obj.Spec.Unschedulable,
			)
		case *v1.Pod:
			return fmt.Sprintf(
				"pod %s (%s) %v group=%s labels=%v annotations=%v node=%q gates=%d deleted=%v priority=%d "+
					"scheduler=%s phase=%s",
				obj.Name,
				obj.UID,
				requests(obj),
				groupOf(
					obj,
				),
				obj.Labels,
				obj.Annotations,
				obj.Spec.NodeName,
				len(obj.Spec.SchedulingGates),
				obj.DeletionTimestamp != nil,
				ptr.Deref(obj.Spec.Priority, 0),
				obj.Spec.SchedulerName,
				obj.Status.Phase,
			)
		default:
			return fmt.Sprintf("%s %s %+v", p.Resource, obj.GetName(), declaredBy(obj))
		case *schedulingv1alpha3.CompositePodGroup:
			return fmt.Sprintf("%s %s %+v", p.Resource, obj.Name, composedBy(obj))
		}
	case *eventlog.Deleted:
		return fmt.Sprintf("deleted %s %s %s", p.Resource, p.Name, p.UID)
	case *eventlog.Decision:
		return fmt.Sprintf(
			"cycle %d: %s %s %s %v allowed=%v rejected=%v victims=%v nominated=%q %v",
			p.Cycle,
			p.UID,
			p.Outcome,
			p.Node,
			p.Rejections,
			p.Allowed,
			p.Rejected,
			p.Victims,
			p.Nominated,
			p.Nominations,
		)
	case *eventlog.BindResult:
		return fmt.Sprintf("%s to %s: %s", p.UID, p.Node, p.Outcome)
	}
	return p.Kind().String()
}
