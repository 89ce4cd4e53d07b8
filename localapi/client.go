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
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
)

// maxRecord bounds what a server can make a reader allocate: no record of a log is that large, since an object of the
// API server is not.
const maxRecord = 64 << 20

// client asks the scheduler whose log is in dir.
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
		return nil, &brokenOffError{err}
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return nil, errors.Join(fmt.Errorf("the scheduler answers %s: %s", resp.Status, strings.TrimSpace(string(text))), err, resp.Body.Close())
}

func (c *client) info(ctx context.Context) (info Info, err error) {
	body, err := c.get(ctx, "log")
	if err != nil {
		return info, err
	}
	defer body.Close()
	err = json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&info)
	return info, err
}

// A brokenOffError says that the scheduler told no more, without a word why: it has ended, or is about to.
type brokenOffError struct{ err error }

// Error implements error.
func (e *brokenOffError) Error() string { return fmt.Sprintf("the scheduler told no more: %v", e.err) }

// Unwrap returns why.
func (e *brokenOffError) Unwrap() error { return e.err }

// records yields the records from and to, each of which carries the hash of the one before it; prev is what the first
// must carry. Errors: a *brokenOffError, an *eventlog.DamagedError, or what the scheduler says that keeps it from
// reading its own log.
func (c *client) records(from, to uint64, prev [32]byte) iter.Seq2[boltlog.Record, error] {
	return func(yield func(boltlog.Record, error) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		body, err := c.get(ctx, fmt.Sprintf("records?from=%d&to=%d", from, to))
		if err != nil {
			yield(boltlog.Record{}, err)
			return
		}
		defer body.Close()
		in := bufio.NewReaderSize(body, 1<<16)
		var buf []byte
		for seq := from; seq <= to; seq++ {
			if buf, err = readRecord(in, buf); err != nil {
				yield(boltlog.Record{}, err)
				return
			}
			if err := follows(buf, seq, prev); err != nil {
				yield(boltlog.Record{}, &eventlog.DamagedError{Path: c.path, Seq: seq, Err: err})
				return
			}
			prev = eventlog.HashRecord(buf)
			if !yield(boltlog.Record{Seq: seq, Bytes: buf, Hash: prev}, nil) {
				return
			}
		}
	}
}

// readRecord reads the next record into buf, or what the scheduler says in its place.
func readRecord(in *bufio.Reader, buf []byte) ([]byte, error) {
	buf, err := readFrame(in, buf)
	if err != nil || len(buf) > 0 {
		return buf, err
	}
	said, err := readFrame(in, nil)
	if err != nil {
		return buf, err
	}
	var t trouble
	if err := json.Unmarshal(said, &t); err != nil {
		return buf, fmt.Errorf("what the scheduler says of an error: %w", err)
	}
	return buf, t.err()
}

func readFrame(in *bufio.Reader, buf []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return buf, &brokenOffError{err}
	}
	if n > maxRecord {
		return buf, fmt.Errorf("a record of %d bytes: want at most %d", n, maxRecord)
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err = io.ReadFull(in, buf); err != nil {
		err = &brokenOffError{err}
	}
	return buf, err
}

// follows says what keeps a record from being entry seq behind the record whose hash is prev.
func follows(rec []byte, seq uint64, prev [32]byte) error {
	got, at, err := eventlog.RecordPlace(rec)
	switch {
	case err != nil:
		return err
	case got != seq:
		return fmt.Errorf("its record is that of entry %d", got)
	case at != prev:
		return fmt.Errorf("it follows a record of hash %x, but the one before it has %x", at, prev)
	}
	return nil
}
