// Package faults is a proxy between a scheduler and the API server that breaks answers: binds that are refused, lost,
// or carried out and then answered with an error; watches that end, lag or have expired.
//
//	p := faults.ForTest(t, c, faults.Options{Seed: 1, Rules: faults.Everything(0.1)})
//	s := schedulers.ForTest(t, c, schedulers.Options{Server: p.URL()})
//
// Whether a request meets a fault depends on the seed, on the content of the request, and on the number of earlier
// equal requests; not on the order of different requests.
package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// Fault is the fault of a request.
type Fault string

// The faults of requests that change something. The ones that begin with Lost never reach the API server, and the ones
// that begin with Done are carried out before they are answered.
const (
	// Lost409 is answered 409 Conflict.
	Lost409 Fault = "lost, answered 409"
	// Lost429 is answered 429 Too Many Requests, to be tried again after a second.
	Lost429 Fault = "lost, answered 429"
	// Lost500 is answered 500 Internal Server Error.
	Lost500 Fault = "lost, answered 500"
	// LostTimeout is answered 504 after Rule.Delay.
	LostTimeout Fault = "lost, answered 504 late"
	// LostReset resets the connection, which ends every other request on it too.
	LostReset Fault = "lost, connection reset"
	// Done409, Done500, DoneTimeout and DoneReset are carried out and then answered so.
	Done409     Fault = "done, answered 409"
	Done500     Fault = "done, answered 500"
	DoneTimeout Fault = "done, answered 504 late"
	DoneReset   Fault = "done, connection reset"
	// FalseSuccess is answered 201 and never reaches the API server, which no real one does.
	FalseSuccess Fault = "lost, answered 201"
	// Late is carried out and answered as it is, after Rule.Delay.
	Late Fault = "done, answered late"
	// Slow reaches the API server after Rule.Delay, unless the client has gone by then.
	Slow Fault = "done late"
)

// The faults of watches.
const (
	// WatchClosed ends a watch after Rule.Delay.
	WatchClosed Fault = "watch closed"
	// WatchLate delivers everything that the watch says Rule.Delay later, until Rule.Life ends it.
	WatchLate Fault = "watch late"
	// Watch410 answers a watch with 410 Gone: what it wants to continue from has expired.
	Watch410 Fault = "watch answered 410"
)

// Kind is a kind of requests that a rule is about.
type Kind string

const (
	Binds     Kind = "binds"
	Deletions Kind = "deletions of pods"
	Statuses  Kind = "statuses"
	Watches   Kind = "watches"
)

// kindOf says about which kind a request is; empty for others.
func kindOf(r *http.Request) Kind {
	q := r.URL.Query()
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/binding"):
		return Binds
	case r.Method == http.MethodDelete && strings.Contains(path, "/pods/"):
		return Deletions
	case strings.HasSuffix(path, "/status") && r.Method != http.MethodGet:
		return Statuses
	case r.Method == http.MethodGet && (q.Get("watch") == "true" || q.Get("watch") == "1"):
		return Watches
	}
	return ""
}

// Rule has a share of the requests of a kind meet a fault.
type Rule struct {
	Kind  Kind
	Fault Fault
	// Probability is the share, from 0 to 1.
	Probability float64
	// Delay is the time of faults that take one; 1 s if it is 0.
	Delay time.Duration
	// Life is the time after which a late watch gets no more events; 0: when the API server ends it, which takes
	// minutes.
	Life time.Duration
	// Most is the number of times that the fault happens at most; 0 for any number.
	Most int
}

// Everything is every fault of binds and watches, FalseSuccess excepted, at the same probability.
func Everything(probability float64) []Rule {
	var rules []Rule
	for _, f := range BindFaults() {
		rules = append(rules, Rule{Kind: Binds, Fault: f, Probability: probability})
	}
	return append(rules,
		Rule{Kind: Watches, Fault: WatchClosed, Probability: probability, Delay: 2 * time.Second},
		Rule{Kind: Watches, Fault: WatchLate, Probability: probability, Delay: time.Second},
		Rule{Kind: Watches, Fault: Watch410, Probability: probability})
}

