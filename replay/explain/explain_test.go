package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/replay/replaytest"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// TestExplanations plays the stories in testdata. With -rewrite it writes down what is said now; read it as
// someone would who was just woken up.
//
// Commands:
//
//	config                             the KubeSchedulerConfiguration that stands below, before the first log
//	log [binds=keep]           takes in what stands below, line by line, deciding after each; binds are
//	                           answered at once, unless they are kept
//	pod|group NS/NAME [at=SEQ] [after=DURATION] [from=SEQ] [runnersup=N] [json|reason|history]
//	                                   from: what is known begins behind that entry; reason, history: only that, as JSON
//
// The lines of a log are those of replaytest.Story.Line.
func TestExplanations(t *testing.T) {
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if s == nil {
				s = newStoryWith(t, configurationOf(d))
			}
			s.T = t
			switch d.Cmd {
			case "config":
				return "ok"
			case "log":
				return s.write(d)
			case "pod", "group":
				return s.ask(d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

// story is a log that is asked for explanations.
type story struct{ *replaytest.Story }

func newStory(t *testing.T) *story { return newStoryWith(t, "") }

// newStoryWith starts a story with a configuration, "" for the default one.
func newStoryWith(t *testing.T, configuration string) *story {
	return &story{replaytest.NewStoryWith(t, configuration)}
}

func (s *story) write(d *datadriven.TestData) string {
	s.KeepBinds = d.HasArg("binds")
	for line := range strings.Lines(d.Input) {
		if words := strings.Fields(line); len(words) > 0 {
			s.Line(words[0], words[1], words[2:])
		}
	}
	last, err := s.Log.Last()
	s.Must(err)
	return fmt.Sprintf("%d entries", last)
}

func (s *story) ask(d *datadriven.TestData) string {
	opts := explain.Options{Registry: replaytest.Registry()}
	if d.HasArg("at") {
		d.ScanArgs(s.T, "at", &opts.AtSeq)
	}
	if d.HasArg("runnersup") {
		d.ScanArgs(s.T, "runnersup", &opts.RunnersUp)
	}
	if d.HasArg("after") {
		var after string
		d.ScanArgs(s.T, "after", &after)
		by, err := time.ParseDuration(after)
		s.Must(err)
		opts.AtTime = eventlog.TimeOf(replaytest.Start.Add(by))
	}
	if d.HasArg("from") {
		d.ScanArgs(s.T, "from", &opts.Base)
		opts.Restore = s.restore(opts.Base)
	}
	namespace, name, _ := strings.Cut(d.CmdArgs[0].Key, "/")
	var x any
	var err error
	if d.Cmd == "pod" {
		x, err = explain.Pod(context.Background(), s.Log.Read, namespace, name, opts)
	} else {
		x, err = explain.Group(context.Background(), s.Log.Read, namespace, name, opts)
		var missing *explain.NotFoundError
		if errors.As(err, &missing) && missing.Composite {
			x, err = explain.Composite(context.Background(), s.Log.Read, namespace, name, opts)
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	if d.HasArg("json") {
		b, err := json.MarshalIndent(x, "", " ")
		s.Must(err)
		return string(b)
	}
	if d.HasArg("history") {
		b, err := json.MarshalIndent(x.(*answer.Group).History, "", " ")
		s.Must(err)
		return string(b)
	}
	if d.HasArg("reason") {
		b, err := json.MarshalIndent(reasonOf(x), "", " ")
		s.Must(err)
		return string(b)
	}
	var b strings.Builder
	s.Must(writeText(&b, x))
	return b.String()
}

// writeText writes an answer for people.
func writeText(w io.Writer, x any) error {
	switch x := x.(type) {
	case *answer.Pod:
		return render.Pod(w, x)
	case *answer.Group:
		return render.Group(w, x)
	case *answer.Composite:
		return render.Composite(w, x)
	}
	return fmt.Errorf("%T is no answer", x)
}

func reasonOf(x any) *answer.Reason {
	if pod, ok := x.(*answer.Pod); ok {
		return pod.Reason
	}
	return x.(*answer.Group).Reason
}

// restore makes the state after an entry from the log, as a snapshot would.
func (s *story) restore(seq uint64) func(uint64) (*scheduler.Machine, error) {
	return func(uint64) (*scheduler.Machine, error) {
		m := scheduler.New(replaytest.Registry())
		for e, err := range s.Log.Read(1) {
			if err != nil || e.Seq > seq {
				return m, err
			}
			if err := m.Apply(e); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
}

func configurationOf(d *datadriven.TestData) string {
	if d.Cmd == "config" {
		return d.Input
	}
	return ""
}

// tampered reads s's log with every decision passed through change.
func (s *story) tampered(change func(*eventlog.Decision)) explain.Reader {
	return func(from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range s.Log.Read(from) {
				if d, ok := e.Payload.(*eventlog.Decision); ok {
					change(d)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestADecisionThatThisProgramWouldNotMakeIsExplainedAsRecordedAndSaysSo(t *testing.T) {
	s := newStory(t)
	s.Line("node", "n1", []string{"cpu=4"})
	s.Line("node", "n2", []string{"cpu=8"})
	s.Line("pod", "ml/a", []string{"cpu=1"})
	read := s.tampered(func(d *eventlog.Decision) { d.Node, d.Score = "n1", 1 })
	x, err := explain.Pod(context.Background(), stopAfter(read, 4+1), "ml", "a", explain.Options{Registry: replaytest.Registry()})
	if err != nil {
		t.Fatal(err)
	}
	d := x.Decision
	if d.Node != "n1" || d.Winner.Node != "n1" || x.Node != "n1" {
		t.Errorf("explained is %s with the scores of %s, not what was recorded", d.Node, d.Winner.Node)
	}
	if d.Diverged == nil || d.Diverged.Field != "node" {
		t.Errorf("the divergence is %+v, want one in node", d.Diverged)
	}
}

// stopAfter reads only the first n entries.
func stopAfter(read explain.Reader, n uint64) explain.Reader {
	return func(from uint64) iter.Seq2[eventlog.Entry, error] {
		return func(yield func(eventlog.Entry, error) bool) {
			for e, err := range read(from) {
				if e.Seq > n || !yield(e, err) {
					return
				}
			}
		}
	}
}

func TestWhatComesAfterThePointInQuestionDoesNotChangeTheAnswer(t *testing.T) {
	s := newStory(t)
	for _, line := range []string{
		"node n1 cpu=4", "node n2 cpu=2", "pod ml/a cpu=3", "group ml/g min=2", "pod ml/g-0 cpu=2 group=g",
		"pod ml/g-1 cpu=2 group=g", "wait 5s", "delete ml/a", "wait 20s", "pod ml/b cpu=1", "delete ml/g-0", "pod ml/a cpu=1",
	} {
		words := strings.Fields(line)
		s.Line(words[0], words[1], words[2:])
	}
	last, err := s.Log.Last()
	if err != nil {
		t.Fatal(err)
	}
	said := func(read explain.Reader, at uint64) string {
		opts := explain.Options{Registry: replaytest.Registry(), AtSeq: at}
		pod, podErr := explain.Pod(context.Background(), read, "ml", "a", opts)
		group, groupErr := explain.Group(context.Background(), read, "ml", "g", opts)
		b, err := json.Marshal([]any{pod, group})
		s.Must(err)
		return fmt.Sprintf("%s %t %t", b, errors.Is(podErr, explain.ErrNotFound), errors.Is(groupErr, explain.ErrNotFound))
	}
	for at := uint64(1); at <= last; at++ {
		if whole, cut := said(s.Log.Read, at), said(stopAfter(s.Log.Read, at), at); whole != cut {
			t.Errorf("at entry %d the whole log gives\n%s\nthe log up to there\n%s", at, whole, cut)
		}
	}
}

func TestACancelledExplanationEndsWithTheContextsError(t *testing.T) {
	s := newStory(t)
	s.Line("pod", "ml/a", []string{"cpu=1"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := explain.Pod(ctx, s.Log.Read, "ml", "a", explain.Options{Registry: replaytest.Registry()}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
