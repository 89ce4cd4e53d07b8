package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/internal/smalldisk"
)

// servers is the number of NATS servers of a history. All of them keep the log.
const servers = 3

// placedWithin is the time, after the end of all faults, within which everything that fits has to be placed. It is
// many times as long as elections, reconnections and backoffs take on a busy machine.
const placedWithin = 90 * time.Second

// A history is one that is being made.
type history struct {
	plan     Plan
	t        testing.TB
	dir      string
	stream   string
	network  *network // nil for proxies
	links    map[string]*link
	servers  []*natsServer
	members  []*scheduling
	cluster  *cluster
	workload *workload

	mu     sync.Mutex
	log    *os.File
	over   bool // no process is started any more
	lost   bool // a scheduler has called the log damaged: it will place nothing else
	wrong  error
	tended sync.WaitGroup
}

// A natsServer is one of the three, whatever process it is.
type natsServer struct {
	name, store string
	host        string          // its address
	disk        *smalldisk.Disk // nil for the default one

	mu      sync.Mutex
	process *process
	ports   serverPorts // zero while it does not run
	down    int         // number of faults that keep it from running
}

// addr is the address of one of the server's ports.
func (s *natsServer) addr(port int) string { return net.JoinHostPort(s.host, strconv.Itoa(port)) }

// A scheduling is one of the schedulers, whatever process it is. One that ends is started again.
type scheduling struct {
	name string

	mu      sync.Mutex
	process *process
	id      string // of the process
	runs    int    // number of processes so far
	down    int
}

// Make makes a history and returns its recording. Its folder is removed with the test unless that has failed.
func Make(t testing.TB, p Plan) *Recording {
	t.Helper()
	h, err := newHistory(t, p)
	if err != nil {
		t.Fatal(err)
	}
	defer h.log.Close()
	r, err := h.make()
	h.end()
	if err = errors.Join(err, h.wrong); err != nil {
		t.Errorf("%s\nthe history cannot be made: %v", p, err)
		return nil
	}
	return r
}

