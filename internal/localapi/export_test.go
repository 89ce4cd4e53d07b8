package localapi

import (
	"net/http"
	"time"
)

// Watch has answered called with the status of every answer that j gets from now on.
func Watch(j *Joined, answered func(status int)) {
	j.client.http.Transport = watchedTransport{j.client.http.Transport, answered}
}

type watchedTransport struct {
	http.RoundTripper
	answered func(status int)
}

// RoundTrip implements http.RoundTripper.
func (w watchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		w.answered(resp.StatusCode)
	}
	return resp, err
}

// SetIdleTime sets the time that readers wait for the next byte. undo restores it.
func SetIdleTime(d time.Duration) (undo func()) {
	was := idleTime
	idleTime = d
	return func() { idleTime = was }
}

// SetLimits sets the number of readers and connections, and their time limits, of servers that begin from now on. undo
// restores them. Zero leaves a limit unchanged.
func SetLimits(readers, connections int, ask, take time.Duration) (undo func()) {
	was := defaultLimits
	if readers != 0 {
		defaultLimits.readers = readers
	}
	if connections != 0 {
		defaultLimits.connections = connections
	}
	if ask != 0 {
		defaultLimits.ask = ask
	}
	if take != 0 {
		defaultLimits.take = take
	}
	return func() { defaultLimits = was }
}
