package localapi

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// limits are what a server's clients may take at the most. docs/RELIABILITY.md has the same figures.
type limits struct {
	// readers is how many requests for records are answered at a time. Each takes 512 KiB at the most, and what the
	// largest record takes that it comes to.
	readers int
	// connections is how many connections there are at a time. Whoever has none of them, because it is silent, has to
	// ask again.
	connections int
	// ask is how long a client may take for a request, from its connection or its last answer on.
	ask time.Duration
	// take is how long a client may take for 64 KiB of an answer.
	take time.Duration
}

// defaultLimits is a variable for the tests alone.
var defaultLimits = limits{readers: 64, connections: 256, ask: 10 * time.Second, take: 30 * time.Second}

const (
	// maxHeader is how many bytes a request has at the most, but for 4 KiB that net/http adds.
	maxHeader = 4 << 10
	// maxWrite is how many bytes are written at a time.
	maxWrite = 64 << 10
)

// connections are the open connections of a server. If there are too many, the one that has been silent for longest is
// closed.
type connections struct {
	most   int
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	silent []net.Conn // of the open ones, those that have no request under way, the longest silent first
}

// changed is called by net/http with each new state of a connection.
func (l *connections) changed(c net.Conn, state http.ConnState) {
	if surplus := l.note(c, state); surplus != nil {
		_ = surplus.Close()
	}
}

// note takes down a connection's new state, and returns the connection that has to go for it.
func (l *connections) note(c net.Conn, state http.ConnState) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == http.StateNew {
		l.open[c] = struct{}{}
	}
	l.silent = slices.DeleteFunc(l.silent, func(o net.Conn) bool { return o == c })
	if _, open := l.open[c]; !open {
		return nil
	}
	switch state {
	case http.StateNew, http.StateIdle:
		l.silent = append(l.silent, c)
	case http.StateClosed, http.StateHijacked:
		delete(l.open, c)
	}
	if len(l.open) <= l.most || len(l.silent) == 0 {
		return nil
	}
	surplus, l.silent = l.silent[0], l.silent[1:]
	delete(l.open, surplus)
	return surplus
}

// A pacedWriter writes an answer in pieces, each of which the client has to take in time.
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

// withoutBody refuses requests that have a body: nobody reads one, and net/http would wait for it.
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
