package logs

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/replay/history"
)

// A RequestError says that a request is impossible, whatever the state of the log: the request has to change.
type RequestError = history.RequestError

// Refuse returns a *RequestError with a formatted message.
func Refuse(format string, args ...any) error { return &RequestError{Err: fmt.Errorf(format, args...)} }

// scheme matches the beginning of a URL.
var scheme = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)

// InStream reports whether a name means a log in NATS JetStream, which has no path in the file system.
func InStream(name string) bool { return jetstream.Is(name) }

// Shown returns a name in a form that may be printed and logged: without a password or a token, even if the name
// cannot be opened.
func Shown(name string) string {
	if !scheme.MatchString(name) || isOnlyPath(name) {
		return name
	}
	return jetstream.Redact(name)
}

// isOnlyPath reports whether a URL names a file and neither a machine nor a user.
func isOnlyPath(name string) bool {
	const file = "file:///"
	return len(name) >= len(file) && strings.EqualFold(name[:len(file)], file)
}

// streamAt returns the address of a log in NATS JetStream. The error is a *RequestError.
func streamAt(name string) (*jetstream.Address, error) {
	at, err := jetstream.Parse(name)
	if err != nil {
		return nil, &RequestError{Err: err}
	}
	return at, nil
}

// Path resolves a name to a path in the file system, for callers that work on the files of a log. A name without a
// scheme is already a path. Its errors are *RequestErrors.
func Path(name string) (string, error) {
	match := scheme.FindStringSubmatch(name)
	if match == nil {
		return name, nil
	}
	switch strings.ToLower(match[1]) {
	case "file":
		path, err := filePath(name)
		if err != nil {
			return "", Refuse("%s: %w", Shown(name), err)
		}
		return path, nil
	case "nats", "tls":
		return "", Refuse("%s: this works on the files of a log, and a log in NATS JetStream has none: make a "+
			"directory of it with rollcall log copy", Shown(name))
	}
	return "", Refuse("%s: there are no logs of the scheme %s://: name a path, or a URL with file:// or nats://",
		Shown(name), match[1])
}

// filePath returns the path in a file URL.
func filePath(name string) (string, error) {
	if strings.Contains(name, "@") && !isOnlyPath(name) { // further errors must not repeat its secrets
		return "", errors.New("want file:///PATH and nothing else")
	}
	u, err := url.Parse(name)
	if err != nil {
		var parsing *url.Error
		if errors.As(err, &parsing) {
			err = parsing.Err
		}
		return "", err
	}
	switch {
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("it names the machine %q: only files of this one can be opened (file:///PATH)", u.Host)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", errors.New("want file:///PATH and nothing else")
	case u.Path == "":
		return "", errors.New("it has no path")
	}
	return u.Path, nil
}
