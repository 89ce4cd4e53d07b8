package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/replay"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/sim/simulate"
)

// survivor is a simulation whose process dies, and that is resumed until it comes to its end. The tests compare its log
// on the way with the log of the same simulation left alone.
type survivor struct {
	nodes, workload string
	segmentSize     string
	withoutEffects  bool   // it reports no effects, and so need not wait for the disk
	log             string // the directory of its log
	whole           record // left alone
	summary         string
	took            time.Duration

	acknowledged map[uint64][]simulate.EffectLine // the reported effects, by decision
	before       []string                         // the log when the test last read it
}

// record has the parts of a result that do not depend on how often a simulation was stopped.
type record struct {
	told  []string
	state []byte
}

// newSurvivor runs the simulation alone. Its jobs are gangs of up to 12 that want more than the cluster has.
func newSurvivor(t testing.TB, jobs int, segmentSize string) *survivor {
	t.Helper()
	dir := t.TempDir()
	s := &survivor{
		nodes:        "4x8cpu",
		workload:     filepath.Join(dir, "jobs.swf"),
		segmentSize:  segmentSize,
		log:          filepath.Join(dir, "whole.db"),
		acknowledged: map[uint64][]simulate.EffectLine{},
	}
	var swf strings.Builder
	for i := range jobs {
		fmt.Fprintf(
			&swf,
			"%d %d -1 %d %d -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n",
			i+1,
			20*i+i%7,
			30+(i*37)%200,
			1+(i*5)%12,
		)
	}
	if err := os.WriteFile(s.workload, []byte(swf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p := s.start(t, s.command())
	if err := p.wait(); err != nil {
		t.Fatalf("the simulation alone: %v\n%s", err, p.stderr.String())
	}
	s.took = time.Since(began)
	s.acknowledge(t, p, math.MaxInt)
	s.summary = comparable(p.stdout.String())
	entries := s.look(t)
	s.whole = record{tellingOf(t, entries), stateOf(t, entries)}
	return s.fresh(t)
}

// fresh returns the same simulation, not begun.
func (s *survivor) fresh(t testing.TB) *survivor {
	t.Helper()
	again := *s
	again.log = filepath.Join(t.TempDir(), "log.db")
	again.acknowledged, again.before = map[uint64][]simulate.EffectLine{}, nil
	return &again
}

// args returns the arguments of the command that begins the simulation, or resumes it if it has left a log.
func (s *survivor) args() []string {
	args := []string{
		"simulate",
		"--nodes",
		s.nodes,
		"--workload",
		s.workload,
		"--log",
		s.log,
		"--segment-size",
		s.segmentSize,
	}
	if !s.withoutEffects {
		args = append(args, "--effects", "/dev/fd/3")
	}
	if _, err := os.Stat(s.log); err == nil {
		args = append(args, "--resume")
	}
	return args
}

func (s *survivor) command() *exec.Cmd { return exec.Command("rollcall", s.args()...) }

// process is a process of the simulation.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	effects        chan []byte // the lines with its effects; closed when it is gone
}

// start starts a command whose file 3 is a pipe, into which it writes the effects. Whatever is in the pipe has left the
// process, even if the process dies.
func (s *survivor) start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, effects: make(chan []byte, 1<<16)}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &p.stdout, &p.stderr, []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(p.effects)
		defer r.Close()
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return // a process that was killed can leave half a line: no one could have acted on it
			}
			p.effects <- line
		}
	}()
	return p
}

func (p *process) wait() error { return p.cmd.Wait() }

// acknowledge reads up to n lines with effects from the process, and waits for them unless it is gone.
func (s *survivor) acknowledge(t testing.TB, p *process, n int) {
	t.Helper()
	for range n {
		line, ok := <-p.effects
		if !ok {
			return
		}
		var e simulate.EffectLine
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the process told of %q: %v", line, err)
		}
		s.acknowledged[e.Seq] = append(s.acknowledged[e.Seq], e)
	}
}

