package histories

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "unsafe" // for linkname

	"github.com/nats-io/nats-server/v2/server"
)

// serverRole is the configuration of a NATS server's process.
type serverRole struct {
	Name    string
	Host    string      // the address that it listens at
	Ports   serverPorts // server.RANDOM_PORT for any
	Cluster string      // the name of the cluster of servers
	Store   string      // its folder
	Routes  []string    // host:port of the links to all servers
	Log     string      // its own log, for people who read the folder of a failed history
	Usual   bool        // elections take the usual time
}

// serverPorts is its output: a line of JSON on its standard output, once it listens.
type serverPorts struct{ Client, Cluster int }

// Elections of NATS servers take 4 to 9 seconds and the loss of a majority is noticed after 10. Here all of it is as
// many times faster, so that a history has several of them.
const hurry = 5

//go:linkname minElectionTimeout github.com/nats-io/nats-server/v2/server.minElectionTimeout
var minElectionTimeout time.Duration

//go:linkname maxElectionTimeout github.com/nats-io/nats-server/v2/server.maxElectionTimeout
var maxElectionTimeout time.Duration

//go:linkname hbInterval github.com/nats-io/nats-server/v2/server.hbInterval
var hbInterval time.Duration

//go:linkname lostQuorumInterval github.com/nats-io/nats-server/v2/server.lostQuorumInterval
var lostQuorumInterval time.Duration

//go:linkname lostQuorumCheck github.com/nats-io/nats-server/v2/server.lostQuorumCheck
var lostQuorumCheck time.Duration

// run is a NATS server, until the process is asked to end.
func (r serverRole) run() error {
	if !r.Usual {
		for _, d := range []*time.Duration{
			&minElectionTimeout, &maxElectionTimeout, &hbInterval, &lostQuorumInterval, &lostQuorumCheck,
		} {
			*d /= hurry
		}
	}
	opts := &server.Options{
		ServerName: r.Name, Host: r.Host, Port: r.Ports.Client, NoSigs: true, LogFile: r.Log, Logtime: true,
		JetStream: true, StoreDir: r.Store, SyncAlways: true, JetStreamMaxStore: 1 << 30, JetStreamMaxMemory: 1 << 26,
		MaxPayload: 64 << 10, // appends are often more than one message
		// Nobody learns another way to a server than its links.
		Cluster: server.ClusterOpts{
			Name: r.Cluster, Host: r.Host, Port: r.Ports.Cluster, NoAdvertise: true, Advertise: "127.0.0.1:1",
		},
		PingInterval: time.Second, MaxPingsOut: 3, WriteDeadline: 5 * time.Second,
	}
	for _, route := range r.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: route})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	for began := time.Now(); s.ClusterAddr() == nil || !s.ReadyForConnections(time.Second); {
		if time.Since(began) > time.Minute {
			return fmt.Errorf("NATS server %s does not start, see %s", r.Name, r.Log)
		}
		time.Sleep(5 * time.Millisecond)
	}
	line, err := json.Marshal(serverPorts{portOf(s.Addr()), s.ClusterAddr().Port})
	if err != nil {
		return err
	}
	if _, err := fmt.Println(string(line)); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