// BindFaults are the faults that an API server and a network may cause to a bind.
func BindFaults() []Fault {
	return []Fault{
		Lost409, Lost429, Lost500, LostTimeout, LostReset, Done409, Done500, DoneTimeout, DoneReset, Late, Slow,
	}
}

// Options say what a proxy does.
type Options struct {
	// Seed chooses the requests that meet a fault.
	Seed uint64
	// Rules are tried in order; the first that applies decides.
	Rules []Rule
	// User is the user of all clients for the API server; "scheduler" if it is empty. Groups are the user's; nil:
	// system:masters.
	User   string
	Groups []string
}

// Proxy is a running proxy. It follows the API server over restarts.
type Proxy struct {
	server  *http.Server
	url     string
	forward *httputil.ReverseProxy
	dice    *Dice
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// ruleKey is the key of the rule that a watch has met in its context.
type ruleKey struct{}

// Start starts a proxy before the cluster's API server.
func Start(c *cluster.Cluster, o Options) (*Proxy, error) {
	if o.User == "" {
		o.User = "scheduler"
	}
	if o.Groups == nil {
		o.Groups = []string{"system:masters"}
	}
	id, err := c.Identity(o.User, o.Groups...)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Config().CAData)
	target, err := url.Parse(c.URL())
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	p := &Proxy{dice: NewDice(o.Seed, o.Rules), url: "https://" + listener.Addr().String()}
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval:  -1,
		ModifyResponse: breakWatch,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
			ForceAttemptHTTP2: true,
		},
		ErrorLog: log.New(io.Discard, "", 0),
		// The API server does not answer: neither does the proxy.
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) { reset(r) },
	}
	p.server = &http.Server{
		Handler:   p,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}},
		ErrorLog:  log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
	return p, nil
}

// ForTest starts a proxy for a test, and ends it with the test.
func ForTest(t testing.TB, c *cluster.Cluster, o Options) *Proxy {
	t.Helper()
	p, err := Start(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Logf("faults: %v", p.Counts())
		_ = p.Close()
	})
	return p
}

// URL is the place where the proxy listens. Its certificate is signed by the cluster's authority.
func (p *Proxy) URL() string { return p.url }

// Close ends the proxy and every connection to it.
func (p *Proxy) Close() error { return p.server.Close() }

// SetRules replaces the rules, from the next request on.
func (p *Proxy) SetRules(rules []Rule) { p.dice.setRules(rules) }

// Counts is the number of times that each fault has happened.
func (p *Proxy) Counts() map[Fault]int { return p.dice.counted() }

// ServeHTTP forwards a request, or breaks it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rule, ok := p.dice.Roll(kindOf(r), r.Method+" "+r.URL.Path)
	if !ok {
		p.forward.ServeHTTP(w, r)
		return
	}
	switch rule.Fault {
	case WatchClosed, WatchLate:
		p.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ruleKey{}, rule)))
		return
	case Watch410:
		answer(w, http.StatusGone, metav1.StatusReasonExpired)
		return
	case Done409, Done500, DoneTimeout, DoneReset:
		p.forward.ServeHTTP(&nowhere{header: http.Header{}}, r)
	case Slow:
		if sleep(r.Context(), rule.Delay); r.Context().Err() == nil {
			p.forward.ServeHTTP(w, r)
		}
		return
	case Late:
		p.forward.ServeHTTP(&lateWriter{ResponseWriter: w, delay: rule.Delay, ctx: r.Context()}, r)
		return
	}
	switch rule.Fault {
	case Lost409, Done409:
		answer(w, http.StatusConflict, metav1.StatusReasonConflict)
	case Lost429:
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	case Lost500, Done500:
		answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case LostTimeout, DoneTimeout:
		sleep(r.Context(), rule.Delay)
		answer(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	case FalseSuccess:
		answer(w, http.StatusCreated, "")
	default:
		reset(r)
	}
}

// answer writes a Status, as the API server does.
func answer(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: "planted by the proxy: " + http.StatusText(code),
	}
	if code/100 == 2 {
		s.Status, s.Message = metav1.StatusSuccess, ""
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// reset resets the connection of a request: the other end notices, and unread data is lost.
func reset(r *http.Request) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if t, ok := conn.(*tls.Conn); ok {
		if tcp, ok := t.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
	panic(http.ErrAbortHandler)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
