package jetstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
)

const (
	// firstAnswer is the time to wait for an answer before the question is repeated. answerTime is the longest such
	// time, after many repetitions (backoff.answer). A server that has no leader, or that is shutting down, does not
	// answer: a long wait for it would waste time while others could answer.
	firstAnswer = time.Second
	answerTime  = 5 * time.Second
	// oldestServer is the first version with atomic publish.
	oldestMajor, oldestMinor = 2, 12
)

// A conn is a connection to the servers of an Address. It is safe for concurrent use.
type conn struct {
	at         *Address
	nc         *nats.Conn
	api        string // the prefix of every subject of JetStream's API
	reconnects atomic.Uint64
	base       uint64         // the message after which the log's entries begin; 0 for 1, see trim.go
	origin     eventlog.Chain // the chain's end there, if base is not 0
	anyone     bool           // messages are read from any server: the stream had no leader that most servers follow

	mu      sync.Mutex
	waiting map[int]waiter // requests in progress, by number
	next    int
}

// A waiter is a request in progress.
type waiter struct {
	subject string
	fail    context.CancelCauseFunc
}

// dial connects. role becomes a part of the connection's name, after the stream.
func (a *Address) dial(role string) (*conn, error) {
	c := &conn{at: a, api: "$JS.API.", waiting: make(map[int]waiter)}
	if a.Domain != "" {
		c.api = "$JS." + a.Domain + ".API."
	}
	opts, err := a.options(role, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a, err)
	}
	c.nc, err = nats.Connect(a.urls(), opts...)
	if err != nil {
		return nil, a.explainConnect(err)
	}
	if v := c.nc.ConnectedServerVersion(); isOlder(v) {
		c.close()
		return nil, fmt.Errorf("%s: the server is nats-server %s: a log needs %d.%d or later, for its atomic publish: "+
			"upgrade the servers", a, v, oldestMajor, oldestMinor)
	}
	return c, nil
}

// isOlder reports whether a server's version has no atomic publish.
func isOlder(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false // a custom build: the stream's settings will show it
	}
	return major < oldestMajor || major == oldestMajor && minor < oldestMinor
}

// first returns the message after which the log's entries begin.
func (c *conn) first() uint64 { return max(c.base, 1) }

func (a *Address) urls() string {
	scheme := "nats://"
	if a.TLS {
		scheme = "tls://"
	}
	return scheme + strings.Join(a.Servers, ","+scheme)
}

// options are the options of a connection. It reconnects automatically while it is open, queues no messages while
// disconnected, and detects within seconds that the other side has gone.
func (a *Address) options(role string, c *conn) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("rollcall " + role + " " + a.Stream), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.Timeout(2 * time.Second), nats.PingInterval(3 * time.Second), nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(min(answerTime, a.Patience)), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.failed(err) }),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.lost() }),
		nats.ReconnectHandler(func(*nats.Conn) { c.reconnects.Add(1) }),
	}
	for _, file := range []string{a.Creds, a.NKey, a.CA, a.Cert, a.Key} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return nil, err
		}
	}
	switch {
	case a.Creds != "":
		opts = append(opts, nats.UserCredentials(a.Creds))
	case a.NKey != "":
		nkey, err := nats.NkeyOptionFromSeed(a.NKey)
		if err != nil {
			return nil, fmt.Errorf("the NKey seed in %s: %w", a.NKey, err)
		}
		opts = append(opts, nkey)
	case a.Token != "":
		opts = append(opts, nats.Token(a.Token))
	case a.User != "":
		opts = append(opts, nats.UserInfo(a.User, a.Password))
	}
	if a.CA != "" {
		opts = append(opts, nats.RootCAs(a.CA))
	}
	if a.Cert != "" {
		opts = append(opts, nats.ClientCert(a.Cert, a.Key))
	}
	if a.dialer != nil {
		opts = append(opts, nats.SetCustomDialer(a.dialer(role)))
	}
	return opts, nil
}

// explainConnect adds advice to an error of connecting.
func (a *Address) explainConnect(err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
		return fmt.Errorf("%s: the server refuses who asks (%w): say who that is with creds=FILE, nkey=FILE, or "+
			"USER:PASSWORD@ before the host", a, err)
	}
	if problem := tlsProblem(err); problem != "" {
		return fmt.Errorf("%s: the server and Rollcall do not agree on TLS (%w): %s", a, err, problem)
	}
	return fmt.Errorf("%s: no server answers (%w): see that the address is right and that a NATS server runs "+
		"there", a, err)
}

