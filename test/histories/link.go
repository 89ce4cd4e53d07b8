package histories

import (
	"bytes"
	"fmt"
	"net"
	"sync"
)

// A way is a direction of a link.
type way uint8

const (
	up   way = 1 << iota // from the one that connects
	down                 // to it
	both = up | down
)

// String names the direction.
func (w way) String() string {
	return map[way]string{up: "up", down: "down", both: "both ways"}[w]
}

// A link is the network from one process to another: a TCP proxy, whose port stays the same for the whole history
// whatever port the other process gets. While a direction is cut, its data is held, as TCP would hold it, and arrives
// once the link is repaired, even if its sender is dead by then. A broken link closes its connections.
//
// In a network of real hosts there is no proxy: a cut is a cut of the network.
type link struct {
	name   string
	listen net.Listener
	wire   *wire // nil for a proxy

	mu       sync.Mutex
	repaired sync.Cond // a cut has ended, or the link
	target   string    // "" while no process listens there
	cuts     [4]int    // number of faults that cut a direction, by way
	broken   int       // number of faults that refuse connections
	closed   bool
	conns    map[net.Conn]bool
	seen     func(chunk []byte) // called with data sent up, if it is a publish, before the data is passed on
}

func newLink(name string) (*link, error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", name, err)
	}
	l := &link{name: name, listen: listen, conns: map[net.Conn]bool{}}
	l.repaired.L = &l.mu
	go l.accept()
	return l, nil
}

// A wire is a link in a network of real hosts: from one host to a port of another.
type wire struct {
	network        *network
	from, to, port string
}

// errNoProxy is the panic of a fault that only a proxy can perform.
const errNoProxy = "this fault needs links that are proxies"

// addr is the address to connect to.
func (l *link) addr() string {
	if l.wire != nil {
		return net.JoinHostPort(l.wire.network.addrOf(l.wire.to), l.wire.port)
	}
	return l.listen.Addr().String()
}

// lead lets new connections go to target.
func (l *link) lead(target string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
}

// cut holds the data of a direction; repair ends one cut of it.
func (l *link) cut(w way) {
	if l.wire != nil {
		l.wire.change(w, l.wire.network.cut)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range []way{up, down} {
		if w&one != 0 {
			l.cuts[one]++
		}
	}
}

func (l *link) repair(w way) {
	if l.wire != nil {
		l.wire.change(w, l.wire.network.repair)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range []way{up, down} {
		if w&one != 0 {
			l.cuts[one]--
		}
	}
	l.repaired.Broadcast()
}

// change cuts or repairs directions.
func (w *wire) change(ways way, change func(from, to string)) {
	if ways&up != 0 {
		change(w.from, w.to)
	}
	if ways&down != 0 {
		change(w.to, w.from)
	}
}

// sever closes all connections, and each new one, until join.
func (l *link) sever() {
	if l.wire != nil {
		panic(errNoProxy)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken++
	l.drop()
}

func (l *link) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken--
}

// drop closes all connections.
func (l *link) drop() {
	for c := range l.conns { // any order
		_ = c.Close()
	}
	l.repaired.Broadcast()
}

// watch calls f with the next publish of a log's writer before it is passed on; a nil f ends that.
func (l *link) watch(f func(chunk []byte)) {
	if l.wire != nil {
		panic(errNoProxy)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = f
}

func (l *link) close() {
	if l.wire != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.listen.Close()
	l.drop()
}

func (l *link) accept() {
	for {
		c, err := l.listen.Accept()
		if err != nil {
			return
		}
		go l.carry(c)
	}
}

// carry connects one connection on to the target.
func (l *link) carry(near net.Conn) {
	defer near.Close()
	l.mu.Lock()
	target, refused := l.target, l.broken > 0 || l.closed
	l.mu.Unlock()
	if refused || target == "" {
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	if l.broken > 0 || l.closed {
		l.mu.Unlock()
		return
	}
	l.conns[near], l.conns[far] = true, true
	l.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { l.copy(far, near, up) })
	ways.Go(func() { l.copy(near, far, down) })
	ways.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, near)
	delete(l.conns, far)
}

// copy copies one direction. When the sender has ended, its data still arrives, and then the end.
func (l *link) copy(to, from net.Conn, w way) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.pass(to, buf[:n], w) {
			return
		}
		if err != nil {
			l.pass(to, nil, w) // a cut link does not show that a connection was closed
			return
		}
	}
}

// publishHeader is in every publish of a log's writer.
var publishHeader = []byte("Nats-Expected-")

// pass passes a chunk on once its direction is not cut.
func (l *link) pass(to net.Conn, chunk []byte, w way) bool {
	l.mu.Lock()
	if w == up && l.seen != nil && bytes.Contains(chunk, publishHeader) {
		seen := l.seen
		l.seen = nil
		l.mu.Unlock()
		seen(chunk)
		l.mu.Lock()
	}
	for l.cuts[w] > 0 && !l.closed && l.broken == 0 {
		l.repaired.Wait()
	}
	l.mu.Unlock()
	_, err := to.Write(chunk)
	return err == nil
}
