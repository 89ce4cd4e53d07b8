package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/internal/svgplot"
)

// The heights of a plot's panels, in pixels.
const (
	shareHeight = 200
	queueHeight = 110
)

// maxShares is the largest number of resources whose utilisation is drawn.
const maxShares = 5

// Figure draws the timeline of the simulation that the summary sums up. The queue policy is named in the subtitle,
// unless it is empty.
func (t *Timeline) Figure(title, queuePolicy string, sum Summary) svgplot.Figure {
	f := svgplot.Figure{
		Title:    title,
		Subtitle: subtitle(queuePolicy, sum),
		Start:    sum.Start.UTC(),
		Span:     t.End(),
		Axis:     "virtual time, UTC",
	}
	shares := svgplot.Panel{Title: "Utilisation: what pods on nodes request of what nodes offer", Share: true,
		Height: shareHeight}
	for _, l := range t.Shares() {
		// Extended resources, such as GPUs, have a domain's name. Memory is hardly ever the scarce resource.
		if drawn := l.Name == string(corev1.ResourceCPU) || strings.Contains(l.Name, "/"); drawn &&
			len(shares.Lines) < maxShares {
			shares.Lines = append(shares.Lines, plotLine(l))
		}
	}
	if len(shares.Lines) == 1 {
		shares.Title = fmt.Sprintf("Utilisation of %s: what pods on nodes request of what nodes offer",
			shares.Lines[0].Name)
	}
	f.Panels = append(f.Panels, shares,
		svgplot.Panel{Title: "Queue: pods that wait for a node", Height: queueHeight,
			Lines: []svgplot.Line{plotLine(t.PendingPods())}})
	if sum.Gangs.Total > 0 {
		f.Panels = append(f.Panels,
			svgplot.Panel{Title: "Queue: gangs that wait for their minimum", Height: queueHeight,
				Lines: []svgplot.Line{plotLine(t.PendingGangs())}})
	}
	if disruptions := t.Disruptions(); len(disruptions) > 0 {
		panel := svgplot.Panel{Title: "Pods that were preempted, lost with a node, or evicted with their gang, so far",
			Height: queueHeight}
		for _, l := range disruptions {
			panel.Lines = append(panel.Lines, plotLine(l))
		}
		if len(disruptions) == 1 {
			panel.Title = fmt.Sprintf("Pods that were %s, so far", disruptions[0].Name)
		}
		f.Panels = append(f.Panels, panel)
	}
	f.Strip = reservationStrip(t, sum.Start)
	return f
}

// subtitle sums the simulation up in a line.
func subtitle(queuePolicy string, sum Summary) string {
	text := outcomeText(sum.Pods, "pod", "pods")
	if sum.Gangs.Total > 0 {
		text += "; " + outcomeText(sum.Gangs, "gang", "gangs")
	}
	text += "; " + counted(sum.Nodes, "node", "nodes")
	if queuePolicy != "" {
		text += "; queue policy " + queuePolicy
	}
	mean := func(m JobMeans) string {
		return time.Duration(m.MeanWaitSeconds * float64(time.Second)).Round(time.Second).String()
	}
	switch gangs, pods := sum.GangJobs, sum.PodJobs; {
	case gangs.Placed > 0 && pods.Placed > 0:
		text += fmt.Sprintf("; mean wait of gangs %s, of single pods %s", mean(gangs), mean(pods))
	case gangs.Placed+pods.Placed > 0:
		text += "; mean wait " + mean(sum.Jobs)
	}
	return text
}

// outcomeText states the total and the outcomes.
func outcomeText(c Outcomes, one, several string) string {
	if c.Total == 0 {
		return "no " + several
	}
	return fmt.Sprintf("%s (%s)", counted(c.Total, one, several), c.parts(false))
}

func plotLine(l Line) svgplot.Line {
	points := make([]svgplot.Point, len(l.Points))
	for i, p := range l.Points {
		points[i] = svgplot.Point{X: p.At.Seconds(), Y: p.Value}
	}
	return svgplot.Line{Name: l.Name, Points: points}
}

// reservationStrip has a bar for each reservation.
func reservationStrip(t *Timeline, start time.Time) svgplot.Strip {
	reserved, more := t.Reservations()
	s := svgplot.Strip{Title: "Reservations", Waiting: "made, until its time", Taken: "reserved time"}
	if more > 0 {
		s.Title += fmt.Sprintf(" (the first %d of %d)", len(reserved), len(reserved)+more)
	}
	for _, r := range reserved {
		bar := svgplot.Bar{Made: r.Made.Seconds(), From: r.From.Sub(start).Seconds()}
		bar.Until = bar.From
		label := fmt.Sprintf("%s: %s from %s", r.Group, reservedAmount(r.Amount), r.From.Format(time.RFC3339))
		if !r.Until.IsZero() {
			bar.Until = r.Until.Sub(start).Seconds()
			label += " until " + r.Until.Format(time.RFC3339)
		}
		bar.Label = label + fmt.Sprintf("; stood from %s to %s", start.Add(r.Made).Format(time.RFC3339),
			start.Add(r.Gone).Format(time.RFC3339))
		s.Bars = append(s.Bars, bar)
	}
	return s
}

// reservedAmount writes resources for people.
func reservedAmount(list map[corev1.ResourceName]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		number := strconv.FormatInt(list[name], 10)
		if name == corev1.ResourceCPU {
			number = strconv.FormatFloat(float64(list[name])/1000, 'f', -1, 64)
		}
		parts = append(parts, number+" "+string(name))
	}
	return strings.Join(parts, ", ")
}
