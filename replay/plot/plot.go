// Package plot draws a range of a log over time. For each resource a picture has the amounts that groups of pods held,
// and the causes of the rest. It has the gangs and pods that waited, and events of nodes, pods and the configuration.
//
//	within, err := ledger.Resolve(ctx, log, span)              // log is a *history.Log
//	p, err := plot.Make(ctx, source, plot.Options{Range: within, By: by})
//	err = svgplot.WriteSVG(w, p.Figure("jobs.db"))
//
// The values are the ones of package ledger, in buckets of time. The area of a group equals its held time in "rollcall
// report", exactly. The marks are events of package events. So this package counts nothing itself. It chooses the
// groups, resources and events to draw, and their order.
//
// The package never writes to a log and never opens one. The layout of the picture is internal/svgplot's.
//
// Start reading at Make, then Plot.Figure.
package plot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/svgplot"
	"github.com/rollcall-sched/rollcall/replay/events"
	"github.com/rollcall-sched/rollcall/replay/history"
	"github.com/rollcall-sched/rollcall/replay/ledger"
)

// The limits of a plot.
const (
	// mostGroups is the number of groups with a colour. The others are drawn together.
	mostGroups = svgplot.Colours
	// mostResources is the number of resources that are drawn unless others are asked for.
	mostResources = 4
	// usualSteps and mostSteps are the numbers of values of a series.
	usualSteps, mostSteps = 300, 5000
)

// Options say what is drawn.
type Options struct {
	ledger.Range
	By ledger.By
	// Resources are the resources to draw; nil for cpu and the extended ones that pods held.
	Resources []v1.ResourceName
	// Step is the time over which a value is the mean; 0 for a round one that suits the picture. Steps begin at
	// multiples of their length.
	Step time.Duration
	// Workers and Progress are the ones of a ledger.
	Workers  int
	Progress func(read, all uint64)
}

// Plot is a range of a log, to be drawn.
type Plot struct {
	ledger *ledger.Ledger
	step   time.Duration
	ends   []eventlog.Time // of the steps: one more than there are steps
	// resources are drawn, others have a capacity or were held and are not.
	resources, others []v1.ResourceName
	// groups are drawn, the most important one first. The rest is drawn together: numRest groups.
	groups, rest []*ledger.Group
	numRest      int
	events       []*events.Event
}

// Make reads a range of a log. The error is a *history.RequestError if no time passes in the range, or if the log does
// not have a resource.
func Make(ctx context.Context, source history.Source, o Options) (*Plot, error) {
	span := o.End.Sub(o.Start)
	if span <= 0 {
		return nil, &history.RequestError{Err: fmt.Errorf(
			"no time passes in the range: it begins and ends at %s; rollcall report --at has a moment", o.Start)}
	}
	p := &Plot{step: o.Step}
	if p.step == 0 {
		p.step = svgplot.StepFor(span, usualSteps)
	}
	if span/p.step >= mostSteps {
		return nil, &history.RequestError{Err: fmt.Errorf(
			"%s has more than %d steps of %s: want a longer step, such as %s", span, mostSteps, p.step,
			svgplot.StepFor(span, usualSteps))}
	}
	p.ends = endsOf(o.Start, o.End, p.step)
	if err := p.book(ctx, source, o); err != nil {
		return nil, err
	}
	shown := func(seq uint64) {
		if o.Progress != nil && seq > o.After {
			o.Progress(seq-o.After, max(seq, o.Last)-o.After)
		}
	}
	return p, p.readEvents(ctx, history.New(source, history.Options{Progress: shown}))
}

