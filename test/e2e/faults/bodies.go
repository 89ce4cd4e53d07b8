package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// nowhere takes an answer that the client is not given.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// lateWriter gives an answer later.
type lateWriter struct {
	http.ResponseWriter
	delay time.Duration
	ctx   context.Context
}

// Unwrap is for http.ResponseController.
func (l *lateWriter) Unwrap() http.ResponseWriter { return l.ResponseWriter }

func (l *lateWriter) WriteHeader(code int) {
	sleep(l.ctx, l.delay)
	l.ResponseWriter.WriteHeader(code)
}

// breakWatch puts a body before the client that ends or lags.
func breakWatch(r *http.Response) error {
	rule, ok := r.Request.Context().Value(ruleKey{}).(Rule)
	if !ok || r.StatusCode != http.StatusOK {
		return nil
	}
	if rule.Fault == WatchClosed {
		timer := time.AfterFunc(rule.Delay, func() { _ = r.Body.Close() })
		r.Body = &closing{ReadCloser: r.Body, timer: timer}
		return nil
	}
	body := r.Body
	if rule.Life > 0 {
		body = &closing{ReadCloser: body, timer: time.AfterFunc(rule.Life, func() { _ = body.Close() })}
	}
	r.Body = newLagging(body, rule.Delay)
	return nil
}

// closing is a body that ends when its timer closes it.
type closing struct {
	io.ReadCloser
	timer *time.Timer
}

func (c *closing) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = io.EOF
	}
	return n, err
}

func (c *closing) Close() error {
	c.timer.Stop()
	return c.ReadCloser.Close()
}

// lagging is a body each part of which comes later.
type lagging struct {
	body io.ReadCloser
	in   chan part
	rest bytes.Reader
	err  error
	done chan struct{}
	once sync.Once
}

type part struct {
	text []byte
	err  error
	due  time.Time
}

func newLagging(body io.ReadCloser, delay time.Duration) *lagging {
	l := &lagging{body: body, in: make(chan part, 1024), done: make(chan struct{})}
	go func() {
		for {
			b := make([]byte, 32<<10)
			n, err := body.Read(b)
			select {
			case l.in <- part{b[:n], err, time.Now().Add(delay)}:
			case <-l.done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *lagging) Read(b []byte) (int, error) {
	if l.rest.Len() == 0 && l.err == nil {
		select {
		case p := <-l.in:
			timer := time.NewTimer(time.Until(p.due))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-l.done:
			}
			l.rest.Reset(p.text)
			l.err = p.err
		case <-l.done:
			return 0, io.ErrClosedPipe
		}
	}
	if l.rest.Len() == 0 {
		return 0, l.err
	}
	return l.rest.Read(b)
}

func (l *lagging) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.body.Close()
}
