package histories

import (
	"fmt"
	"slices"
	"time"
)

// killScheduler kills a scheduler with SIGKILL; it is started again at the end.
type killScheduler struct{ Scheduler int }

func (m killScheduler) String() string { return nameOfScheduler(m.Scheduler) + " is killed" }

func (m killScheduler) begin(h *history) (func() error, error) {
	s := h.schedulerAt(m.Scheduler)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down++
	h.say("process %s is killed", s.id)
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.down--
		return nil
	}, s.process.kill()
}

// stopScheduler suspends a scheduler with SIGSTOP.
type stopScheduler struct{ Scheduler int }

func (m stopScheduler) String() string { return nameOfScheduler(m.Scheduler) + " is suspended" }

func (m stopScheduler) begin(h *history) (func() error, error) {
	s := h.schedulerAt(m.Scheduler)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.say("process %s is suspended", s.id)
	return s.process.resume, s.process.suspend()
}

// cutScheduler cuts a scheduler off the servers, or one of them.
type cutScheduler struct {
	Scheduler int
	Way       way
	From      []int // the servers; nil for all
	Broken    bool  // its connections are closed, and new ones refused
}

func (m cutScheduler) String() string {
	from := "all servers"
	if m.From != nil {
		from = fmt.Sprintf("servers %v", m.From)
	}
	if m.Broken {
		return fmt.Sprintf("the connections of %s to %s are broken", nameOfScheduler(m.Scheduler), from)
	}
	return fmt.Sprintf("%s is cut off from %s, %s", nameOfScheduler(m.Scheduler), from, m.Way)
}

func (m cutScheduler) begin(h *history) (func() error, error) {
	var links []*link
	at := h.schedulerAt(m.Scheduler)
	for i, s := range h.servers {
		if m.From == nil || slices.Contains(m.From, i) {
			links = append(links, h.link(at.name, s.name))
		}
	}
	for _, l := range links {
		if m.Broken {
			l.sever()
		} else {
			l.cut(m.Way)
		}
	}
	return func() error {
		for _, l := range links {
			if m.Broken {
				l.join()
			} else {
				l.repair(m.Way)
			}
		}
		return nil
	}, nil
}

// cutCluster cuts a scheduler off the virtual cluster, and so off the lease.
type cutCluster struct {
	Scheduler int
	Way       way
}

func (m cutCluster) String() string {
	return fmt.Sprintf("%s is cut off from the cluster, %s", nameOfScheduler(m.Scheduler), m.Way)
}

func (m cutCluster) begin(h *history) (func() error, error) {
	l := h.link(h.schedulerAt(m.Scheduler).name, apiServer)
	l.cut(m.Way)
	return func() error {
		l.repair(m.Way)
		return nil
	}, nil
}

// killServer ends a server, and starts it again on its store.
type killServer struct {
	Server  int
	InOrder bool // with SIGTERM; else with SIGKILL
}

func (m killServer) String() string {
	if m.InOrder {
		return nameOfServer(m.Server) + " is shut down"
	}
	return nameOfServer(m.Server) + " is killed"
}

func (m killServer) begin(h *history) (func() error, error) {
	s := h.serverAt(m.Server)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down++
	h.say("server %s goes", s.name)
	if !m.InOrder {
		h.lose(s)
		return func() error { return h.bringBack(s) }, s.process.kill()
	}
	err := s.process.end(5 * time.Second)
	h.lose(s)
	return func() error { return h.bringBack(s) }, err
}

// bringBack ends one fault that keeps a server from running.
func (h *history) bringBack(s *natsServer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down--; s.down > 0 || !s.process.ended() {
		return nil
	}
	return h.startServer(s)
}

// restartEnded restarts the servers that have ended on their own, as they may when they cannot write.
func (h *history) restartEnded() {
	for _, s := range h.servers {
		s.mu.Lock()
		if s.process.ended() {
			h.say("server %s has ended by itself (%v) and is started again", s.name, s.process.err)
			h.lose(s)
			if err := h.startServer(s); err != nil {
				h.failed(err)
			}
		}
		s.mu.Unlock()
	}
}

// stopServer suspends a server with SIGSTOP.
type stopServer struct{ Server int }

func (m stopServer) String() string { return nameOfServer(m.Server) + " is suspended" }

func (m stopServer) begin(h *history) (func() error, error) {
	s := h.serverAt(m.Server)
	s.mu.Lock()
	defer s.mu.Unlock()
	h.say("server %s is suspended", s.name)
	return s.process.resume, s.process.suspend()
}

