package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/cobra"
)

// newServers is the command that runs NATS servers for a benchmark of a log in JetStream.
func newServers() *cobra.Command {
	var (
		count int
		dir   string
	)
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Run NATS servers with JetStream in one process, until it is ended",
		Long: `Runs NATS servers with JetStream that sync what they acknowledge (sync_interval: always), and prints a log's
name with which they are reached. They listen on this machine alone. What they store is removed at the end.`,
		Example: "  bench servers --count 3 > name &\n  rollcall bench --log \"$(cat name)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count != 1 && count != 3 && count != 5 {
				return fmt.Errorf("--count is %d: want 1, 3 or 5", count)
			}
			work, err := os.MkdirTemp(dir, "rollcall-nats-")
			if err != nil {
				return err
			}
			servers, err := startServers(work, count)
			if err == nil {
				hosts := strings.Join(addresses(servers), ",")
				fmt.Fprintf(cmd.OutOrStdout(), "nats://%s/try?replicas=%d\n", hosts, count)
				<-cmd.Context().Done()
			}
			for _, s := range servers {
				s.Shutdown()
				s.WaitForShutdown()
			}
			return errors.Join(err, os.RemoveAll(work))
		},
	}
	cmd.Flags().IntVar(&count, "count", 1, "how many servers: 1, 3 or 5")
	cmd.Flags().StringVar(&dir, "dir", "", "a directory on the file system that they store on; default: that for "+
		"temporary files")
	return cmd
}

func addresses(servers []*server.Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr().String())
	}
	return all
}

// startServers starts servers, one cluster if there are several, and waits until they have a leader. Those that were
// started are returned with an error, too.
func startServers(dir string, count int) (servers []*server.Server, err error) {
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
		if !s.ReadyForConnections(20 * time.Second) {
			return servers, errors.New("a NATS server does not start")
		}
	}
	for began := time.Now(); count > 1; time.Sleep(50 * time.Millisecond) {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				return servers, nil
			}
		}
		if time.Since(began) > 20*time.Second {
			return servers, errors.New("the NATS servers elect no leader")
		}
	}
	return servers, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
