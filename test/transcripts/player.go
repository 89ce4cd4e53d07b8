package transcripts

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/restorecheck"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Start is the time at which a story starts.
var Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TB has the methods of a test that a Player needs. Both *testing.T and *rapid.T have them.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Player plays commands of the dialect into a Machine and a log in memory. It is not safe for concurrent use.
type Player struct {
	// KeepBinds leaves the binds of Step unanswered.
	KeepBinds bool

	t       TB
	machine *scheduler.Machine // nil before the first epoch
	log     *eventlog.Memory
	epoch   uint64
	now     eventlog.Time
	seen    uint64     // effects up to this entry have been printed or answered
	settled bool       // nothing was left to decide after the last step
	hashes  [][32]byte // of the state after each entry; kept for a story that is played from a file
	pods    int        // how many pods were made, for their UIDs
	file    bool
}

// New returns a Player. Its first epoch starts with the first command, with the default configuration unless that
// command is Configure or config.
func New(t TB) *Player {
	return &Player{t: t, log: eventlog.NewMemory(), now: eventlog.TimeOf(Start)}
}

// PlayFile plays the story of a file and returns its entries. The package comment lists the checks.
func PlayFile(t *testing.T, path string) []eventlog.Entry {
	p := New(t)
	p.file = true
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		p.t = t
		return p.play(d)
	})
	p.t = t
	entries := p.Entries()
	p.replay(entries)
	// In a long story only some of the restored Machines continue to the end: the time for all of them would be
	// quadratic.
	restorecheck.New(Registry(), t.Fatalf).Play(entries, 1, 1+len(entries)/100)
	p.writeLog(t, path, entries)
	return p.Entries()
}

// Configure starts an epoch with a KubeSchedulerConfiguration; "" means the default one.
func (p *Player) Configure(configuration string) {
	p.t.Helper()
	cfg := framework.DefaultConfig()
	if configuration != "" {
		var err error
		cfg, err = framework.LoadConfig([]byte(configuration), "config")
		p.must(err)
	}
	config, err := framework.EncodeConfig(cfg)
	p.must(err)
	if p.machine == nil {
		p.machine = scheduler.New(Registry())
	}
	p.epoch++
	p.settled = false
	id := fmt.Sprintf("epoch-%d", p.epoch)
	p.take(&eventlog.EpochStarted{ID: id, Version: "test", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: config}, false)
}

// Machine returns the state, to be read only.
func (p *Player) Machine() *scheduler.Machine {
	p.ensureEpoch()
	return p.machine
}

// Log returns the log, to be read only.
func (p *Player) Log() *eventlog.Memory {
	p.ensureEpoch()
	return p.log
}

// Entries returns the entries of the log, decoded again: they share nothing with the Machine.
func (p *Player) Entries() []eventlog.Entry {
	p.t.Helper()
	var all []eventlog.Entry
	for e, err := range p.Log().Read(context.Background(), 1) {
		p.must(err)
		all = append(all, e)
	}
	return all
}

// ensureEpoch starts the first epoch if there is none yet.
func (p *Player) ensureEpoch() {
	if p.machine == nil {
		p.Configure("")
	}
}

func (p *Player) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// play plays one block of a story and returns its output.
func (p *Player) play(d *datadriven.TestData) string {
	p.t.Helper()
	if d.Cmd == "config" {
		p.allow(d, 0)
		p.Configure(d.Input)
		return "ok"
	}
	p.ensureEpoch()
	return strings.TrimSuffix(p.command(d), "\n")
}

func (p *Player) command(d *datadriven.TestData) string {
	p.t.Helper()
	switch d.Cmd {
	case "decide":
		p.allow(d, 0)
		return p.decide(1)
	case "run":
		p.allow(d, 0)
		return p.decide(1000)
	case "step":
		p.allow(d, 0, "binds")
		p.KeepBinds = arg(d, "binds", "") == "unanswered"
		for line := range strings.Lines(d.Input) {
			p.Step(line)
		}
		return strconv.FormatUint(p.machine.Seq(), 10) + " entries"
	case "show":
		p.allow(d, 0)
		return p.show()
	case "wake":
		p.allow(d, 0)
		at, ok := p.machine.Wake()
		if !ok {
			return "never"
		}
		return "in " + eventlog.TimeOf(at).Sub(p.now).String()
	case "explain":
		return p.explain(d)
	case "advance":
		p.passTime(d)
		return p.enter(&eventlog.Tick{})
	}
	var b strings.Builder
	for i, payload := range p.inputs(d) {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.enter(payload))
	}
	return b.String()
}

// enter takes a payload in as the next entry and returns it as text.
func (p *Player) enter(payload eventlog.Payload) string {
	p.t.Helper()
	p.settled = false
	return p.print(p.take(payload, false))
}

