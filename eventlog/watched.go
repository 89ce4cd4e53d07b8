package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Watched is an entry of a recorder. It says how far the log has the changes of a cluster, and which changes may be
// missing before it. State does not depend on it.
type Watched struct {
	// Full says that Positions has every resource that is watched. Otherwise it has the ones that have changed since
	// the last Watched.
	Full bool
	// Positions are in the order of the resources' names, each resource once.
	Positions []Position
	// Missing are in the order of the resources' names, each resource once.
	Missing []Missing
}

// A Position is the resourceVersion up to which the log has the changes of a resource: up to the last one that the
// entries before the Watched have.
type Position struct {
	Resource Resource
	// Version is the API server's name of the state; it is not empty.
	Version string
}

// Missing says that changes of a resource may be missing: the log has the state at the entry, and not every change
// since a time.
type Missing struct {
	Resource Resource
	// Since is the time of the last change that is not missing.
	Since Time
	// Reason says why, for people.
	Reason string
}

// Kind implements Payload.
func (*Watched) Kind() Kind { return KindWatched }

// check returns an error if the entry has no content, or has it in another order.
func (p *Watched) check() error {
	if len(p.Positions)+len(p.Missing) == 0 {
		return errors.New("no position, and nothing that is missing")
	}
	last := Resource("")
	for _, x := range p.Positions {
		switch {
		case x.Resource <= last:
			return fmt.Errorf("position of %q behind %q: want the order of names, each once", x.Resource, last)
		case x.Version == "":
			return fmt.Errorf("position of %q: no version", x.Resource)
		}
		last = x.Resource
	}
	last = ""
	for _, x := range p.Missing {
		if x.Resource <= last {
			return fmt.Errorf("missing of %q behind %q: want the order of names, each once", x.Resource, last)
		}
		last = x.Resource
	}
	return nil
}

func (w *payloadWriter) watched(p *Watched) {
	w.fail("watched", p.check())
	full := byte(0)
	if p.Full {
		full = 1
	}
	w.b = append(w.b, full)
	w.uvarint(uint64(len(p.Positions)))
	for _, x := range p.Positions {
		w.resource(x.Resource)
		w.str("version", x.Version)
	}
	w.uvarint(uint64(len(p.Missing)))
	for _, x := range p.Missing {
		w.resource(x.Resource)
		w.varint(int64(x.Since))
		w.str("reason", strings.ToValidUTF8(x.Reason, "\uFFFD"))
	}
}

func (r *payloadReader) watched() *Watched {
	p := &Watched{}
	switch full := r.byte("full"); full {
	case 0, 1:
		p.Full = full == 1
	default:
		r.fail("full", fmt.Errorf("%d is neither 0 nor 1", full))
	}
	p.Positions = readList(r, "positions", 3, func() Position {
		return Position{Resource: r.resource(), Version: r.str("version")}
	})
	p.Missing = readList(r, "missing", 3, func() Missing {
		return Missing{Resource: r.resource(), Since: Time(r.varint("since")), Reason: r.str("reason")}
	})
	if r.err == nil {
		r.fail("watched", p.check())
	}
	return p
}

func (w *jsonWriter) watched(p *Watched) {
	w.fail("watched", p.check())
	if p.Full {
		w.name("full")
		w.b = append(w.b, "true"...)
	}
	known := func(res Resource) {
		if infoByResource[res] == nil && !IsOwn(res) {
			w.fail("resource", fmt.Errorf("unknown resource %q", res))
		}
	}
	writeList(w, "positions", p.Positions, func(x Position) {
		known(x.Resource)
		w.open('{')
		w.str("resource", string(x.Resource))
		w.str("version", x.Version)
		w.close('}')
	})
	writeList(w, "missing", p.Missing, func(x Missing) {
		known(x.Resource)
		w.open('{')
		w.str("resource", string(x.Resource))
		w.str("since", x.Since.String())
		w.strIfSet("reason", strings.ToValidUTF8(x.Reason, "\uFFFD"))
		w.close('}')
	})
}

type jsonWatched struct {
	jsonHeader
	Full      bool           `json:"full"`
	Positions []jsonPosition `json:"positions"`
	Missing   []jsonMissing  `json:"missing"`
}

type jsonPosition struct {
	Resource Resource `json:"resource"`
	Version  string   `json:"version"`
}

type jsonMissing struct {
	Resource Resource `json:"resource"`
	Since    string   `json:"since"`
	Reason   string   `json:"reason"`
}

func (j *jsonWatched) payload() (Payload, error) {
	p := &Watched{Full: j.Full}
	for _, x := range j.Positions {
		if infoByResource[x.Resource] == nil && !IsOwn(x.Resource) {
			return nil, fmt.Errorf("unknown resource %q", x.Resource)
		}
		p.Positions = append(p.Positions, Position(x))
	}
	for _, x := range j.Missing {
		if infoByResource[x.Resource] == nil && !IsOwn(x.Resource) {
			return nil, fmt.Errorf("unknown resource %q", x.Resource)
		}
		since, err := parseTime(x.Since)
		if err != nil {
			return nil, fmt.Errorf("since: %w", err)
		}
		p.Missing = append(p.Missing, Missing{Resource: x.Resource, Since: since, Reason: x.Reason})
	}
	return p, p.check()
}

// A Gap is a time since which changes of some resources may be missing, for one reason.
type Gap struct {
	Since     Time
	Reason    string
	Resources []Resource
}

// Gaps returns the parts of Missing with the same time and reason together, in the order of times.
func (p *Watched) Gaps() (gaps []Gap) {
	for _, m := range p.Missing {
		i := slices.IndexFunc(gaps, func(g Gap) bool { return g.Since == m.Since && g.Reason == m.Reason })
		if i < 0 {
			i, gaps = len(gaps), append(gaps, Gap{Since: m.Since, Reason: m.Reason})
		}
		gaps[i].Resources = append(gaps[i].Resources, m.Resource)
	}
	slices.SortStableFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.Since, b.Since) })
	return gaps
}

// Words says what may be missing up to a time, in one sentence.
func (g *Gap) Words(until Time) string {
	names := make([]string, len(g.Resources))
	for i, res := range g.Resources {
		names[i] = string(res)
	}
	which := strings.Join(names, ", ")
	const most = 4
	if more := len(names) - most; more > 0 {
		which = fmt.Sprintf("%s and %d other resources", strings.Join(names[:most], ", "), more)
	}
	text := fmt.Sprintf("changes between %s and %s may be missing, of %s", clock(g.Since), clock(until), which)
	if g.Reason != "" {
		text += ": " + g.Reason
	}
	return text
}

// clock is a time in UTC in whole seconds.
func clock(t Time) string { return t.Std().Format("2006-01-02 15:04:05Z") }
