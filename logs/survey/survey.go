// Package survey counts what a log holds: entries by kind, objects by resource, Decisions by outcome, its epochs, its
// times and its snapshots.
//
// Package replay/history counts. This package adds what the files say, and judges nothing: package logs/verify does
// that. A Report has a JSON form, and a text for people.
//
// Start reading at Take.
package survey

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/plugins/coscheduling"
	"github.com/rollcall-sched/rollcall/plugins/preemption"
	"github.com/rollcall-sched/rollcall/replay/compare"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// A Report describes the content of a log.
type Report struct {
	Path    string `json:"path"`
	Entries uint64 `json:"entries"`
	// FirstSeq is the first entry that can be read; earlier ones were archived, or are not in a bundle.
	FirstSeq uint64 `json:"firstSeq"`
	LastSeq  uint64 `json:"lastSeq"`
	// Snapshots are the entries of which the state is kept.
	Snapshots []uint64 `json:"snapshots,omitempty"`
	// Files is the number of files of the log, Bytes their length together, without archived ones and snapshots.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Messages is the number of messages of a log in a stream, which has no files.
	Messages int `json:"messages,omitempty"`
	// BytesPerDay is the average growth of the files; 0 if they are too young or too small to tell, or only a part of
	// the log is read.
	BytesPerDay int64 `json:"bytesPerDay,omitempty"`
	// Bundle is a bundle's own description.
	Bundle *bundle.Manifest `json:"bundle,omitempty"`
	// First and Last are the times of the first and of the last entry, Span the seconds between them.
	First string  `json:"first,omitempty"`
	Last  string  `json:"last,omitempty"`
	Span  float64 `json:"spanSeconds"`
	// Kinds counts entries, Resources objects that were taken in, Outcomes Decisions.
	Kinds     map[string]uint64 `json:"kinds"`
	Resources map[string]uint64 `json:"resources"`
	Outcomes  map[string]uint64 `json:"outcomes"`
	// Missing says when changes may be missing in the log of a recorder: the last times, at most 100.
	Missing []history.Missing `json:"missing,omitempty"`
	// Before is the epoch that had begun before the first entry that can be read, as far as a snapshot tells. It lacks
	// its entry, its time, its ID, its version and its format. nil if there is none.
	Before *Epoch  `json:"before,omitempty"`
	Epochs []Epoch `json:"epochs"`
}

// An Epoch is one epoch of a log, from the entry that begins it.
type Epoch struct {
	Epoch   uint64 `json:"epoch"`
	Seq     uint64 `json:"seq"`
	Time    string `json:"time"`
	ID      string `json:"id"`
	Version string `json:"version"`
	Format  uint32 `json:"format"`
	// Behaviour is the number of the rules that the epoch's decisions follow.
	Behaviour uint32 `json:"behaviour"`
	// Profiles are the profiles of the epoch's configuration, with the queue policy of each. Settings are its
	// differences from the default configuration of this program, and from the default profile. "" is no value. Config
	// is all of it.
	Profiles []framework.LoggedProfile `json:"profiles,omitempty"`
	Settings []ChangedSetting          `json:"changedSettings,omitempty"`
	Config   json.RawMessage           `json:"config,omitempty"`
	// FeatureGates are Kubernetes' feature gates that were not at their defaults.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// Plugins are the plugins that the epoch's configuration enables, sorted. AddedPlugins are the plugins among them
	// that Rollcall does not have itself. MissingPlugins are named by the configuration, and this program does not have
	// them: with any, the epoch can be read, and cannot be replayed or explained.
	Plugins        []string `json:"plugins,omitempty"`
	AddedPlugins   []string `json:"addedPlugins,omitempty"`
	MissingPlugins []string `json:"missingPlugins,omitempty"`
	// LanePolicies and VictimPolicies are the policies that the configuration names, sorted. MissingPolicies are the
	// policies that this program does not have. With any, the epoch cannot be replayed or explained.
	LanePolicies    []string `json:"lanePolicies,omitempty"`
	VictimPolicies  []string `json:"victimPolicies,omitempty"`
	MissingPolicies []string `json:"missingPolicies,omitempty"`
}

