package jetstream_test

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// A cluster is three servers that can be shut down and started again.
type cluster struct {
	opts    []*server.Options
	servers []*server.Server
}

// startCluster starts three servers with JetStream.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{servers: make([]*server.Server, 3)}
	var routes []*url.URL
	ports := make([]int, 3)
	for i := range ports {
		ports[i] = freePort(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	for i := range ports {
		c.opts = append(c.opts, &server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: freePort(t), NoSigs: true, NoLog: true,
			JetStream: true,
			StoreDir:  t.TempDir(), Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
			Routes: routes,
		})
		c.start(t, i)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.stop(i)
		}
	})
	c.ready(t)
	return c
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	s, err := server.NewServer(c.opts[i].Clone())
	must(t, err)
	c.servers[i] = s
	s.Start()
}

func (c *cluster) stop(i int) {
	c.servers[i].Shutdown()
	c.servers[i].WaitForShutdown()
}

// ready waits until a leader is there and all follow it.
func (c *cluster) ready(t *testing.T) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		for _, s := range c.servers {
			if s.Running() && s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers) {
				return
			}
		}
	}
	t.Fatal("the servers have no leader")
}

// current waits until all servers have all of a stream.
func (c *cluster) current(t *testing.T, stream string) {
	t.Helper()
	_, js := connected(t, c.servers[0])
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		held, err := js.Stream(t.Context(), stream)
		if err != nil {
			continue
		}
		replicas := held.CachedInfo().Cluster.Replicas
		if len(replicas) == len(c.servers)-1 && !slices.ContainsFunc(replicas, func(p *natsjs.PeerInfo) bool {
			return !p.Current || p.Offline
		}) {
			return
		}
	}
	t.Fatalf("not all servers have all of the stream %s", stream)
}

// address returns the address of a stream that all servers keep.
func (c *cluster) address(t *testing.T, stream string) *jetstream.Address {
	t.Helper()
	hosts := make([]string, 0, len(c.opts))
	for _, o := range c.opts {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", o.Port))
	}
	return parse(t, "nats://"+strings.Join(hosts, ",")+"/"+stream)
}

// Two of three servers are lost permanently, so the third one has no leader. A reader gets all its messages, and
// learns that there may be more.
func TestALogIsReadFromTheLastServer(t *testing.T) {
	c := startCluster(t)
	log, err := c.address(t, "jobs").Create(t.Context(), eventlog.Origin{})
	must(t, err)
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 500)))
	must(t, log.Append(t.Context(), 500, logtest.Entries(501, 500)))
	must(t, log.Close())
	c.current(t, "jobs")
	c.stop(1)
	c.stop(2)
	a := parse(t, c.servers[0].ClientURL()+"/jobs?patience=40s")
	nc, _ := connected(t, c.servers[0])
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // until it has noticed
		m, err := nc.Request("$JS.API.STREAM.MSG.GET.jobs", []byte(`{"seq":1}`), time.Second)
		if err == nil && strings.Contains(string(m.Data), "10008") {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the server has a leader still")
		}
	}
	reader, err := a.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	if !errors.Is(reader.Behind(), jetstream.ErrNoMajority) {
		t.Errorf("behind: %v, want %v", reader.Behind(), jetstream.ErrNoMajority)
	}
	wantEntries(t, reader, 1000)
	if ok, err := reader.Reaches(t.Context(), 1001); ok || !errors.Is(err, jetstream.ErrNoMajority) {
		t.Errorf("entry 1001 is reached: %t, error %v, want %v", ok, err, jetstream.ErrNoMajority)
	}
}

// Each of three servers is shut down and started again while a log is appended to. No append fails, none is stored
// twice, and the log has the same entries as the log in memory.
func TestServersAreRestartedUnderAWriter(t *testing.T) {
	c := startCluster(t)
	log, err := c.address(t, "jobs").Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	restarts := make(chan bool)
	go func() {
		defer close(restarts)
		for i := range c.servers {
			c.stop(i)
			time.Sleep(200 * time.Millisecond)
			c.start(t, i)
			c.ready(t)
		}
	}()
	last, longest := 0, time.Duration(0)
	for done := false; !done; {
		select {
		case <-restarts:
			done = true
		default:
		}
		began := time.Now()
		must(t, log.Append(t.Context(), uint64(last), logtest.Entries(uint64(last)+1, 20)))
		last += 20
		longest = max(longest, time.Since(began))
	}
	t.Logf("%d entries, the longest append took %s", last, longest)
	wantEntries(t, log, last)
	wantSameAsMemory(t, log, last)
}

// If there are two writers, the one that appends last owns the log. The other's next append adds nothing and says so,
// whichever server leads the stream, and whichever was shut down in between.
func TestTheWriterBeforeIsSuperseded(t *testing.T) {
	c := startCluster(t)
	first, err := c.address(t, "jobs").Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer first.Close()
	must(t, first.Append(t.Context(), 0, logtest.Entries(1, 10)))
	second, err := c.address(t, "jobs").Open(t.Context())
	must(t, err)
	defer second.Close()
	c.stop(0)
	must(t, second.Append(t.Context(), 10, logtest.Entries(11, 5)))
	for range 2 {
		var superseded *eventlog.SupersededError
		err := first.Append(t.Context(), 10, logtest.Entries(11, 7))
		if !errors.As(err, &superseded) || superseded.Actual != 15 {
			t.Errorf("the writer before appends: error %v, want that it is superseded up to entry 15", err)
		}
	}
	wantEntries(t, second, 15)
}
