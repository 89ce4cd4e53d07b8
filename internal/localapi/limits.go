package localapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// limits bound the resources that a server's clients may use. docs/RELIABILITY.md has the same figures.
type limits struct {
	// readers is the largest number of requests for records at a time. Each takes at most 512 KiB, and the memory for
	// the largest of its records.
	readers int
	// connections is the largest number of connections at a time, more than readers. A client that loses its
	// connection to a new one has to ask again.
	connections int
	// ask is the time that a client may take for a request, from its connection or its last answer on.
	ask time.Duration
	// take is the time that a client may take for 64 KiB of an answer.
	take time.Duration
}

// defaultLimits is a variable only for the tests.
var defaultLimits = limits{readers: 64, connections: 256, ask: 10 * time.Second, take: 30 * time.Second}

const (
	// maxHeader is the largest size of a request in bytes, except for 4 KiB that net/http adds.
	maxHeader = 4 << 10
	// maxWrite is the number of bytes written at a time.
	maxWrite = 64 << 10
)

// connections are the open connections of a server. If there are too many, the newest one stays and another one is
// closed: the one that has been idle for longest. If none is idle, it is the one whose request has taken longest. A
// connection with a request for records is closed only if all others have one too.
type connections struct {
	most int
	mu   sync.Mutex
	open []*connection // the one that has been longest in its state comes first
}

type connection struct {
	net.Conn
	state http.ConnState
	told  bool // its request is for records, and has a place among the readers
}

// silent reports whether the connection has no request under way.
func (c *connection) silent() bool { return c.state == http.StateNew || c.state == http.StateIdle }

// changed is called by net/http with each new state of a connection.
func (l *connections) changed(c net.Conn, state http.ConnState) {
	if surplus := l.note(c, state); surplus != nil {
		_ = surplus.Close()
	}
}

// note records a connection's new state, and returns the connection that has to be closed for it.
func (l *connections) note(c net.Conn, state http.ConnState) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.find(c)
	is := &connection{Conn: c}
	switch {
	case at >= 0:
		is = l.open[at]
		l.open = slices.Delete(l.open, at, at+1)
	case state != http.StateNew:
		return nil // it had to be closed
	}
	if state == http.StateClosed || state == http.StateHijacked {
		return nil
	}
	is.state = state
	l.open = append(l.open, is)
	if len(l.open) <= l.most {
		return nil
	}
	others := l.open[:len(l.open)-1]
	at = slices.IndexFunc(others, (*connection).silent)
	if at < 0 {
		at = slices.IndexFunc(others, func(c *connection) bool { return !c.told })
	}
	if at < 0 {
		at = len(others)
	}
	surplus = l.open[at].Conn
	l.open = slices.Delete(l.open, at, at+1)
	return surplus
}

func (l *connections) find(c net.Conn) int {
	return slices.IndexFunc(l.open, func(o *connection) bool { return o.Conn == c })
}

// tell records whether the connection of a request is used to send records.
func (l *connections) tell(ctx context.Context, told bool) {
	c, _ := ctx.Value(connectionKey{}).(net.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.find(c); at >= 0 {
		l.open[at].told = told
	}
}

// connectionKey is the key of the connection in a request's context.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// A pacedWriter writes an answer in pieces. The client has to take each one in time.
type pacedWriter struct {
	io.Writer
	answer *http.ResponseController
	take   time.Duration
}

// Write implements io.Writer.
func (w pacedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), maxWrite)]
		if err := w.answer.SetWriteDeadline(time.Now().Add(w.take)); err != nil {
			return n, err
		}
		m, err := w.Writer.Write(piece)
		if n += m; err != nil {
			return n, err
		}
		p = p[m:]
	}
	return n, nil
}

// withoutBody refuses requests with a body: no handler reads one, and net/http would wait for it.
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // or else ReadTimeout ends the wait for the body
		http.Error(w, "want a request without a body", http.StatusBadRequest)
	})
}
