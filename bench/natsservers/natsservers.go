// Package natsservers runs NATS servers with JetStream in this process, for benchmarks and for tests at a real cluster.
//
// Start reading at Start.
package natsservers

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Servers are running servers: one, or a cluster of several.
type Servers []*server.Server

// patience is the time that servers have to start and to elect a leader.
const patience = 20 * time.Second

// Start starts so many servers, which store in folders of dir and sync what they acknowledge, and waits until they are
// ready. They listen on this machine alone.
func Start(dir string, count int) (Servers, error) {
	s, err := start(dir, count)
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start NATS servers: %w", err)
	}
	return s, nil
}

// Stop ends the servers.
func (s Servers) Stop() {
	for _, one := range s {
		one.Shutdown()
		one.WaitForShutdown()
	}
}

// Name returns the name of a log in a stream of the servers, kept by each of them.
func (s Servers) Name(stream string) string {
	var hosts []string
	for _, one := range s {
		hosts = append(hosts, one.Addr().String())
	}
	return fmt.Sprintf("nats://%s/%s?replicas=%d", strings.Join(hosts, ","), stream, len(s))
}

// start returns the servers that were started with an error, too.
func start(dir string, count int) (servers Servers, err error) {
	var routes []*url.URL
	var ports []int
	for range count {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	for i := range count {
		opts := &server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), SyncAlways: true,
		}
		if count > 1 {
			opts.Cluster = server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: ports[i]}
			opts.Routes = routes
		}
		s, err := server.NewServer(opts)
		if err != nil {
			return servers, err
		}
		s.Start()
		servers = append(servers, s)
	}
	for _, s := range servers {
		if !s.ReadyForConnections(patience) {
			return servers, errors.New("one does not take connections")
		}
	}
	for began := time.Now(); count > 1 && !servers.hasLeader(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			return servers, errors.New("they elect no leader")
		}
	}
	return servers, nil
}

func (s Servers) hasLeader() bool {
	for _, one := range s {
		if one.JetStreamIsLeader() {
			return true
		}
	}
	return false
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