// newHistory returns one that is ready to begin, and to end.
func newHistory(t testing.TB, p Plan) (*history, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollcall-history-")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if t.Failed() || os.Getenv("ROLLCALL_KEEP") != "" {
			t.Logf("everything that was noted is kept in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	h := &history{plan: p, t: t, dir: dir, links: map[string]*link{}, stream: filepath.Base(dir)}
	if h.log, err = os.Create(filepath.Join(dir, "history.log")); err != nil {
		return nil, err
	}
	h.say("%s", p)
	return h, nil
}

// say writes to the history's log.
func (h *history) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.log, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// failed notes that the history cannot be made.
func (h *history) failed(err error) {
	h.say("it fails: %v", err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = errors.Join(h.wrong, err)
}

func (h *history) make() (*Recording, error) {
	if err := h.begin(); err != nil {
		return nil, err
	}
	bound := func() bool { return len(h.cluster.called()) > 0 }
	if err := h.await("something is bound", time.Minute, bound); err != nil {
		return nil, err
	}
	end, working := make(chan struct{}), sync.WaitGroup{}
	working.Go(func() { h.workload.run(end) })
	h.goWrong()
	close(end)
	working.Wait()
	h.say("all faults are over")
	h.workload.last()
	healed := time.Now()
	for len(h.workload.waiting()) > 0 && time.Since(healed) < placedWithin && !h.isLost() {
		time.Sleep(20 * time.Millisecond)
	}
	waiting := h.workload.waiting()
	h.say("%d pods wait after %s", len(waiting), time.Since(healed).Round(time.Millisecond))
	if err := h.endSchedulers(); err != nil {
		return nil, err
	}
	return h.record(waiting)
}

// await waits until something holds.
func (h *history) await(what string, most time.Duration, holds func() bool) error {
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most {
			return fmt.Errorf("after %s it is not so that %s", most, what)
		}
	}
	h.say("%s", what)
	return nil
}

// begin starts everything.
func (h *history) begin() (err error) {
	if err := h.makeNetwork(); err != nil {
		return err
	}
	listen, err := h.listen()
	if err != nil {
		return err
	}
	h.cluster = newCluster(listen)
	h.cluster.lease.term = h.plan.leaseTerm()
	if h.plan.Fill != nil {
		h.plan.Fill(h.cluster)
	}
	h.workload = newWorkload(h.cluster, h.plan.Seed, h.plan.Every, h.plan.Fat)
	h.workload.addPod("", "")
	for i := range servers {
		s := &natsServer{name: serverName(i), store: filepath.Join(h.dir, serverName(i)), host: loopback}
		if h.network != nil {
			s.host = h.network.addrOf(s.name)
		}
		if h.plan.fillsDisks() {
			s.disk = smalldisk.New(h.t)
			s.store = s.disk.Root
		}
		h.servers = append(h.servers, s)
	}
	for i := range h.plan.Schedulers {
		h.members = append(h.members, &scheduling{name: schedulerName(i)})
	}
	if err := h.makeLinks(); err != nil {
		return err
	}
	for _, s := range h.servers {
		if err := h.startServer(s); err != nil {
			return err
		}
	}
	if err := h.awaitServers(); err != nil {
		return err
	}
	for i, m := range h.members {
		if err := h.startScheduler(i); err != nil {
			return err
		}
		h.tended.Go(func() { h.tend(i, m) })
	}
	return nil
}

// loopback is the address of everyone where there is no network.
const loopback = "127.0.0.1"

func serverName(i int) string { return fmt.Sprint("n", i) }

func schedulerName(i int) string { return fmt.Sprint("s", i) }

// makeNetwork makes the network, if the plan has one.
func (h *history) makeNetwork() (err error) {
	if !h.plan.Networked {
		return nil
	}
	hosts := []string{apiServer}
	for i := range servers {
		hosts = append(hosts, serverName(i))
	}
	for i := range h.plan.Schedulers {
		hosts = append(hosts, schedulerName(i))
	}
	h.network, err = newNetwork(hosts, h.failed)
	return err
}

// The ports of the hosts of a network. Elsewhere each process gets one.
const (
	clusterPort    = "8080"
	portForClients = 4222
	portForCluster = 6222
	anyPort        = server.RANDOM_PORT
)

// listen listens for clients of the virtual cluster.
func (h *history) listen() (net.Listener, error) {
	if h.network != nil {
		return h.network.listen(apiServer, clusterPort)
	}
	return net.Listen("tcp", loopback+":0")
}

// makeLinks makes the links between all that talk to one another.
func (h *history) makeLinks() error {
	for _, s := range h.servers {
		for _, other := range h.servers {
			if err := h.makeLink(other.name, s.name, strconv.Itoa(portForCluster)); err != nil {
				return err
			}
		}
		for _, m := range h.members {
			if err := h.makeLink(m.name, s.name, strconv.Itoa(portForClients)); err != nil {
				return err
			}
		}
	}
	for _, m := range h.members {
		if err := h.makeLink(m.name, apiServer, clusterPort); err != nil {
			return err
		}
		h.link(m.name, apiServer).lead(h.cluster.addr())
	}
	return nil
}

// makeLink makes a link from one host to another; port is the port of the other in a network.
func (h *history) makeLink(from, to, port string) (err error) {
	name := linkName(from, to)
	if h.network != nil {
		h.links[name] = &link{name: name, wire: &wire{h.network, from, to, port}}
		return nil
	}
	h.links[name], err = newLink(name)
	return err
}

// start starts a process, in its host.
func (h *history) start(name string, r roles) (p *process, err error) {
	begin := func() error {
		p, err = startProcess(r, filepath.Join(h.dir, name+".err"))
		return err
	}
	if h.network != nil {
		return p, h.network.at(name, begin)
	}
	return p, begin()
}

// apiServer is the name of the virtual cluster in links.
const apiServer = "api"

func linkName(from, to string) string { return from + ">" + to }

func (h *history) link(from, to string) *link { return h.links[linkName(from, to)] }

// startServer starts a server, whose links lead to it once it listens. It is locked by the caller, or known to nobody
// else.
func (h *history) startServer(s *natsServer) error {
	role := serverRole{Name: s.name, Host: s.host, Ports: serverPorts{anyPort, anyPort}, Cluster: h.stream,
		Store: s.store, Log: filepath.Join(h.dir, s.name+".log"), Usual: h.plan.Usual}
	if h.network != nil {
		role.Ports = serverPorts{portForClients, portForCluster}
	}
	for _, other := range h.servers {
		role.Routes = append(role.Routes, h.link(s.name, other.name).addr())
	}
	p, err := h.start(s.name, roles{Server: &role})
	if err != nil {
		return err
	}
	s.process = p
	line, err := p.firstLine()
	if err == nil {
		err = json.Unmarshal(line, &s.ports)
	}
	if err != nil {
		return fmt.Errorf("server %s does not start (%w): see %s", s.name, err, h.dir)
	}
	for _, other := range h.servers {
		h.link(other.name, s.name).lead(s.addr(s.ports.Cluster))
	}
	for _, m := range h.members {
		h.link(m.name, s.name).lead(s.addr(s.ports.Client))
	}
	return nil
}

// lose disconnects all links from a server that is about to end: another process may get its ports.
func (h *history) lose(s *natsServer) {
	for _, other := range h.servers {
		h.link(other.name, s.name).lead("")
	}
	for _, m := range h.members {
		h.link(m.name, s.name).lead("")
	}
	s.ports = serverPorts{}
}

// logName is the log's name for a scheduler, or, for "", for a process without links.
func (h *history) logName(of string, patience time.Duration) string {
	var hosts []string
	for _, s := range h.servers {
		if of != "" {
			hosts = append(hosts, h.link(of, s.name).addr())
			continue
		}
		s.mu.Lock()
		if s.ports.Client > 0 {
			hosts = append(hosts, s.addr(s.ports.Client))
		}
		s.mu.Unlock()
	}
	return fmt.Sprintf("nats://%s/%s?patience=%s", strings.Join(hosts, ","), h.stream, patience)
}

// startScheduler starts a process of a scheduler, which is locked by the caller or known to nobody else.
func (h *history) startScheduler(i int) error {
	m := h.members[i]
	m.runs++
	m.id = fmt.Sprintf("%s.%d", m.name, m.runs)
	role := schedulerRole{Name: m.id, Log: h.logName(m.name, h.plan.Patience),
		Cluster: "http://" + h.link(m.name, apiServer).addr(), Dir: h.dir, Stubborn: i < h.plan.Stubborn,
		Slow: h.plan.Slow, Lease: h.plan.leaseTerm()}
	p, err := h.start(m.name, roles{Scheduler: &role})
	if err != nil {
		return err
	}
	m.process = p
	if _, err := p.firstLine(); err != nil {
		return fmt.Errorf("scheduler %s does not start (%w): see %s", m.id, err, h.dir)
	}
	return nil
}

// restartAfter is the pause between the end of a scheduler and its restart.
const restartAfter = 100 * time.Millisecond

// tend starts a scheduler again whenever it has ended, until the history is over.
func (h *history) tend(i int, m *scheduling) {
	for {
		m.mu.Lock()
		p := m.process
		m.mu.Unlock()
		<-p.done
		time.Sleep(restartAfter)
		m.mu.Lock()
		h.mu.Lock()
		over := h.over
		h.lost = h.lost || p.cmd.ProcessState.ExitCode() == exitDamaged
		h.mu.Unlock()
		if over {
			m.mu.Unlock()
			return
		}
		if m.down == 0 && m.process.ended() {
			if err := h.startScheduler(i); err != nil {
				h.failed(err)
				m.mu.Unlock()
				return
			}
			h.say("scheduler %s is started", m.id)
		}
		m.mu.Unlock()
	}
}

func (h *history) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// endSchedulers ends them in order.
func (h *history) endSchedulers() error {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	var ends sync.WaitGroup
	for _, m := range h.members {
		ends.Go(func() {
			m.mu.Lock()
			p := m.process
			m.mu.Unlock()
			if p == nil {
				return
			}
			if err := p.end(10 * time.Second); err != nil {
				h.failed(err)
			}
		})
	}
	ends.Wait()
	h.tended.Wait()
	return nil
}

// end ends whatever is left.
func (h *history) end() {
	if err := h.endSchedulers(); err != nil {
		h.failed(err)
	}
	for _, s := range h.servers {
		if s.process != nil {
			if err := s.process.kill(); err != nil {
				h.failed(err)
			}
		}
	}
	for _, l := range h.links { // any order
		l.close()
	}
	if h.cluster != nil {
		h.cluster.close()
	}
	if h.network != nil {
		h.network.close()
	}
}

const (
	// readWithin is the time for reading the log at the end.
	readWithin = time.Minute
	// heardWithin is the time within which every server learns the others' data: they elect a leader and catch up.
	heardWithin = 20 * time.Second
)

// record gathers what is known.
func (h *history) record(waiting []string) (*Recording, error) {
	r := &Recording{Calls: h.cluster.called(), Gangs: map[string]int{}, Waiting: waiting}
	var err error
	if r.Notes, err = readNotes(h.dir); err != nil {
		return nil, err
	}
	for _, p := range h.cluster.pods() {
		r.Pods = append(r.Pods, EndPod{Name: p.Name, UID: string(p.UID), Gang: gangOf(p), Node: p.Spec.NodeName})
	}
	for _, g := range h.cluster.groups() {
		if p := g.Spec.SchedulingPolicy.Gang; p != nil {
			r.Gangs[g.Name] = int(p.MinCount)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	r.Reading = h.readLog(ctx, r)
	// A server that was cut off reports for some seconds the old end of the log. Lost entries stay lost.
	for began := time.Now(); len(r.Entries) < r.acknowledged() && time.Since(began) < heardWithin; {
		h.say("a server says that the log has %d entries, and %d were acknowledged: it is read again", len(r.Entries),
			r.acknowledged())
		time.Sleep(200 * time.Millisecond)
		r.Entries, r.Hashes = nil, nil
		r.Reading = h.readLog(ctx, r)
	}
	h.say("the log has %d entries; %v", len(r.Entries), r.Reading)
	return r, nil
}

// readLog reads the log as it stands.
func (h *history) readLog(ctx context.Context, r *Recording) error {
	at, err := jetstream.Parse(h.logName("", 30*time.Second))
	if err != nil {
		return err
	}
	log, err := at.OpenReadOnly(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	for record, err := range log.Records(ctx, 1) {
		if err != nil {
			return err
		}
		if err := r.record(record); err != nil {
			return err
		}
	}
	return nil
}
