package localapi

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// socketName is the socket's file in the log's directory.
const socketName = "api.sock"

// Log is the served log: the log that this process writes to.
type Log interface {
	First() uint64
	Last() (uint64, error)
	Records(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error]
}

// Info describes the log and its server.
type Info struct {
	// First and Last are the first and the last durable entry.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Version is the scheduler's version.
	Version string `json:"version"`
	// PID is the scheduler's process.
	PID int `json:"pid"`
	// Instance differs for each Server.
	Instance string `json:"instance"`
}

// Server serves one log until Close.
type Server struct {
	log      Log
	version  string
	report   func(error)
	instance string
	http     http.Server
	limits   limits
	conns    connections
	readers  chan struct{} // one for each request for records that is being answered
	socket   fs.FileInfo   // the socket's name, which is removed at the end
	cancel   context.CancelFunc
	done     chan error
}

// Serve begins to serve log, whose directory is dir, to the machine's other processes. The caller must have the log
// open for writing: an existing socket was left by a process that has ended.
//
// report, which several goroutines may call, gets every error with which the log could not be read for another
// process. The other process gets it too.
func Serve(dir string, log Log, version string, report func(error)) (*Server, error) {
	path := filepath.Join(dir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("serve the log: %w", err)
	}
	listener, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("serve the log: %w", err)
	}
	socket, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the log: %w", err), listener.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{log: log, version: version, report: report, instance: rand.Text(), limits: defaultLimits,
		cancel: cancel, done: make(chan error, 1), socket: socket}
	s.readers = make(chan struct{}, s.limits.readers)
	s.conns.most = s.limits.connections
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/log", s.info)
	mux.HandleFunc("GET /v1/records", s.records)
	s.http = http.Server{
		Handler:        withoutBody(mux),
		ReadTimeout:    s.limits.ask,
		WriteTimeout:   s.limits.take,
		IdleTimeout:    s.limits.ask,
		MaxHeaderBytes: maxHeader,
		ConnState:      s.conns.changed,
		ConnContext:    withConnection,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// listen makes the socket, for the directory's owner only. The path of a socket is limited to about a hundred bytes.
// So it is named from within its directory where the system can.
func listen(path string) (net.Listener, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // by then the short name has no meaning; Close does it
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Close ends the service and breaks off the answers in progress. It must be called before the log is closed.
func (s *Server) Close(dir string) error {
	s.cancel()
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	path := filepath.Join(dir, socketName)
	if there, gone := os.Lstat(path); gone != nil || !os.SameFile(there, s.socket) {
		return err // the path leads to another directory by now, perhaps with a writer of its own
	}
	if removed := os.Remove(path); !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

func (s *Server) info(w http.ResponseWriter, r *http.Request) {
	last, err := s.log.Last()
	if err == nil && r.Context().Err() != nil { // Close was called
		err = eventlog.ErrClosed
	}
	if err != nil {
		if !errors.Is(err, eventlog.ErrClosed) {
			s.report(err)
		}
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(Info{First: s.log.First(), Last: last, Version: s.version, PID: os.Getpid(),
		Instance: s.instance})
}

func (s *Server) records(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	from, err := strconv.ParseUint(asked.Get("from"), 10, 64)
	to, terr := strconv.ParseUint(asked.Get("to"), 10, 64)
	if err = errors.Join(err, terr); err != nil || from < 1 || to < from {
		http.Error(
			w,
			"want from and to: the numbers of two entries, the second not before the first",
			http.StatusBadRequest,
		)
		return
	}
	select {
	case s.readers <- struct{}{}:
		s.conns.tell(r.Context(), true)
		defer func() {
			s.conns.tell(r.Context(), false)
			<-s.readers
		}()
	default:
		http.Error(w, fmt.Sprintf("%d readers are being told this log, and no more can be at a time: "+
			"end one of them, or wait until one has ended, and run the command again", cap(s.readers)),
			http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	answer := http.NewResponseController(w)
	if err := answer.SetReadDeadline(time.Time{}); err != nil { // an answer may take longer than a request
		s.report(fmt.Errorf("tell the log to another process: %w", err))
		return
	}
	out := bufio.NewWriterSize(pacedWriter{w, answer, s.limits.take}, maxWrite)
	for rec, err := range s.log.Records(r.Context(), from) {
		if r.Context().Err() != nil || errors.Is(err, eventlog.ErrClosed) {
			break // the reader sees how far it came, and finds the rest in the directory
		}
		if err != nil {
			s.report(fmt.Errorf("read the log for another process: %w", err))
			writeTrouble(out, err)
			break
		}
		if rec.Seq > to {
			break
		}
		if err := writeFrame(out, rec.Bytes); err != nil {
			return
		}
	}
	_ = out.Flush()
}

// trouble takes the place of the next record, after an empty frame, if the log cannot be read.
type trouble struct {
	Text string `json:"text"`
	// Damaged says that the log is damaged at entry Seq, in the file at Path; Text is then the reason.
	Damaged bool   `json:"damaged,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Path    string `json:"path,omitempty"`
}

// writeTrouble writes the error err. A failing write is reported when the caller flushes out.
func writeTrouble(out *bufio.Writer, err error) {
	t := trouble{Text: err.Error()}
	var damaged *eventlog.DamagedError
	if errors.As(err, &damaged) {
		t = trouble{Text: damaged.Err.Error(), Damaged: true, Seq: damaged.Seq, Path: damaged.Path}
	}
	said, err := json.Marshal(t)
	if err == nil {
		err = writeFrame(out, nil)
	}
	if err == nil {
		_ = writeFrame(out, said)
	}
}

// err is the inverse of writeTrouble.
func (t trouble) err() error {
	if t.Damaged {
		return &eventlog.DamagedError{Path: t.Path, Seq: t.Seq, Err: errors.New(t.Text)}
	}
	return fmt.Errorf("the scheduler cannot read its log: %s", t.Text)
}

func writeFrame(out *bufio.Writer, b []byte) error {
	var length [binary.MaxVarintLen64]byte
	if _, err := out.Write(length[:binary.PutUvarint(length[:], uint64(len(b)))]); err != nil {
		return err
	}
	_, err := out.Write(b)
	return err
}
