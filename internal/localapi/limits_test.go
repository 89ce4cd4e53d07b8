package localapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/localapi"
)

// patience is the time that a test waits for an event that must happen: much longer than the limits that it sets.
const patience = 20 * time.Second

// connect opens a connection to the socket, by a name that is short enough.
func (s *served) connect() net.Conn {
	s.t.Helper()
	dir, err := os.Open(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer dir.Close()
	c, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/api.sock", dir.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a request on a connection of its own, and reads no answer.
func (s *served) ask(request string) net.Conn {
	s.t.Helper()
	c := s.connect()
	_, _ = io.WriteString(c, request) // a client that is cut off while it writes has been answered too
	return c
}

const (
	askInfo = "GET /v1/log HTTP/1.1\r\nHost: scheduler\r\n\r\n"
	askAll  = "GET /v1/records?from=1&to=8000 HTTP/1.1\r\nHost: scheduler\r\n\r\n"
)

// wantEnd waits until the server has ended a connection, and returns how many bytes came before that.
func wantEnd(t *testing.T, c net.Conn, what string) int64 {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: it is still connected, %d bytes came", what, n)
	}
	return n
}

// wantAnswer reads the answer to a request.
func wantAnswer(t *testing.T, c net.Conn, code int, said string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("no answer: %v, want %d", err, code)
		return
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != code || !strings.Contains(string(body), said) {
		t.Errorf("the answer is %s, %q (%v), want %d with %q", resp.Status, body, err, code, said)
	}
}

func TestHundredsOfSilentClientsHinderNobody(t *testing.T) {
	defer localapi.SetLimits(0, 20, 0, 0)()
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
	var silent []net.Conn
	for i := range 300 {
		request := ""
		switch i % 3 {
		case 1:
			request = askInfo // and then nothing more
		case 2:
			request = "GET /v1/log HTTP/1.1\r\nHo"
		}
		silent = append(silent, s.ask(request))
	}
	wantEntries(t, s.mustJoin(), 1, many) // which connects behind them all
	s.append(10)
	open := 0
	for _, c := range silent {
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
	}
	if open > 20 {
		t.Errorf("%d silent clients are connected, want at most 20", open)
	}
	s.end() // while they are connected
	for i, c := range silent {
		wantEnd(t, c, fmt.Sprintf("silent client %d after the end", i))
	}
}

func TestASilentClientIsCutOffInTime(t *testing.T) {
	defer localapi.SetLimits(0, 0, 200*time.Millisecond, 0)()
	s := serve(t, filepath.Join(t.TempDir(), "log"), 10)
	for what, request := range map[string]string{
		"says nothing":               "",
		"begins to ask":              "GET /v1/log HTTP/1.1\r\nHo",
		"asks once":                  askInfo,
		"announces a body":           "GET /v1/log HTTP/1.1\r\nHost: s\r\nContent-Length: 100\r\n\r\nabc",
		"announces a body in chunks": "GET /v1/log HTTP/1.1\r\nHost: s\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		wantEnd(t, s.ask(request), "a client that "+what)
	}
	wantEntries(t, s.mustJoin(), 1, 10)
}

func TestARequestIsSmallAndHasNoBody(t *testing.T) {
	s := serve(t, filepath.Join(t.TempDir(), "log"), 10)
	for _, tc := range []struct {
		request string
		code    int
		said    string
	}{
		{"GET /v1/log?" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\n", http.StatusRequestHeaderFieldsTooLarge, ""},
		{"GET /v1/log HTTP/1.1\r\nX: " + strings.Repeat("x", 16<<10), http.StatusRequestHeaderFieldsTooLarge, ""},
		{"GET /v1/records?from=1&to=1 HTTP/1.1\r\nHost: s\r\nContent-Type: multipart/form-data; boundary=x\r\n" +
			"Content-Length: 1000\r\n\r\n--x\r\n", http.StatusBadRequest, "without a body"},
		{"POST /v1/log HTTP/1.1\r\nHost: s\r\nContent-Length: 0\r\n\r\n", http.StatusMethodNotAllowed, ""},
	} {
		wantAnswer(t, s.ask(tc.request), tc.code, tc.said)
	}
}

// watched is a log that reports when a reader begins to receive its records, and when that has ended.
type watched struct {
	localapi.Log
	begun, ended chan struct{}
}

func (w watched) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		w.begun <- struct{}{}
		defer func() { w.ended <- struct{}{} }()
		w.Log.Records(ctx, from)(yield)
	}
}