// A ChangedSetting is a setting with another value than the default. Values are JSON.
type ChangedSetting struct {
	Field   string `json:"field"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// Take counts a log from end to end.
func Take(ctx context.Context, log *logs.Source) (*Report, error) {
	last, err := log.Last()
	if err != nil {
		return nil, err
	}
	r := &Report{
		Path:      log.Path(),
		Kinds:     map[string]uint64{},
		Resources: map[string]uint64{},
		Outcomes:  map[string]uint64{},
	}
	r.FirstSeq = log.First()
	if r.Bundle = log.Manifest(); r.Bundle == nil && r.FirstSeq > 1 {
		log.ReportFirst()
	}
	if r.Snapshots, err = log.SnapshotSeqs(); err != nil {
		return nil, err
	}
	size, err := log.Size()
	if err != nil {
		return nil, err
	}
	if r.Files, r.Bytes = size.Files, size.Bytes; log.IsStream() {
		r.Files, r.Messages = 0, size.Files
	}
	past := history.New(log, history.Options{Progress: func(seq uint64) { log.Progress("", seq, last) }})
	t, err := past.Tally(ctx)
	if err != nil {
		return nil, err
	}
	if t.Kinds[eventlog.KindWatched] > 0 {
		if r.Missing, err = past.Missing(ctx); err != nil {
			return nil, err
		}
	}
	r.take(t, log.Registry())
	r.lookBefore(log)
	if r.Entries > 0 {
		if size.First == r.FirstSeq && r.Bundle == nil {
			r.BytesPerDay = perDay(r.Bytes, r.Span)
		}
	}
	return r, nil
}

// take notes the counts, for a program that has some plugins.
func (r *Report) take(t *history.Tally, has framework.Registry) {
	r.Entries, r.LastSeq = t.Entries, t.Last.Seq
	if first, last := t.First.Time, t.Last.Time; t.Entries > 0 {
		r.First, r.Last, r.Span = first.String(), last.String(), last.Sub(first).Seconds()
	}
	addCounts(r.Kinds, t.Kinds, eventlog.Kind.String)
	addCounts(r.Resources, t.Resources, func(res eventlog.Resource) string { return string(res) })
	addCounts(r.Outcomes, t.Outcomes, eventlog.Outcome.String)
	for _, e := range t.Epochs {
		r.addEpoch(e, has)
	}
}

func addCounts[K comparable](sums map[string]uint64, counts map[K]uint64, name func(K) string) {
	for k, n := range counts {
		sums[name(k)] += n
	}
}

// perDay returns the number of bytes a day that a log grew if it has so many after so many seconds; 0 if that is not
// known. A file is up to 4 MiB longer than its content: below ten times as much that would be more than a tenth.
func perDay(bytes int64, seconds float64) int64 {
	if seconds < time.Hour.Seconds() || bytes < 40<<20 {
		return 0
	}
	return int64(float64(bytes) / seconds * (24 * time.Hour).Seconds())
}

// addEpoch adds the epoch that an entry begins, if it does.
func (r *Report) addEpoch(e eventlog.Entry, has framework.Registry) {
	p, ok := e.Payload.(*eventlog.EpochStarted)
	if !ok {
		return
	}
	epoch := Epoch{
		Epoch: e.Epoch, Seq: e.Seq, Time: e.Time.String(), ID: p.ID, Version: p.Version, Format: p.Format,
		Behaviour: max(1, p.Behaviour),
	}
	epoch.configured(p.Config, has)
	r.Epochs = append(r.Epochs, epoch)
}

// configured notes an epoch's configuration, for a program that has some plugins.
func (e *Epoch) configured(config []byte, has framework.Registry) {
	e.FeatureGates, e.Plugins = framework.LoggedFeatureGates(config), framework.LoggedPlugins(config)
	e.MissingPlugins = has.Missing(config)
	e.set(config)
	rollcalls := plugins.NewRegistry()
	for _, name := range e.Plugins {
		if rollcalls.Factories[name] == nil {
			e.AddedPlugins = append(e.AddedPlugins, name)
		}
	}
	e.LanePolicies, e.VictimPolicies = framework.LoggedPolicies(config)
	for _, name := range e.LanePolicies {
		own := slices.Contains(coscheduling.QueuePolicies, coscheduling.QueuePolicy(name))
		if !own && has.LanePolicies[name] == nil {
			e.MissingPolicies = append(e.MissingPolicies, name)
		}
	}
	for _, name := range e.VictimPolicies {
		if has.VictimPolicies[name] == nil && name != preemption.PriorityPolicy {
			e.MissingPolicies = append(e.MissingPolicies, name)
		}
	}
}

// set notes the settings of a configuration. One that cannot be read, or is of another version, has none.
func (e *Epoch) set(config []byte) {
	if len(config) == 0 {
		return
	}
	e.Config, e.Profiles = config, framework.LoggedProfiles(config)
	for i := range e.Profiles {
		e.Profiles[i].QueuePolicy = cmp.Or(e.Profiles[i].QueuePolicy, string(coscheduling.BestEffort))
	}
	cfg := framework.DefaultConfig()
	profile := cfg.Profiles[0]
	cfg.Profiles = nil
	for _, p := range e.Profiles {
		profile.SchedulerName = p.SchedulerName
		cfg.Profiles = append(cfg.Profiles, profile)
	}
	usual, err := framework.EncodeConfig(cfg)
	if err != nil {
		return
	}
	changed, err := compare.Settings(config, usual)
	if err != nil {
		return
	}
	for _, s := range changed {
		e.Settings = append(e.Settings, ChangedSetting{Field: s.Field, Value: s.A, Default: s.B})
	}
}

// lookBefore looks for the epoch that had begun before the first entry, in the first snapshot.
func (r *Report) lookBefore(log *logs.Source) {
	i := slices.IndexFunc(r.Snapshots, func(seq uint64) bool { return seq+1 >= r.FirstSeq })
	if r.FirstSeq <= 1 || i < 0 {
		return
	}
	snap, err := log.Snapshots().Load(r.Snapshots[i])
	if err == nil && slices.ContainsFunc(r.Epochs, func(e Epoch) bool { return e.Epoch == snap.Epoch }) {
		return // it began behind the first entry
	}
	var config []byte
	var behaviour uint32
	if err == nil {
		config, behaviour, err = snap.Config()
	}
	if err != nil {
		log.Report("the epoch before entry %d is not known: snapshot of entry %d: %v", r.FirstSeq, r.Snapshots[i], err)
		return
	}
	r.Before = &Epoch{Epoch: snap.Epoch, Behaviour: max(1, behaviour)}
	r.Before.configured(config, log.Registry())
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "log      %s\nentries  %d\n", r.Path, r.Entries)
	if r.FirstSeq > 1 {
		fmt.Fprintf(w, "first    entry %d\n", r.FirstSeq)
	}
	if r.Entries > 0 {
		fmt.Fprintf(w, "from     %s\nto       %s (%s)\n", r.First, r.Last, time.Duration(r.Span*float64(time.Second)))
	}
	what, n := "files", r.Files
	if r.Messages > 0 {
		what, n = "messages", r.Messages
	}
	fmt.Fprintf(w, "size     %.1f MB, %s: %d", float64(r.Bytes)/1e6, what, n)
	if r.BytesPerDay > 0 {
		fmt.Fprintf(w, "; %.1f MB a day", float64(r.BytesPerDay)/1e6)
	}
	fmt.Fprintln(w)
	if n := len(r.Snapshots); n > 0 {
		fmt.Fprintf(w, "states   %d snapshots, the last of entry %d\n", n, r.Snapshots[n-1])
	}
	if b := r.Bundle; b != nil {
		fmt.Fprintf(w, "bundle   made by %s, of entries %d to %d\nchain    %s to %s\ntree     %s\n",
			b.Version, b.From, b.Last, hex.EncodeToString(b.Origin.Hash[:]), b.LastHash, b.Root)
		if r := b.Redacted; r != nil {
			fmt.Fprintf(w, "redacted %s, from the log whose entry %d has the hash\n         %s: names are pseudonyms\n",
				r.At, r.FromSeq, r.FromHash)
		}
		if b.Damage != "" {
			fmt.Fprintf(w, "ends before damage: %s\n", b.Damage)
		}
	}
	r.writeCounts(w)
	for i := range r.Missing {
		if i == 0 {
			fmt.Fprint(w, "\nmissing\n")
		}
		fmt.Fprintf(w, "  entry %d: %s\n", r.Missing[i].Seq, r.Missing[i].Message)
	}
	return r.writeEpochs(w)
}

func (r *Report) writeCounts(w io.Writer) {
	for _, part := range []struct {
		title  string
		counts map[string]uint64
	}{{"entries by kind", r.Kinds}, {"objects taken in", r.Resources}, {"decisions by outcome", r.Outcomes}} {
		if len(part.counts) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(part.counts)) {
			fmt.Fprintf(w, "  %-32s %9d\n", name, part.counts[name])
		}
	}
}

func (r *Report) writeEpochs(w io.Writer) error {
	if b := r.Before; b != nil {
		fmt.Fprintf(w, "\nepoch %d began before entry %d\n  behaviour %d\n", b.Epoch, r.FirstSeq, b.Behaviour)
		if err := b.writeConfigured(w); err != nil {
			return err
		}
	}
	for _, e := range r.Epochs {
		fmt.Fprintf(w, "\nepoch %d began at entry %d, %s\n  id %s, written by %s, format %d, behaviour %d\n",
			e.Epoch, e.Seq, e.Time, e.ID, e.Version, e.Format, e.Behaviour)
		if err := e.writeConfigured(w); err != nil {
			return err
		}
	}
	return nil
}

// maxSettings and maxValue limit the settings of an epoch in a report for people: their number, and the columns of a
// value.
const (
	maxSettings = 12
	maxValue    = 40
)

// writeSettings writes an epoch's profiles, and the settings that are not the defaults.
func (e *Epoch) writeSettings(w io.Writer) {
	for _, p := range e.Profiles {
		fmt.Fprintf(w, "  profile %s, queue policy %s\n", p.SchedulerName, p.QueuePolicy)
	}
	value := func(text string) string {
		switch {
		case text == "":
			return "none"
		case len(text) > maxValue:
			return "…"
		}
		return text
	}
	for i, s := range e.Settings {
		if i == maxSettings {
			fmt.Fprintf(w, "  and %d settings more, see -o json\n", len(e.Settings)-i)
			return
		}
		fmt.Fprintf(w, "  %s: %s (default: %s)\n", s.Field, value(s.Value), value(s.Default))
	}
}

// writeConfigured writes an epoch's configuration.
func (e *Epoch) writeConfigured(w io.Writer) error {
	e.writeSettings(w)
	for _, name := range slices.Sorted(maps.Keys(e.FeatureGates)) {
		if _, err := fmt.Fprintf(w, "  feature gate %s=%t\n", name, e.FeatureGates[name]); err != nil {
			return err
		}
	}
	return errors.Join(
		writeNames(w, "lane policies", e.LanePolicies),
		writeNames(w, "victim policies", e.VictimPolicies),
		writeNames(w, "added plugins", e.AddedPlugins),
		writeNames(w, "NOT COMPILED INTO THIS PROGRAM", slices.Concat(e.MissingPlugins, e.MissingPolicies)))
}

// writeNames writes a line about names, if there are any.
func writeNames(w io.Writer, about string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "  %s: %s\n", about, strings.Join(names, ", "))
	return err
}
