package logs

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestANameIsAPathOrAFileURL(t *testing.T) {
	for name, want := range map[string]string{
		"jobs.log":                          "jobs.log",
		"./jobs.log":                        "./jobs.log",
		"/var/lib/jobs.log":                 "/var/lib/jobs.log",
		"a:b":                               "a:b",
		"odd://":                            "", // a scheme that there is not
		"1://x":                             "1://x",
		"dir/nats://x":                      "dir/nats://x",
		"file:///var/lib/jobs.log":          "/var/lib/jobs.log",
		"file://localhost/var/lib/jobs.log": "/var/lib/jobs.log",
		"file:///with%20space":              "/with space",
	} {
		got, err := Path(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, error %v, want %q", name, got, err, want)
		}
	}
}

func TestANameThatNamesNoFileIsRefusedWithTheReason(t *testing.T) {
	for name, reason := range map[string]string{
		"nats://host/stream": "this works on the files of a log, and a log in NATS JetStream has none",
		"s3://bucket/jobs": "there are no logs of the scheme s3://: name a path, or a URL with file:// or " +
			"nats://",
		"file://elsewhere/jobs.log": `it names the machine "elsewhere"`,
		"file://":                   "it has no path",
		"file:///jobs.log?a=b":      "want file:///PATH and nothing else",
		"file:///jobs.log#part":     "want file:///PATH and nothing else",
		"file://me@localhost/jobs":  "want file:///PATH and nothing else",
		"file:///%zz":               "invalid URL escape",
		"NATS://host/stream":        "a log in NATS JetStream has none",
	} {
		_, err := Path(name)
		var request *RequestError
		if !errors.As(err, &request) {
			t.Errorf("%q: want a RequestError, got %v", name, err)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, Shown(name)+": ") || !strings.Contains(got, reason) {
			t.Errorf("%q: the error is %q, want %q in it", name, got, reason)
		}
	}
}

// TestWhoeverOpensALogResolvesItsName has every way to open a log take a URL, and refuse what is none of a file.
func TestWhoeverOpensALogResolvesItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	url := "file://" + path
	ways := []struct {
		name string
		open func(name string) error
	}{
		{"create", func(name string) error { return closed(KeepOptions{}.Create(t.Context(), name)) }},
		{"continue", func(name string) error { return closed(KeepOptions{}.Continue(t.Context(), name)) }},
		{"read", func(name string) error { return closed(Options{}.Open(t.Context(), name)) }},
		{"list files", func(name string) error { _, err := Options{}.Files(name); return err }},
	}
	for _, way := range ways {
		var request *RequestError
		if err := way.open("s3://host/stream"); !errors.As(err, &request) {
			t.Errorf("%s s3://host/stream: want a RequestError, got %v", way.name, err)
		}
		if err := way.open(url); err != nil {
			t.Errorf("%s %s: %v", way.name, url, err)
		}
	}
}

// closed closes what was opened without an error.
func closed[L interface{ Close() error }](log L, err error) error {
	if err != nil {
		return err
	}
	return log.Close()
}

func TestNoNameIsPrintedWithItsPassword(t *testing.T) {
	for name, want := range map[string]string{
		"a@b?c=d":                        "a@b?c=d",
		"file:///home/a@b/jobs?c=d":      "file:///home/a@b/jobs?c=d",
		"file://me:s3cret@there/jobs":    "file://there/jobs",
		"file://me:s3cret/%zz@localhost": "file://localhost",
		"NATS://me:s3cret@h/jobs":        "nats://h/jobs",
		"nat://me:s3cret@h/jobs":         "nat://h/jobs",
		"ws://me:s3cret?x@h/jobs":        "ws://",
		"nats://h/jobs?password=s3cret":  "nats://h/jobs",
	} {
		if got := Shown(name); got != want {
			t.Errorf("%q is shown as %q, want %q", name, got, want)
		}
		if _, err := Path(name); err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error is %q", name, err)
		}
	}
}