// cutServer cuts a server off the others. Way up is the direction from it.
type cutServer struct {
	Server int
	Way    way
	Broken bool // the connections are closed, and new ones refused
	// With are schedulers on its side of a partition. The others are cut off from it, and these from the other
	// servers. nil does not affect schedulers.
	With []int
}

func (m cutServer) String() string {
	out := fmt.Sprintf("%s is cut off from the others, %s", nameOfServer(m.Server), m.Way)
	if m.Broken {
		out = fmt.Sprintf("the connections of %s to the others are broken", nameOfServer(m.Server))
	}
	for _, i := range m.With {
		out += " with " + nameOfScheduler(i)
	}
	return out
}

func (m cutServer) begin(h *history) (func() error, error) {
	s := h.serverAt(m.Server)
	h.say("server %s is cut off", s.name)
	var undo []func()
	hold := func(l *link, w way) {
		if m.Broken {
			l.sever()
			undo = append(undo, l.join)
			return
		}
		l.cut(w)
		undo = append(undo, func() { l.repair(w) })
	}
	for _, other := range h.servers {
		if other != s {
			hold(h.link(s.name, other.name), m.Way)
			hold(h.link(other.name, s.name), m.Way.opposite())
		}
	}
	if m.With != nil {
		m.partition(h, s, hold)
	}
	return func() error {
		for _, f := range undo {
			f()
		}
		return nil
	}, nil
}

// partition cuts the schedulers off the servers of the other side.
func (m cutServer) partition(h *history, s *natsServer, hold func(*link, way)) {
	var with []*scheduling
	for _, i := range m.With {
		with = append(with, h.schedulerAt(i))
	}
	for _, member := range h.members {
		here := slices.Contains(with, member)
		for _, server := range h.servers {
			if here != (server == s) {
				hold(h.link(member.name, server.name), both)
			}
		}
	}
}

// opposite is the way back.
func (w way) opposite() way {
	if w == both {
		return both
	}
	return both &^ w
}

// moveStream has the stream's leader step down.
type moveStream struct{}

func (moveStream) String() string { return "the stream's leader steps down" }

func (moveStream) begin(h *history) (func() error, error) {
	h.stepDown()
	return nil, nil
}

// hangBinds stops the cluster from carrying out and answering binds. The binds of a scheduler that is killed meanwhile
// are never carried out.
type hangBinds struct{}

func (hangBinds) String() string { return "the cluster answers no bind" }

func (hangBinds) begin(h *history) (func() error, error) {
	h.cluster.hang(1)
	return func() error {
		h.cluster.hang(-1)
		return nil
	}, nil
}

// lie has the lease tell everyone that it may lead.
type lie struct{}

func (lie) String() string { return "the lease tells everyone that it may lead" }

func (lie) begin(h *history) (func() error, error) {
	h.cluster.lie()
	return func() error {
		h.cluster.honest()
		return nil
	}, nil
}

// fillDisk makes the disk of a server full. The server, which may have given up JetStream, is started again at the
// end.
type fillDisk struct{ Server int }

func (m fillDisk) String() string { return "the disk of " + nameOfServer(m.Server) + " is full" }

// enlargedDisk is the size of a disk after it was full.
const enlargedDisk = 64 << 20

func (m fillDisk) begin(h *history) (func() error, error) {
	s := h.serverAt(m.Server)
	h.say("the disk of %s is full", s.name)
	s.disk.Fill(h.t)
	return func() error {
		s.disk.Resize(h.t, enlargedDisk)
		s.mu.Lock()
		h.lose(s)
		s.down++
		err := s.process.kill()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		return h.bringBack(s)
	}, nil
}

// fillsDisks reports whether a fault of the plan fills the disk of a server.
func (p *Plan) fillsDisks() bool {
	return slices.ContainsFunc(p.Faults, func(f Fault) bool {
		_, is := f.What.(fillDisk)
		return is
	})
}

// restartServers shuts each server down and starts it again, one after the other, as an upgrade does: each once the
// one before has caught up. It is over when it returns.
type restartServers struct{}

func (restartServers) String() string { return "the servers are restarted one after the other" }

func (restartServers) begin(h *history) (func() error, error) {
	for i, s := range h.servers {
		back, err := killServer{Server: i, InOrder: true}.begin(h)
		if err != nil {
			return nil, err
		}
		time.Sleep(500 * time.Millisecond)
		if err := back(); err != nil {
			return nil, err
		}
		if err := h.await("all servers have everything after "+s.name, time.Minute, h.allCurrent); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
