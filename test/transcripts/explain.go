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
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// explain answers the command of that name.
func (p *Player) explain(d *datadriven.TestData) string {
	p.t.Helper()
	p.allow(d, 2, "at", "after", "from", "runnersup", "json", "history", "reason", "trace", "nodes", "allnodes")
	namespace, name, _ := strings.Cut(d.CmdArgs[1].Key, "/")
	opts, log := p.explainOptions(d)
	x, err := p.explained(d.CmdArgs[0].Key, log, namespace, name, opts)
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

func (p *Player) explained(kind string, log *history.Log, namespace, name string, opts explain.Options) (any, error) {
	p.t.Helper()
	ctx := context.Background()
	switch kind {
	case "pod":
		return explain.Pod(ctx, log, namespace, name, opts)
	case "group":
		x, err := explain.Group(ctx, log, namespace, name, opts)
		if missing := (*explain.NotFoundError)(nil); errors.As(err, &missing) && missing.Composite {
			return explain.Composite(ctx, log, namespace, name, opts)
		}
		return x, err
	}
	p.t.Fatalf("a %s cannot be explained: pod or group", kind)
	return nil, nil
}

func (p *Player) explainOptions(d *datadriven.TestData) (explain.Options, *history.Log) {
	p.t.Helper()
	whole := func(key string) uint64 {
		n, err := strconv.ParseUint(arg(d, key, "0"), 10, 64)
		p.must(err)
		return n
	}
	opts := explain.Options{AtSeq: whole("at"), RunnersUp: int(whole("runnersup")),
		Trace: d.HasArg("trace")}
	if after := arg(d, "after", ""); after != "" {
		by, err := time.ParseDuration(after)
		p.must(err)
		opts.AtTime = eventlog.TimeOf(Start.Add(by))
	}
	source := history.Plain(p.log, Registry())
	if d.HasArg("from") {
		source = &laterLog{source, p, whole("from")}
	}
	return opts, history.New(source, history.Options{})
}

// laterLog is the player's log as if its entries up to one were archived, with a snapshot of that one.
type laterLog struct {
	history.Source
	p    *Player
	base uint64
}

func (l *laterLog) First() uint64 { return l.base + 1 }

func (l *laterLog) Base() (uint64, error) { return l.base, nil }

func (l *laterLog) Restore(uint64) (*scheduler.Machine, error) {
	return history.New(l.Source, history.Options{}).At(context.Background(), l.base)
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
