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

// SetIdleTime makes readers wait for so long for the next byte, and returns what makes it as it was.
func SetIdleTime(d time.Duration) (undo func()) {
	was := idleTime
	idleTime = d
	return func() { idleTime = was }
}

// SetLimits makes the servers that are begun from now on let so many readers and connections be, for so long, and
// returns what makes it as it was. Zero leaves a limit as it is.
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
