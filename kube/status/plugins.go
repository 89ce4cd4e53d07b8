package status

import (
	"crypto/sha256"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/rollcall-sched/rollcall/framework"
)

// maxDropReasons is the number of different reasons for dropping events of plugins that are reported.
const maxDropReasons = 100

// pluginEvents are the events that plugins have recorded and whose decisions are not durable yet. It is the
// framework.EventSink of a running scheduler.
type pluginEvents struct {
	s *Status

	mu        sync.Mutex
	listening bool
	durable   uint64 // the last entry that is
	held      []framework.Event
	drops     uint64
	reported  map[string]bool
}

var _ framework.EventSink = (*pluginEvents)(nil)

// PluginEvents returns the sink for the events that plugins record. They are written like the others, each once the
// entry that it names is durable. Until Listen is called, the sink ignores events: they are of entries that were
// recovered.
func (s *Status) PluginEvents() framework.EventSink { return &s.plugins }

// Listen begins to take the events of plugins. last is the last entry of the log that was recovered.
func (s *Status) Listen(last uint64) {
	s.plugins.mu.Lock()
	defer s.plugins.mu.Unlock()
	s.plugins.listening, s.plugins.durable = true, max(s.plugins.durable, last)
}

// Record implements framework.EventSink.
func (p *pluginEvents) Record(e framework.Event) {
	e.Note = cutNote(e.Note)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.listening:
	case e.After <= p.durable:
		p.s.event.put(keyOf(e), eventOf(e))
	case len(p.held) >= maxEvents:
		p.held = append(p.held[1:], e)
		p.drops++
	default:
		p.held = append(p.held, e)
	}
}

// Drop implements framework.EventSink. Each reason is reported once.
func (p *pluginEvents) Drop(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.listening {
		return
	}
	p.drops++
	message := why.Error()
	if p.reported[message] || len(p.reported) >= maxDropReasons || p.s.opts.Report == nil {
		return
	}
	if p.reported == nil {
		p.reported = map[string]bool{}
	}
	p.reported[message] = true
	p.s.opts.Report(message)
}

// release has the events written whose entries are durable, of which seq is the last.
func (s *Status) release(seq uint64) {
	p := &s.plugins
	p.mu.Lock()
	defer p.mu.Unlock()
	p.durable = max(p.durable, seq)
	if len(p.held) == 0 {
		return
	}
	held := p.held[:0]
	for _, e := range p.held {
		if e.After <= p.durable {
			s.event.put(keyOf(e), eventOf(e))
		} else {
			held = append(held, e)
		}
	}
	clear(p.held[len(held):])
	p.held = held
}

func (p *pluginEvents) dropped() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drops
}

func (p *pluginEvents) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// keyOf tells events of plugins apart that differ in anything, so that only the same one makes a series longer.
func keyOf(e framework.Event) eventKey {
	var related corev1.ObjectReference
	if e.Related != nil {
		related = *e.Related
	}
	all := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q",
		e.Reporter, e.Type, e.Action, e.Note, refWords(e.Regarding), refWords(related)))
	return eventKey{uid: e.Regarding.UID, reason: e.Reason, plugins: string(all[:])}
}

func refWords(r corev1.ObjectReference) []string {
	return []string{r.APIVersion, r.Kind, r.Namespace, r.Name, string(r.UID), r.FieldPath}
}

func eventOf(e framework.Event) event {
	return event{
		regarding: e.Regarding, related: e.Related, eventtype: e.Type, reason: e.Reason, action: e.Action, note: e.Note,
		reporter: e.Reporter,
	}
}