// look checks the log as the process left it, and returns the entries.
func (s *survivor) look(t testing.TB) []eventlog.Entry {
	t.Helper()
	if _, err := os.Stat(s.log); errors.Is(err, fs.ErrNotExist) {
		if len(s.acknowledged) > 0 {
			t.Fatalf("there is no log, and effects were told of: %v", s.acknowledged)
		}
		return nil
	}
	if facts, stderr, code := verified(t, s.log); code != exitDone {
		t.Fatalf("log verify exits with %d: %+v\n%s", code, facts, stderr)
	}
	log, err := boltlog.OpenReadOnly(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var entries []eventlog.Entry
	for e, err := range log.Read(context.Background(), 1) { // which finds gaps
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	report, err := replay.Verify(
		context.Background(),
		log.Read(context.Background(), 1),
		replay.Options{Registry: plugins.NewRegistry()},
	)
	if err != nil || !report.Identical() {
		t.Fatalf("replay of what the process left: %v %v", err, report.Divergences)
	}
	if err := s.holds(t, entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// holds reports acknowledged facts that the entries lack: effects that the process wrote to the pipe, or entries that
// the log had before.
func (s *survivor) holds(t testing.TB, entries []eventlog.Entry) error {
	t.Helper()
	telling := recordsOf(t, entries)
	if len(telling) < len(s.before) || !slices.Equal(telling[:len(s.before)], s.before) {
		return fmt.Errorf("the log had %d entries, and now has %d, or other ones", len(s.before), len(telling))
	}
	s.before = telling
	asked := effectsOf(t, entries)
	for seq, lines := range s.acknowledged {
		for _, line := range lines {
			if !slices.Contains(asked[seq], line.Kind+" "+line.UID+" "+line.Node) {
				return fmt.Errorf(
					"%+v was carried out, and entry %d of the log, which ends with %d, does not ask for it",
					line,
					seq,
					len(entries),
				)
			}
		}
	}
	return nil
}

// wantSameEnd compares the end of a simulation with the end of the one left alone.
func (s *survivor) wantSameEnd(t testing.TB, summary string) {
	t.Helper()
	entries := s.look(t)
	got := tellingOf(t, entries)
	for i := range min(len(got), len(s.whole.told)) {
		if got[i] != s.whole.told[i] {
			t.Fatalf(
				"input or decision %d is not the one of the simulation left alone:\n%q\n%q",
				i+2,
				got[i],
				s.whole.told[i],
			)
		}
	}
	if len(got) != len(s.whole.told) {
		t.Fatalf("%d inputs and decisions, left alone %d", len(got), len(s.whole.told))
	}
	if !bytes.Equal(stateOf(t, entries), s.whole.state) {
		t.Fatal("the state at the end is not the one of the simulation left alone")
	}
	if got := comparable(summary); got != s.summary {
		t.Fatalf("the summary is\n%s\nleft alone\n%s", got, s.summary)
	}
	for seq := range effectsOf(t, entries) {
		if !s.withoutEffects && len(s.acknowledged[seq]) == 0 {
			t.Fatalf("entry %d asks for effects that were never carried out", seq)
		}
	}
}

// speed is the one line of a summary that differs each time.
var speed = regexp.MustCompile(`(?m)^decisions .*\n`)

func comparable(summary string) string { return speed.ReplaceAllString(summary, "") }

// effectsOf returns the effects that each entry asks for.
func effectsOf(t testing.TB, entries []eventlog.Entry) map[uint64][]string {
	t.Helper()
	m := scheduler.New(plugins.NewRegistry())
	asked := map[uint64][]string{}
	for _, e := range entries {
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
		for _, x := range m.EffectsAfter(e.Seq - 1) {
			kind := map[scheduler.EffectKind]string{scheduler.Bind: "Bind", scheduler.Evict: "Evict"}[x.Kind]
			asked[e.Seq] = append(asked[e.Seq], kind+" "+string(x.UID)+" "+x.Node)
		}
	}
	return asked
}

// recordsOf encodes entries, without the chain.
func recordsOf(t testing.TB, entries []eventlog.Entry) []string {
	t.Helper()
	var all []string
	for _, e := range entries {
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(rec))
	}
	return all
}

// tellingOf returns everything that a log tells except who wrote it. A writer that takes over begins an epoch, with an
// entry of its own. tellingOf leaves these entries out, and numbers the others as one writer would have numbered them.
func tellingOf(t testing.TB, entries []eventlog.Entry) []string {
	t.Helper()
	var kept []eventlog.Entry
	number := map[uint64]uint64{0: 0} // of an entry, without the epochs
	for _, e := range entries {
		if e.Kind() == eventlog.KindEpochStarted {
			continue
		}
		number[e.Seq] = uint64(len(kept)) + 2
		e.Seq, e.Epoch = number[e.Seq], 1
		if result, ok := e.Payload.(*eventlog.BindResult); ok {
			renumbered := *result
			renumbered.Decision = number[result.Decision]
			e.Payload = &renumbered
		}
		kept = append(kept, e)
	}
	return recordsOf(t, kept)
}

// stateOf returns the state after the entries, except the numbers of entries and epochs. These two numbers, behind the
// version and the behaviour at the beginning of the encoding, count the restarts, and nothing else may differ for them.
// (The state has the numbers of decisions only while effects are outstanding or pods wait: not at the end.)
func stateOf(t testing.TB, entries []eventlog.Entry) []byte {
	t.Helper()
	m := scheduler.New(plugins.NewRegistry())
	for _, e := range entries {
		if err := m.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.Effects()); n > 0 {
		t.Fatalf("%d effects are outstanding at the end", n)
	}
	all, err := m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	rest := all[1:]
	behaviour, n := binary.Uvarint(rest)
	if behaviour != uint64(m.Behaviour()) {
		t.Fatalf("the state begins with behaviour %d, want %d", behaviour, m.Behaviour())
	}
	rest = rest[n:]
	for _, want := range []uint64{m.Seq(), m.Epoch()} {
		got, n := binary.Uvarint(rest)
		if got != want {
			t.Fatalf("the state begins with %d, want %d", got, want)
		}
		rest = rest[n:]
	}
	return rest
}
