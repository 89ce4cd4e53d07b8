package localapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// maxTrouble is the largest size in bytes of a server's error message.
const maxTrouble = 64 << 10

// idleTime is the time that a reader waits for the next byte. It is a variable only for the tests.
var idleTime = 10 * time.Second

// errSilent says that the scheduler has not ended, but sends nothing.
var errSilent = errors.New("told nothing for too long")

// client reads from the scheduler whose log is in dir.
type client struct {
	path string // of the socket
	http http.Client
}

func newClient(dir string) *client {
	path := filepath.Join(dir, socketName)
	return &client{path, http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			short, done, err := shorten(path)
			if err != nil {
				return nil, err
			}
			defer done()
			return new(net.Dialer).DialContext(ctx, "unix", short)
		},
	}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) get(ctx context.Context, query string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://scheduler/v1/"+query, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, brokenOff(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	answer := fmt.Errorf("%s: the scheduler answers %s: %s", c.path, resp.Status, strings.TrimSpace(string(text)))
	if resp.StatusCode == http.StatusTooManyRequests {
		answer = &crowdedError{answer}
	}
	return nil, errors.Join(answer, err, resp.Body.Close())
}

// A crowdedError says that the scheduler already sends its log to as many readers as it allows.
type crowdedError struct{ err error }

// Error implements error.
func (e *crowdedError) Error() string { return e.err.Error() }

func (c *client) info(ctx context.Context) (info Info, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("it has not answered for %v", dialTime))
	defer cancel()
	body, err := c.get(ctx, "log")
	if err != nil {
		return info, err
	}
	defer body.Close()
	err = json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&info)
	return info, err
}

// A brokenOffError says that the scheduler stopped sending without an explanation: it has ended, or is about to.
type brokenOffError struct{ err error }

// Error implements error.
func (e *brokenOffError) Error() string { return fmt.Sprintf("the scheduler told no more: %v", e.err) }

// Unwrap returns the cause.
func (e *brokenOffError) Unwrap() error { return e.err }

// brokenOff classifies err, with which a request to the scheduler has failed. ctx is the request's context.
func brokenOff(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return &brokenOffError{err}
}

// A waiting reader cancels ctx, with errSilent, when it has waited too long.
type waiting struct {
	io.Reader
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (w waiting) Read(p []byte) (int, error) {
	defer time.AfterFunc(idleTime, func() { w.cancel(errSilent) }).Stop()
	return w.Reader.Read(p)
}

// records yields the records behind end, up to entry to. Each continues the chain. Its errors are a *brokenOffError, a
// *crowdedError, errSilent, ctx's cause, an *eventlog.DamagedError, or the reason why the scheduler cannot read its
// own log.
func (c *client) records(ctx context.Context, end eventlog.Chain, to uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		answer := time.AfterFunc(idleTime, func() { cancel(errSilent) })
		body, err := c.get(ctx, fmt.Sprintf("records?from=%d&to=%d", end.Seq+1, to))
		answer.Stop()
		if err != nil {
			yield(eventlog.Record{}, err)
			return
		}
		defer body.Close()
		in := bufio.NewReaderSize(waiting{body, cancel}, 1<<16)
		var buf []byte
		for end.Seq < to {
			if buf, err = readRecord(in, buf); err != nil {
				if why := context.Cause(ctx); why != nil {
					err = why
				}
				yield(eventlog.Record{}, err)
				return
			}
			r, err := end.Record(buf)
			if err != nil {
				yield(r, eventlog.DamageAt(c.path, end.Seq+1, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// readRecord reads the next record into buf, or the error that the scheduler sends in its place.
func readRecord(in *bufio.Reader, buf []byte) ([]byte, error) {
	buf, err := readFrame(in, buf, eventlog.MaxRecord)
	if err != nil || len(buf) > 0 {
		return buf, err
	}
	said, err := readFrame(in, nil, maxTrouble)
	if err != nil {
		return buf, err
	}
	var t trouble
	if err := json.Unmarshal(said, &t); err != nil {
		return buf, fmt.Errorf("what the scheduler says of an error: %w", err)
	}
	return buf, t.err()
}

// readFrame reads a frame of at most most bytes. It allocates memory as the bytes come: a length alone cannot make it
// allocate.
func readFrame(in *bufio.Reader, buf []byte, most uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return buf, &brokenOffError{err}
	}
	if n > most {
		return buf, fmt.Errorf("a record of %d bytes: want at most %d", n, most)
	}
	for buf = buf[:0]; uint64(len(buf)) < n; {
		step := min(int(n)-len(buf), max(1<<16, len(buf)))
		buf = slices.Grow(buf, step)[:len(buf)+step]
		if _, err := io.ReadFull(in, buf[len(buf)-step:]); err != nil {
			return buf, &brokenOffError{err}
		}
	}
	return buf, nil
}