// take appends a payload to the log and applies it.
func (p *Player) take(payload eventlog.Payload, settled bool) eventlog.Entry {
	p.t.Helper()
	if up, ok := payload.(*eventlog.Upserted); ok {
		encoder := eventlog.Encoder{Own: eventlog.NewOwnTrim(framework.LoggedPluginResources(p.machine.Config()))}
		logged, _, err := encoder.Logged(up)
		p.must(err)
		up.Object = logged.Object
	}
	last := p.machine.Seq()
	e := eventlog.Entry{Seq: last + 1, Epoch: p.epoch, Time: p.now, Settled: settled, Payload: payload}
	p.must(p.log.Append(context.Background(), last, []eventlog.Entry{e}))
	p.must(p.machine.Apply(e))
	if p.file {
		p.hashes = append(p.hashes, p.machine.Hash())
	}
	return e
}

func (p *Player) passTime(d *datadriven.TestData) {
	p.t.Helper()
	p.allow(d, 1)
	by, err := time.ParseDuration(d.CmdArgs[0].Key)
	p.must(err)
	p.now = p.now.Add(by)
}

// decide runs up to atMost cycles and prints them and their effects on the cluster.
func (p *Player) decide(atMost int) string {
	p.t.Helper()
	var b strings.Builder
	for range atMost {
		d, ok := p.machine.Decide(nil)
		if !ok {
			break
		}
		b.WriteString(p.enter(&d))
	}
	for _, x := range p.machine.EffectsAfter(p.seen) {
		writeEffect(&b, x)
	}
	p.seen = p.machine.Seq()
	if b.Len() == 0 {
		return "nothing to decide"
	}
	return b.String()
}

// Step plays a line of a step block: it enters the line's commands, decides until nothing is left, and answers binds
// unless they are kept.
func (p *Player) Step(line string) {
	p.t.Helper()
	p.ensureEpoch()
	var inputs []eventlog.Payload
	for command := range strings.SplitSeq(line, ";") {
		name, args, err := datadriven.ParseLine(command)
		p.must(err)
		d := &datadriven.TestData{Pos: strings.TrimSpace(line), Cmd: name, CmdArgs: args}
		switch name {
		case "":
			return
		case "advance":
			p.passTime(d)
		case "apply":
			p.t.Fatalf("%s: an object cannot follow in a step", line)
		default:
			inputs = append(inputs, p.inputs(d)...)
		}
	}
	p.step(inputs)
}

// PlayInputs plays inputs as Step plays the commands of a line.
func PlayInputs(p *Player, inputs ...eventlog.Payload) {
	p.t.Helper()
	p.ensureEpoch()
	p.step(inputs)
}

// mostDecisions is the largest number of decisions that may follow from one step of a story.
const mostDecisions = 10_000

// step acts on inputs as package engine does, and then as a cluster that binds at once.
func (p *Player) step(inputs []eventlog.Payload) {
	p.t.Helper()
	if len(inputs) == 0 {
		if wake, ok := p.machine.Wake(); ok && !wake.After(p.now.Std()) {
			inputs = []eventlog.Payload{&eventlog.Tick{}}
		} else if p.settled {
			return
		}
	}
	for i, input := range inputs {
		p.take(input, i == 0 && p.settled)
	}
	for n := 0; ; n++ {
		d, ok := p.machine.Decide(nil)
		if !ok {
			break
		}
		if n == mostDecisions {
			p.t.Fatalf("there is no end of decisions at one instant; the last one is %+v", d)
		}
		p.take(&d, false)
	}
	p.settled = true
	var answers []eventlog.Payload
	for _, x := range p.machine.EffectsAfter(p.seen) {
		if x.Kind == scheduler.Bind && !p.KeepBinds {
			answers = append(answers, p.bind(x))
		}
	}
	p.seen = p.machine.Seq()
	if len(answers) > 0 {
		p.step(answers)
	}
}

// bind binds a pod at once, unless a plugin refuses it.
func (p *Player) bind(x scheduler.Effect) *eventlog.BindResult {
	result := &eventlog.BindResult{UID: x.UID, Node: x.Node, Outcome: eventlog.BindBound, Decision: x.Seq}
	cycle := p.machine.BindingCycle(x.UID)
	if cycle == nil {
		return result
	}
	ctx := framework.WithoutLogger(context.Background())
	if _, status := cycle.Run(ctx, framework.InOrder); status != nil {
		framework.BindFailure(result, status)
		return result
	}
	cycle.PostBind(ctx)
	return result
}

// replay applies the entries to a Machine of its own: every state and every decision is the same.
func (p *Player) replay(entries []eventlog.Entry) {
	p.t.Helper()
	m := scheduler.New(Registry())
	for i, e := range entries {
		if d, ok := e.Payload.(*eventlog.Decision); ok {
			decided, ok := m.Decide(nil)
			if !ok || fmt.Sprintf("%+v", decided) != fmt.Sprintf("%+v", *d) {
				p.t.Fatalf("entry %d is decided as %+v on replay, recorded %+v", e.Seq, decided, *d)
			}
		}
		p.must(m.Apply(e))
		if m.Hash() != p.hashes[i] {
			p.t.Fatalf("after entry %d the replayed state differs", e.Seq)
		}
	}
}
