package transcripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/replay/explain"
	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/render"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// explain answers the command of that name.
func (p *Player) explain(d *datadriven.TestData) string {
	p.t.Helper()
	p.allow(d, 2, "at", "after", "from", "runnersup", "json", "history", "reason", "trace", "nodes", "allnodes")
	namespace, name, _ := strings.Cut(d.CmdArgs[1].Key, "/")
	x, err := p.explained(d.CmdArgs[0].Key, namespace, name, p.explainOptions(d))
	if err != nil {
		return "error: " + err.Error()
	}
	var part any
	switch {
	case d.HasArg("json"):
		part = x
	case d.HasArg("history"):
		part = x.(*answer.Group).History
	case d.HasArg("reason"):
		part = reasonOf(x)
	default:
		var b strings.Builder
		if !d.HasArg("trace") {
			p.must(writeText(&b, x))
			return b.String()
		}
		nodes := render.TracedNodes{All: d.HasArg("allnodes")}
		if names := arg(d, "nodes", ""); names != "" {
			nodes.Names = strings.Split(names, "+")
		}
		p.must(render.Trace(&b, x.(*answer.Pod), nodes))
		return strings.TrimPrefix(b.String(), "\n")
	}
	b, err := json.MarshalIndent(part, "", " ")
	p.must(err)
	return string(b)
}

func (p *Player) explained(kind, namespace, name string, opts explain.Options) (any, error) {
	p.t.Helper()
	ctx := context.Background()
	switch kind {
	case "pod":
		return explain.Pod(ctx, p.log.Read, namespace, name, opts)
	case "group":
		x, err := explain.Group(ctx, p.log.Read, namespace, name, opts)
		if missing := (*explain.NotFoundError)(nil); errors.As(err, &missing) && missing.Composite {
			return explain.Composite(ctx, p.log.Read, namespace, name, opts)
		}
		return x, err
	}
	p.t.Fatalf("a %s cannot be explained: pod or group", kind)
	return nil, nil
}

func (p *Player) explainOptions(d *datadriven.TestData) explain.Options {
	p.t.Helper()
	whole := func(key string) uint64 {
		n, err := strconv.ParseUint(arg(d, key, "0"), 10, 64)
		p.must(err)
		return n
	}
	opts := explain.Options{Registry: Registry(), AtSeq: whole("at"), RunnersUp: int(whole("runnersup")),
		Trace: d.HasArg("trace")}
	if after := arg(d, "after", ""); after != "" {
		by, err := time.ParseDuration(after)
		p.must(err)
		opts.AtTime = eventlog.TimeOf(Start.Add(by))
	}
	if d.HasArg("from") {
		opts.Base = whole("from")
		opts.Restore = p.stateAfter(opts.Base)
	}
	return opts
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

// stateAfter makes the state after an entry from the log, as a snapshot would.
func (p *Player) stateAfter(seq uint64) func(uint64) (*scheduler.Machine, error) {
	return func(uint64) (*scheduler.Machine, error) {
		m := scheduler.New(Registry())
		for e, err := range p.log.Read(context.Background(), 1) {
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
