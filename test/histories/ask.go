package histories

import (
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
)

// askWithin is the time that one server may take to answer a question of the history's own.
const askWithin = 300 * time.Millisecond

// ask asks the running servers for something of JetStream's API, one after the other, until one answers. An error in
// the answer is not an error here. It does not use the links.
func (h *history) ask(subject string, out any) bool {
	for _, s := range h.servers {
		s.mu.Lock()
		port := s.ports.Client
		s.mu.Unlock()
		if port > 0 && askServer(s.addr(port), subject, out) == nil {
			return true
		}
	}
	return false
}

func askServer(addr, subject string, out any) error {
	nc, err := nats.Connect("nats://"+addr, nats.Timeout(askWithin), nats.NoReconnect())
	if err != nil {
		return err
	}
	defer nc.Close()
	m, err := nc.Request("$JS.API."+subject, nil, askWithin)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, out)
}

// streamLeader returns the name of the server that leads the stream, "" if nobody says so.
func (h *history) streamLeader() string {
	var info struct {
		Cluster struct{ Leader string }
	}
	h.ask("STREAM.INFO."+h.stream, &info)
	return info.Cluster.Leader
}

// stepDown makes the stream's leader step down.
func (h *history) stepDown() {
	var answer struct{ Success bool }
	h.ask("STREAM.LEADER.STEPDOWN."+h.stream, &answer)
	h.say("the stream's leader has stepped down: %v", answer.Success)
}

// awaitServers waits until the servers answer together.
func (h *history) awaitServers() error {
	return h.await("the servers have a leader", time.Minute, func() bool {
		return h.ask("STREAM.INFO."+h.stream, &struct{}{})
	})
}

// allCurrent reports whether every server has all of the stream.
func (h *history) allCurrent() bool {
	var info struct {
		Cluster struct {
			Leader   string
			Replicas []struct {
				Current, Offline bool
			}
		}
	}
	if !h.ask("STREAM.INFO."+h.stream, &info) || info.Cluster.Leader == "" ||
		len(info.Cluster.Replicas) != servers-1 {
		return false
	}
	for _, r := range info.Cluster.Replicas {
		if r.Offline || !r.Current {
			return false
		}
	}
	return true
}