// tlsProblem returns advice on an error of TLS; "" for others.
func tlsProblem(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "this server has none: write nats:// in place of tls://, or set tls in its configuration"
	case errors.As(err, &unknown):
		return "name who signed its certificate with ca=FILE"
	case errors.As(err, &host):
		return "its certificate is for other names than this address: use one of those"
	case errors.As(err, &invalid):
		return "its certificate is not to be trusted: renew it"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"):
		return "the server does not take what it is shown: it may want a client's certificate: cert=FILE and key=FILE"
	}
	return ""
}

// failed handles a server's error outside answers: it ends the requests whose subject is denied.
func (c *conn) failed(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting { // any order: each gets the same
		if strings.Contains(strings.ToLower(err.Error()), `"`+strings.ToLower(w.subject)+`"`) {
			w.fail(&deniedError{at: c.at, subject: w.subject})
		}
	}
}

// errLost ends requests whose connection is lost: their answers cannot come any more.
var errLost = errors.New("the connection was lost")

// lost handles the loss of the connection.
func (c *conn) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting { // any order: each gets the same
		w.fail(errLost)
	}
}

// deniedError says that a user may not do what a log needs.
type deniedError struct {
	at      *Address
	subject string
}

// Error implements error.
func (e *deniedError) Error() string {
	return fmt.Sprintf("%s: the server denies its user to publish to %s: allow that, or say with creds=, nkey= or "+
		"USER:PASSWORD@ who else asks; docs/HA.md has what a log needs", e.at, e.subject)
}

// asking makes a request on a subject fail when the server denies the subject. done ends it.
func (c *conn) asking(ctx context.Context, subject string) (asked context.Context, done func()) {
	ctx, fail := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	c.next++
	c.waiting[n] = waiter{subject, fail}
	return ctx, func() {
		fail(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, n)
	}
}

// request makes one request, and waits for its answer for the time wait.
func (c *conn) request(ctx context.Context, wait time.Duration, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := within(ctx, min(wait, c.at.Patience))
	defer cancel()
	ctx, done := c.asking(ctx, subject)
	defer done()
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m, err
}

// away are a server's answers that mean that no server can answer now: a stream, or the cluster, has no leader for a
// moment.
var away = []jetstream.ErrorCode{
	10008, // JetStream system temporarily unavailable
	10009, // JetStream cluster can not handle request
	10118, // stream is offline
}

// ask makes a request of JetStream's API. It repeats the request while no answer comes, or a server says that none can
// answer now (away), and patience lasts. The answer goes to out. If the servers answer with another error, that is a
// *jetstream.APIError.
func (c *conn) ask(ctx context.Context, what, subject string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := within(ctx, c.at.Patience)
	defer cancel()
	var pauses backoff
	for {
		m, err := c.request(ctx, pauses.answer(), c.api+subject, body)
		if err == nil {
			if err = c.answered(what, m, out); !hasCode(err, away...) {
				return err
			}
		}
		var denied *deniedError
		if errors.As(err, &denied) || errors.Is(err, nats.ErrConnectionClosed) {
			return err
		}
		if errors.Is(err, nats.ErrNoResponders) && c.nc.IsConnected() && !c.hasJetStream(ctx) {
			return fmt.Errorf("%s: the servers have no JetStream for this user: enable it in their configuration, "+
				"and for the user's account", c.at)
		}
		if !pauses.wait(ctx) {
			return fmt.Errorf("%s: %s: %w: see that the servers run, that most of them reach one another, and that "+
				"%s is allowed to its user", c.at, what, err, c.api+subject)
		}
	}
}

// hasJetStream reports whether any server answers for JetStream at all, or whether that is unknown.
func (c *conn) hasJetStream(ctx context.Context) bool {
	_, err := c.request(ctx, answerTime, c.api+"INFO", nil)
	return !errors.Is(err, nats.ErrNoResponders)
}

// answered decodes an answer.
func (c *conn) answered(what string, m *nats.Msg, out any) error {
	var failure struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &failure); err != nil {
		return fmt.Errorf("%s: %s: the answer cannot be read: %w", c.at, what, err)
	}
	if failure.Error != nil {
		switch failure.Error.ErrorCode {
		case jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
			return fmt.Errorf("%s: %s: %w: enable JetStream for the account", c.at, what, failure.Error)
		}
		return fmt.Errorf("%s: %s: %w", c.at, what, failure.Error)
	}
	return json.Unmarshal(m.Data, out)
}

// hasCode reports whether err is an error of JetStream with one of some codes.
func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, code := range codes {
		if api.ErrorCode == code {
			return true
		}
	}
	return false
}

func (c *conn) close() {
	if c != nil {
		c.nc.Close()
	}
}
