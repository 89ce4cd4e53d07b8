package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/regular"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// Options say how a dump is read.
type Options struct {
	// Stdin is read for the name "-".
	Stdin io.Reader
	// Now is the time of a dump that comes from Stdin and has no time in it.
	Now func() time.Time
	// Config is the configuration for evaluations, as framework.EncodeConfig returns it, with Recording. With nil it is
	// the one in the
	// dump, or the default one, with a profile for each scheduler that pods name.
	Config []byte
	// Report receives notes for a person, a sentence at a time; nil is not called.
	Report func(message string)
	// Progress receives the number of objects or events that were read, now and then; nil is not called.
	Progress func(read uint64)
}

// A Dump is a dump as a log. Its methods may be called by several goroutines.
type Dump struct {
	*eventlog.Memory
	sentence string
	placings map[types.UID]Placing
}

// Sentence says what the dump cannot know.
func (d *Dump) Sentence() string { return d.sentence }

// Placing returns the known facts about a pod's way to its node; false if there are none.
func (d *Dump) Placing(uid types.UID) (Placing, bool) {
	p, ok := d.placings[uid]
	return p, ok
}

// Open reads the dump at path, which Is has recognised.
func (o Options) Open(ctx context.Context, path string) (*Dump, error) {
	c := &collection{opts: o, placings: map[types.UID]Placing{}, left: map[string]int{}, older: map[string]int{},
		unusable: map[string]int{}, twice: map[string]int{}, schedulers: map[string]bool{}}
	if err := c.read(ctx, path); err != nil {
		return nil, err
	}
	d := &Dump{Memory: eventlog.NewMemory(), placings: c.placings}
	var changes []change
	var err error
	if c.audit {
		changes, err = c.changes()
		d.sentence = "An audit log shows what was written: it has no decisions, and nothing of before its first event."
	} else {
		changes = c.instant()
		d.sentence = fmt.Sprintf("The dump shows one instant (%s): it has no history and no decisions.",
			c.time.UTC().Format("2006-01-02 15:04:05Z"))
	}
	if err != nil {
		return nil, err
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	c.reportAll()
	return d, d.append(ctx, config, changes)
}

// change is an entry to come.
type change struct {
	at       eventlog.Time
	payload  eventlog.Payload
	encoding eventlog.Encoding
}

// appendAtOnce is the number of entries in one append.
const appendAtOnce = 4096

// append writes the epoch, and the changes.
func (d *Dump) append(ctx context.Context, config []byte, changes []change) error {
	var first eventlog.Time
	if len(changes) > 0 {
		first = changes[0].at
	}
	entries := []eventlog.Entry{{Seq: 1, Epoch: 1, Time: first, Payload: &eventlog.EpochStarted{
		ID: "dump", Version: "dump", Format: eventlog.FormatVersion, Behaviour: scheduler.Behaviour, Config: config,
	}}}
	last := uint64(0)
	for i := range changes {
		c := &changes[i]
		seq := uint64(i) + 2
		entries = append(entries, eventlog.Entry{Seq: seq, Epoch: 1, Time: c.at, Payload: c.payload,
			Encoding: c.encoding})
		if len(entries) == appendAtOnce {
			if err := d.Append(ctx, last, entries); err != nil {
				return err
			}
			last, entries = seq, entries[:0]
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return d.Append(ctx, last, entries)
}

// collection is everything that was read of a dump.
type collection struct {
	opts  Options
	audit bool // it is an audit log
	plain bool // it has objects
	time  time.Time
	whose string // where the time is from
	count uint64

	objects  map[name]*found
	events   []*found
	seen     map[string]bool // the audit IDs
	skips    int             // events that are no writes, or refused ones
	finished int

	configured []byte // the configuration in an export of the simulator
	placings   map[types.UID]Placing
	schedulers map[string]bool // the ones that pods name
	others     int             // files of a must-gather that were not opened
	left       map[string]int  // objects that are not taken in, by kind
	older      map[string]int  // objects of older versions, by kind
	unusable   map[string]int  // writes without an object, by the reason
	twice      map[string]int  // objects that came twice, by resource
}

func (c *collection) report(format string, args ...any) {
	if c.opts.Report != nil {
		c.opts.Report(fmt.Sprintf(format, args...))
	}
}

// read reads the standard input, or all files of a dump.
func (c *collection) read(ctx context.Context, path string) error {
	c.objects, c.seen = map[name]*found{}, map[string]bool{}
	if path == Stdin {
		if c.opts.Stdin == nil {
			return errors.New("there is no standard input to read a dump from")
		}
		if err := c.stream(ctx, c.opts.Stdin, "standard input"); err != nil {
			return err
		}
		return c.dated([]source{{"", c.opts.Now()}}, "the time of reading")
	}
	files, others, err := sources(path)
	if err != nil {
		return err
	}
	c.others = others
	for _, file := range files {
		f, err := regular.Open(file.path)
		if err != nil {
			return err
		}
		err = c.stream(ctx, f, file.path)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return c.dated(files, "the time of the file")
}

// stream reads one file.
func (c *collection) stream(ctx context.Context, in io.Reader, name string) error {
	return decodeAll(ctx, func(emit func(*item) error) error { return split(in, name, emit) }, c.take)
}

// dated chooses the time of the dump: the newest one in its objects, or the newest one of its files.
func (c *collection) dated(files []source, otherwise string) error {
	if c.audit && c.plain {
		return errors.New("it has objects and events of an audit log: read one of them at a time")
	}
	if !c.audit && !c.plain && c.finished == 0 {
		return fmt.Errorf("nothing in it is an object that scheduling reads%s", c.leftText())
	}
	if c.whose = "the newest time in its objects"; !c.time.IsZero() {
		return nil
	}
	c.whose = otherwise
	for _, f := range files {
		if f.time.After(c.time) {
			c.time = f.time
		}
	}
	return nil
}

// take takes a decoded item.
func (c *collection) take(f *found) error {
	if c.count++; c.opts.Progress != nil {
		c.opts.Progress(c.count)
	}
	switch {
	case f.config != nil:
		c.configured = f.config
	case f.left != "":
		c.left[f.left]++
	case f.event != nil:
		c.takeEvent(f)
	default:
		c.takeObject(f)
	}
	return nil
}

// takeObject takes an object. The newer one of two with the same name stays.
func (c *collection) takeObject(f *found) {
	c.plain = true
	if f.older != "" {
		c.older[f.older]++
	}
	if f.newest.After(c.time) {
		c.time = f.newest
	}
	if f.finished {
		c.finished++
		return
	}
	c.know(f)
	f.pod = nil // only an audit log needs it again
	if before := c.objects[f.name]; before != nil {
		c.twice[string(f.resource)]++
		if before.version > f.version || before.version == f.version && !f.newest.After(before.newest) {
			return
		}
	}
	c.objects[f.name] = f
}

// instant returns the changes of a dump of objects: all of them at its time.
func (c *collection) instant() []change {
	all := make([]*found, 0, len(c.objects))
	for _, f := range c.objects { // any order: they are sorted
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *found) int { return compareNames(&a.name, &b.name) })
	changes := make([]change, len(all))
	at := eventlog.TimeOf(c.time)
	for i, f := range all {
		changes[i] = change{at, &eventlog.Upserted{Resource: f.resource}, f.encoding}
	}
	return changes
}

// know keeps the facts about a pod that its entry does not have.
func (c *collection) know(f *found) {
	if f.pod == nil {
		return
	}
	if f.pod.Spec.NodeName == "" {
		c.schedulers[f.pod.Spec.SchedulerName] = true
	} else if (f.placing != Placing{}) {
		c.placings[f.uid] = f.placing
	}
}

func compareNames(a, b *name) int {
	if d := places[a.resource] - places[b.resource]; d != 0 {
		return d
	}
	if d := strings.Compare(a.Namespace, b.Namespace); d != 0 {
		return d
	}
	return strings.Compare(a.Name, b.Name)
}

// config returns the configuration of the epoch.
func (c *collection) config() ([]byte, error) {
	if c.opts.Config != nil {
		return c.opts.Config, nil
	}
	if c.configured != nil && string(c.configured) != "null" {
		cfg, err := framework.LiveOptions{Note: func(string) {}}.LoadConfig(c.configured, schedulerConfig)
		if err == nil {
			c.report("evaluations use the configuration in the dump (%s)", schedulerConfig)
			return encodeConfig(cfg)
		}
		c.report("the configuration in the dump is not used: %v", err)
	}
	return defaultConfig(c.schedulers)
}