// serveWatched serves a log of many entries, none of which is sealed.
func serveWatched(t *testing.T) (*served, watched) {
	t.Helper()
	s := serveIn(t, filepath.Join(t.TempDir(), "log"), many, whole)
	s.stop()
	w := watched{s.log, make(chan struct{}, 1000), make(chan struct{}, 1000)}
	var err error
	if s.server, err = localapi.Serve(s.dir, w, "v", noTrouble(t)); err != nil {
		t.Fatal(err)
	}
	return s, w
}

// await waits for so many signals.
func await(t *testing.T, signal <-chan struct{}, n int, what string) {
	t.Helper()
	late := time.After(patience)
	for i := range n {
		select {
		case <-signal:
		case <-late:
			t.Fatalf("%s: %d of %d", what, i, n)
		}
	}
}

// Sixty clients ask for a log of a megabyte and take none of it: the scheduler appends, another one reads, the
// scheduler ends, and nobody waits for them. None takes more memory than docs/RELIABILITY.md says.
func TestClientsThatNeverReadHinderNobody(t *testing.T) {
	const deaf = 60
	s, log := serveWatched(t)
	before := heap()
	for range deaf {
		s.ask(askAll)
	}
	await(t, log.begun, deaf, "clients that are being told the log")
	s.append(100)
	wantEntries(t, s.mustJoin(), 1, many+100)
	if took := (int64(heap()) - int64(before)) / deaf; took > 512<<10 {
		t.Errorf("a client that does not read takes %d bytes, want at most 512 KiB", took)
	}
	s.end()
	await(t, log.ended, deaf, "clients that are told no more after the end")
}

func TestAClientThatNeverReadsIsCutOff(t *testing.T) {
	defer localapi.SetLimits(0, 0, 0, 200*time.Millisecond)()
	s, log := serveWatched(t)
	c := s.ask(askAll)
	await(t, log.ended, 1, "clients that were cut off")
	if n := wantEnd(t, c, "a client that never reads"); n == 0 || n > 1<<20 {
		t.Errorf("%d bytes came, want what was on its way", n)
	}
	// It asks for small answers, and takes none.
	c = s.connect()
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := io.WriteString(c, askInfo); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a client that asks again and again, and never reads, is still connected")
		} else if err != nil {
			break
		}
	}
	s.stop()
}

func TestAReaderTooManyIsToldWhatToDo(t *testing.T) {
	defer localapi.SetLimits(3, 0, 0, 0)()
	s, log := serveWatched(t)
	var told []net.Conn
	for range 3 {
		told = append(told, s.ask(askAll))
	}
	await(t, log.begun, 3, "clients that are being told the log")
	var failed error
	for _, err := range s.mustJoin().Read(t.Context(), 1) {
		failed = err
	}
	want := filepath.Join(s.dir, "api.sock") + ": the scheduler answers 429 Too Many Requests: " +
		"3 readers are being told this log, and no more can be at a time: " +
		"end one of them, or wait until one has ended, and run the command again"
	if failed == nil || failed.Error() != want {
		t.Errorf("the fourth reader: error %v\nwant %s", failed, want)
	}
	if err := told[1].Close(); err != nil {
		t.Fatal(err)
	}
	await(t, log.ended, 1, "clients that have ended")
	for began := time.Now(); failed != nil && time.Since(began) < patience; {
		for _, failed = range s.mustJoin().Read(t.Context(), 1) {
		}
	}
	if failed != nil {
		t.Errorf("when one has ended: %v", failed)
	}
}

