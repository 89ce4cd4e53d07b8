package jetstream_test

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// A wire makes connections, and lets the last one that it has made for appending, or for snapshots, lose what is sent,
// or what comes.
type wire struct {
	mu    sync.Mutex
	lasts map[string]*wiredConn
}

// over lets a log at a be reached over the wire.
func (w *wire) over(a *jetstream.Address) *jetstream.Address {
	jetstream.SetDialer(a, func(role string) nats.CustomDialer { return &wireDialer{w, role} })
	return a
}

// last returns the last connection for appending.
func (w *wire) last() *wiredConn { return w.lastOf("writes") }

// lastOf returns the last connection of a role.
func (w *wire) lastOf(role string) *wiredConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lasts[role]
}

type wireDialer struct {
	wire *wire
	role string
}

// Dial implements nats.CustomDialer.
func (d *wireDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	wired := &wiredConn{Conn: c}
	d.wire.mu.Lock()
	defer d.wire.mu.Unlock()
	if d.wire.lasts == nil {
		d.wire.lasts = make(map[string]*wiredConn)
	}
	d.wire.lasts[d.role] = wired
	return wired, nil
}

// A wiredConn is a connection that may lose what goes one way, as one does whose other end is cut off.
type wiredConn struct {
	net.Conn
	losesSent, losesAnswers atomic.Bool
	sees                    atomic.Pointer[func(sent []byte)] // nil for nobody
}

func (c *wiredConn) Write(b []byte) (int, error) {
	if sees := c.sees.Load(); sees != nil {
		(*sees)(b)
	}
	if c.losesSent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *wiredConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.losesAnswers.Load() {
			return n, err
		}
	}
}

// The two faults are the network's: what is published does not arrive, or its answer does not, and neither does what is
// asked after it.
func TestConformsWithFaults(t *testing.T) {
	s := startServer(t, nil)
	n := 0
	logtest.RunFaults(t, func(t *testing.T) logtest.Faulty {
		n++
		var w wire
		a := w.over(parse(t, fmt.Sprintf("nats://%s/log%d?replicas=1", s.Addr(), n)))
		log, err := a.Create(t.Context(), eventlog.Origin{})
		must(t, err)
		return logtest.Faulty{Log: log, Fail: func(log eventlog.Log, f logtest.Fault) {
			jetstream.Hasten(log, 300*time.Millisecond)
			if f == logtest.NotPersisted {
				w.last().losesSent.Store(true)
			} else {
				w.last().losesAnswers.Store(true)
			}
		}}
	})
}

// A lost answer leaves the outcome open. While patience lasts, the stream's messages are compared with the publish,
// and the append has succeeded, once.
func TestAnAppendWhoseAnswerIsLostIsFoundAndNotMadeAgain(t *testing.T) {
	s := startServer(t, nil)
	for _, size := range []int{1, 9000} { // one message, and a batch of several
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var w wire
			a := w.over(parse(t, fmt.Sprintf("nats://%s/answers%d?replicas=1&patience=20s", s.Addr(), size)))
			log, err := a.Create(t.Context(), eventlog.Origin{})
			must(t, err)
			defer log.Close()
			must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
			c := w.last()
			c.losesAnswers.Store(true)
			time.AfterFunc(300*time.Millisecond, func() { _ = c.Conn.Close() }) // then it connects again
			must(t, log.Append(t.Context(), 5, logtest.Entries(6, size)))
			must(t, log.Append(t.Context(), uint64(5+size), logtest.Entries(uint64(6+size), 3)))
			wantEntries(t, log, 8+size)
			wantSameAsMemory(t, log, 8+size)
		})
	}
}

// wantEntries checks that a log has n entries, each once.
func wantEntries(t *testing.T, log eventlog.Log, n int) {
	t.Helper()
	seq := uint64(0)
	for e, err := range log.Read(t.Context(), 1) {
		must(t, err)
		if seq++; e.Seq != seq {
			t.Fatalf("entry %d comes behind %d", e.Seq, seq-1)
		}
	}
	if seq != uint64(n) {
		t.Fatalf("the log has %d entries, want %d", seq, n)
	}
}

// wantSameAsMemory checks that the log has the records and the tree that the log in memory has of the same entries.
func wantSameAsMemory(t *testing.T, log eventlog.Log, n int) {
	t.Helper()
	memory := eventlog.NewMemory()
	must(t, memory.Append(t.Context(), 0, logtest.Entries(1, n)))
	want, err := eventlog.OriginAt(t.Context(), memory, uint64(n))
	must(t, err)
	got, err := eventlog.OriginAt(t.Context(), log, uint64(n))
	must(t, err)
	if got.End() != want.End() || !got.Tree.Equal(want.Tree) {
		t.Errorf("the log ends at %v with tree %x, want %v and "+
			"%x", got.End(), got.Tree.Root(), want.End(), want.Tree.Root())
	}
}