// book makes the ledger. Where groups can be many, it is made twice: the first one has all groups and no steps, and
// finds the ones to draw.
func (p *Plot) book(ctx context.Context, source history.Source, o Options) (err error) {
	want := ledger.Options{Range: o.Range, By: o.By, Workers: o.Workers, Progress: o.Progress}
	steps := p.ends[1 : len(p.ends)-1]
	twice := !slices.Contains([]string{"namespace", "priority"}, o.By.String())
	if !twice {
		want.Edges = steps
	}
	if p.ledger, err = ledger.Make(ctx, source, want); err != nil {
		return err
	}
	if err := p.chooseResources(o.Resources); err != nil {
		return err
	}
	if p.chooseGroups(); !twice {
		return nil
	}
	order, rest := p.groups, len(p.rest)
	want.Only, want.Edges = []string{}, steps
	for _, g := range order {
		want.Only = append(want.Only, g.Name)
	}
	if p.ledger, err = ledger.Make(ctx, source, want); err != nil {
		return err
	}
	p.groups, p.rest, p.numRest = nil, nil, rest
	for _, was := range order {
		p.groups = append(p.groups, p.ledger.Group(was.Name))
	}
	if g := p.ledger.Group(ledger.Others); g != nil && rest > 0 {
		p.rest = []*ledger.Group{g}
	}
	return nil
}

// endsOf returns the beginning and the ends of the steps.
func endsOf(start, end eventlog.Time, step time.Duration) []eventlog.Time {
	ends := []eventlog.Time{start}
	at := start.Std().Truncate(step).Add(step)
	for t := start + eventlog.Time(at.Sub(start.Std())); t < end; t += eventlog.Time(step) {
		ends = append(ends, t)
	}
	return append(ends, end)
}

// chooseResources finds the resources to draw. The one that is used most is the first.
func (p *Plot) chooseResources(asked []v1.ResourceName) error {
	l := p.ledger
	for _, name := range asked {
		if err := l.CheckResource(name); err != nil {
			return &history.RequestError{Err: err}
		}
	}
	if p.resources = slices.Clone(asked); len(asked) > 0 {
		return nil
	}
	var held, offered []v1.ResourceName
	for _, name := range l.Resources {
		if name != v1.ResourceCPU && !strings.Contains(string(name), "/") {
			continue // memory is hardly ever the scarce resource
		}
		if sum := l.Total.SumOf(name, ledger.Held()...); !sum.IsZero() {
			held = append(held, name)
		} else if !l.Total.Sum(name, ledger.Capacity).IsZero() {
			offered = append(offered, name)
		}
	}
	slices.SortStableFunc(held, func(a, b v1.ResourceName) int { return cmp.Compare(p.used(b), p.used(a)) })
	all := append(held, offered...)
	n := min(mostResources, max(1, len(held)), len(all))
	p.resources, p.others = all[:n], all[n:]
	return nil
}

// used returns how much of a resource was held, as a share of the capacity.
func (p *Plot) used(name v1.ResourceName) float64 {
	capacity := p.ledger.Total.Sum(name, ledger.Capacity)
	if capacity.IsZero() {
		return 0
	}
	held := p.ledger.Total.SumOf(name, ledger.Held()...).Big()
	share, _ := new(big.Rat).SetFrac(held, capacity.Big()).Float64()
	return share
}

// readEvents reads what happened.
func (p *Plot) readEvents(ctx context.Context, log *history.Log) error {
	l := p.ledger
	if l.After >= l.Last {
		return nil
	}
	var kinds []events.Kind
	for _, lane := range lanes {
		kinds = slices.Concat(kinds, lane.begins, lane.ends)
	}
	lost := map[string]bool{}
	list := events.NewList(events.Filter{Kinds: kinds}, func(e *events.Event) error {
		// A node that joins is the end of a loss only if it was lost. All nodes join when a log begins.
		returns := e.Kind != events.NodeJoined
		for _, name := range e.AllNodes() {
			if e.Kind == events.NodeDeleted {
				lost[name] = true
			}
			returns = returns || lost[name]
		}
		if returns {
			p.events = append(p.events, e)
		}
		return nil
	})
	err := events.NewReading(list).Range(ctx, log, l.After+1, l.Last)
	var request *history.RequestError
	if errors.As(err, &request) {
		return fmt.Errorf("read what happened: %w", err)
	}
	return err
}
