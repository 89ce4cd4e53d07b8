package histories

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A network is a network of real hosts. Each has a network namespace of its own, joined by a cable to a router, which
// is the namespace of the test's process. A cut is a rule of the router that drops the packets from one host to
// another. The kernels of both do what they do in any network: they send again, wait longer each time, and give up.
// Dropped packets are not reported, and arrive later only if their sender repeats them.
type network struct {
	failed func(error)

	mu    sync.Mutex
	hosts map[string]*host
	cuts  map[[2]string]int // number of faults that cut the packets from one host to another
}

// A host is one in a network.
type host struct {
	addr      string
	namespace *os.File // keeps it
}

// newNetwork makes a network of hosts. The process is in a network namespace of its own already (InNetwork).
func newNetwork(names []string, failed func(error)) (*network, error) {
	n := &network{failed: failed, hosts: map[string]*host{}, cuts: map[[2]string]int{}}
	for _, name := range names {
		if _, ok := n.hosts[name]; ok {
			continue
		}
		h, err := newHost()
		if err != nil {
			n.close()
			return nil, fmt.Errorf("make the host %s: %w", name, err)
		}
		n.hosts[name] = h
	}
	return n, nil
}

var (
	madeHosts   int // in this process, to give them different addresses
	madeHostsMu sync.Mutex
)

func newHost() (*host, error) {
	madeHostsMu.Lock()
	madeHosts++
	k := madeHosts
	madeHostsMu.Unlock()
	if k > 255 {
		return nil, errors.New("there are no more addresses")
	}
	namespace, err := newNamespace()
	if err != nil {
		return nil, err
	}
	h := &host{addr: fmt.Sprintf("10.77.%d.2", k), namespace: namespace}
	router, port := fmt.Sprintf("10.77.%d.1", k), fmt.Sprint("host", k)
	err = ip(
		fmt.Sprintf("link add %s type veth peer name eth0 netns /proc/%d/fd/%d", port, os.Getpid(), namespace.Fd()),
		fmt.Sprintf("address add %s/30 dev %s", router, port),
		fmt.Sprintf("link set %s up", port),
	)
	if err == nil {
		err = h.within(func() error {
			return ip("link set lo up", "address add "+h.addr+"/30 dev eth0", "link set eth0 up",
				"route add default via "+router)
		})
	}
	if err != nil {
		_ = namespace.Close()
		return nil, err
	}
	return h, nil
}

// newNamespace makes a network namespace, which is there as long as the file is open or a process is in it.
func newNamespace() (namespace *os.File, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return namespace, err
}

// within calls f on a thread that is in the host: so are sockets that it opens, and processes that it starts.
func (h *host) within(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(h.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a namespace: %w", err)
		}
		return f()
	})
}

// onThread calls f, which may leave its thread in another network namespace.
func onThread(f func() error) error {
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer here.Close()
	ferr := f()
	if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(fmt.Sprintf("a thread cannot come back from a network namespace: %v", err)) // any code may run on it
	}
	runtime.UnlockOSThread()
	return ferr
}

// ip gives commands to ip(8), in order.
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %q: %w: %s", commands, err, bytes.TrimSpace(out))
	}
	return nil
}

// addrOf is the address of a host.
func (n *network) addrOf(name string) string { return n.hosts[name].addr }

// listen listens at a host.
func (n *network) listen(name, port string) (l net.Listener, err error) {
	h := n.hosts[name]
	err = h.within(func() error {
		l, err = net.Listen("tcp", net.JoinHostPort(h.addr, port))
		return err
	})
	return l, err
}

// at calls f on a thread that is in a host.
func (n *network) at(name string, f func() error) error { return n.hosts[name].within(f) }

// cut drops the packets from one host to another, until repair was called as often.
func (n *network) cut(from, to string) { n.change(from, to, 1) }

func (n *network) repair(from, to string) { n.change(from, to, -1) }

func (n *network) change(from, to string, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	way := [2]string{from, to}
	before := n.cuts[way]
	n.cuts[way] += by
	verb := ""
	switch {
	case before == 0 && by > 0:
		verb = "add"
	case before == 1 && by < 0:
		verb = "delete"
	default:
		return
	}
	if err := ip(fmt.Sprintf("rule %s from %s to %s priority 100 blackhole", verb, n.addrOf(from),
		n.addrOf(to))); err != nil {
		n.failed(err)
	}
}

func (n *network) close() {
	for _, h := range n.hosts { // any order
		_ = h.namespace.Close()
	}
}

// networkVariable is set in the process whose network namespace is the router.
const networkVariable = "ROLLCALL_HISTORIES_NETWORK"

// InNetwork starts this test's binary again, with a network namespace of its own, in which the histories of real
// networks can be made (Networked). It returns the output and the error of that process. In that process run is false:
// it continues. missing names the machine's missing prerequisites.
func InNetwork(args ...string) (run bool, out []byte, missing string, err error) {
	if os.Getenv(networkVariable) != "" {
		return false, nil, "", becomeRouter()
	}
	if missing := lacksNetworks(); missing != "" {
		return true, nil, missing, nil
	}
	self, err := os.Executable()
	if err != nil {
		return true, nil, "", err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), networkVariable+"=1")
	cmd.SysProcAttr = ownNetwork()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	out, err = cmd.CombinedOutput()
	return true, out, "", err
}

// ownNetwork has a process be in a network namespace of its own; of a user who is not root, in a user namespace in
// which that is root.
func ownNetwork() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// lacksNetworks names this machine's missing prerequisites for a network; "" for none. It tries it in a namespace of
// its own.
func lacksNetworks() string {
	if _, err := exec.LookPath("ip"); err != nil {
		return "ip, of iproute2, is not installed"
	}
	for _, command := range []string{
		"link add probe0 type veth peer name probe1", "rule add from 10.77.0.1 to 10.77.0.2 priority 100 blackhole",
	} {
		cmd := exec.Command("ip", strings.Fields(command)...)
		cmd.SysProcAttr = ownNetwork()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Sprintf("a network namespace of one's own does not take \"ip %s\": %v: %s", command, err,
				bytes.TrimSpace(out))
		}
	}
	return ""
}

// becomeRouter has packets that come from one host continue to another.
func becomeRouter() error {
	if err := ip("link set lo up"); err != nil {
		return err
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}