// takePlace asks for the log until it receives it: the place of a disconnected reader is free a moment after that.
func (s *served) takePlace(log watched) {
	s.t.Helper()
	for late := time.After(patience); ; {
		s.ask(askAll)
		select {
		case <-log.begun:
			return
		case <-late:
			s.t.Fatal("no place for another reader")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// crowded is a log whose second reader holds its place, without receiving anything, until it is released.
type crowded struct {
	watched
	readers *atomic.Int32
	let     <-chan struct{}
}

func (c crowded) Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	if c.readers.Add(1) != 2 {
		return c.watched.Records(ctx, from)
	}
	return func(func(eventlog.Record, error) bool) {
		c.begun <- struct{}{}
		<-c.let
	}
}

// A reader that was cut off, and that finds its place taken by another one, waits for a place as long as a reader
// waits whose scheduler stopped sending. So does a follower.
func TestAReaderThatWasCutOffWaitsForAPlace(t *testing.T) {
	for what, read := range map[string]func(j *localapi.Joined) iter.Seq2[eventlog.Record, error]{
		"a reader":   func(j *localapi.Joined) iter.Seq2[eventlog.Record, error] { return j.Records(t.Context(), 1) },
		"a follower": func(j *localapi.Joined) iter.Seq2[eventlog.Record, error] { return j.Follow(t.Context(), 1) },
	} {
		t.Run(what, func(t *testing.T) {
			defer localapi.SetLimits(1, 0, 0, 100*time.Millisecond)()
			s, log := serveWatched(t)
			s.stop()
			let := make(chan struct{})
			var err error
			s.server, err = localapi.Serve(s.dir, crowded{log, new(atomic.Int32), let}, "v", noTrouble(t))
			if err != nil {
				t.Fatal(err)
			}
			j := s.mustJoin()
			once := sync.OnceFunc(func() { close(let) })
			defer once()
			refused := 0
			localapi.Watch(j, func(status int) {
				if status != http.StatusTooManyRequests {
					return
				}
				if refused++; refused == 3 {
					once() // so that the place is free
				}
			})
			next := uint64(1)
			for r, err := range read(j) {
				if err != nil || r.Seq != next {
					t.Fatalf("entry %d: %d, %v", next, r.Seq, err)
				}
				if next == 100 {
					await(t, log.begun, 1, "readers that had a place")
					await(t, log.ended, 1, "readers that were cut off")
					s.takePlace(log)
				}
				if next++; next > many {
					break
				}
			}
			if next != many+1 || refused < 3 {
				t.Errorf("read up to entry %d, want %d; it was refused %d times, want 3", next-1, many, refused)
			}
		})
	}
}

// Clients that ask again and again and never read, on all available connections, keep out nobody. They do not take the
// connections of clients that receive records.
func TestClientsThatAskAndNeverReadKeepNobodyOut(t *testing.T) {
	defer localapi.SetLimits(4, 8, 0, 0)()
	s, log := serveWatched(t)
	for range 3 {
		s.ask(askAll)
	}
	await(t, log.begun, 3, "clients that are being told the log")
	for range 8 {
		c := s.connect()
		for err := error(nil); err == nil; { // until the server waits for this client
			if err = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err == nil {
				_, err = io.WriteString(c, strings.Repeat(askInfo, 100))
			}
		}
	}
	wantEntries(t, s.mustJoin(), 1, many)
	await(t, log.ended, 1, "readers that came to the end")
	if n := len(log.ended); n > 0 {
		t.Errorf("%d clients were cut off that are being told the log", n)
	}
	s.end()
}

// A reader that is slow, because somebody pages through what it prints, is cut off, and asks for the rest.
func TestAReaderThatWasCutOffGoesOn(t *testing.T) {
	defer localapi.SetLimits(0, 0, 0, 100*time.Millisecond)()
	s, log := serveWatched(t)
	j := s.mustJoin()
	next := uint64(1)
	for e, err := range j.Read(t.Context(), 1) {
		if err != nil || e.Seq != next {
			t.Fatalf("entry %d: %d, %v", next, e.Seq, err)
		}
		if next == 100 || next == 5000 {
			await(t, log.ended, 1, "clients that were cut off")
		}
		next++
	}
	if next != many+1 || j.Reopened() {
		t.Errorf("read up to entry %d, want %d; reopened %v, want the same scheduler", next-1, many, j.Reopened())
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
