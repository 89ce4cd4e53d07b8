package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// connected returns a client of a server that is none of a log's.
func connected(t *testing.T, s *server.Server) (*nats.Conn, natsjs.JetStream) {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	must(t, err)
	return nc, js
}

func TestAStreamOfOtherSettingsIsRefusedByTheSetting(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	good := natsjs.StreamConfig{Storage: natsjs.FileStorage, DenyDelete: true, DenyPurge: true, AllowDirect: true,
		AllowAtomicPublish: true, Discard: natsjs.DiscardNew}
	for i, tc := range []struct {
		setting string
		change  func(c *natsjs.StreamConfig)
	}{
		{"", func(*natsjs.StreamConfig) {}},
		{"storage", func(c *natsjs.StreamConfig) { c.Storage = natsjs.MemoryStorage }},
		{"retention", func(c *natsjs.StreamConfig) { c.Retention = natsjs.InterestPolicy }},
		{"max_msgs", func(c *natsjs.StreamConfig) { c.MaxMsgs = 1000 }},
		{"max_bytes", func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"max_age", func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour }},
		{"max_msgs_per_subject", func(c *natsjs.StreamConfig) { c.MaxMsgsPerSubject = 9 }},
		{"deny_delete", func(c *natsjs.StreamConfig) { c.DenyDelete = false }},
		{"deny_purge", func(c *natsjs.StreamConfig) { c.DenyPurge = false }},
		{"allow_atomic", func(c *natsjs.StreamConfig) { c.AllowAtomicPublish = false }},
		{"allow_direct", func(c *natsjs.StreamConfig) { c.AllowDirect = false }},
		{"allow_msg_ttl", func(c *natsjs.StreamConfig) { c.AllowMsgTTL = true }},
		{"subjects", func(c *natsjs.StreamConfig) { c.Subjects = []string{"other.*"} }},
		{"republish", func(c *natsjs.StreamConfig) {
			c.RePublish = &natsjs.RePublish{Source: "subject.>", Destination: "elsewhere.>"}
		}},
		{"first_seq", func(c *natsjs.StreamConfig) { c.FirstSeq = 100 }},
	} {
		c := good
		c.Name = fmt.Sprint("made", i)
		c.Subjects = []string{"subject." + c.Name}
		tc.change(&c)
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", tc.setting, err)
		}
		log, err := addressOf(t, s, c.Name).Create(t.Context(), eventlog.Origin{})
		var setting *jetstream.SettingError
		switch {
		case tc.setting == "":
			must(t, err)
			must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5000)))
			must(t, log.Close())
		case !errors.As(err, &setting) || setting.Setting != tc.setting:
			t.Errorf("%s: error %v, want a SettingError", tc.setting, err)
		}
	}
	_, err := parse(t, "nats://"+s.Addr().String()+"/made0").Open(t.Context()) // three replicas by default
	var setting *jetstream.SettingError
	if !errors.As(err, &setting) || setting.Setting != "num_replicas" {
		t.Errorf("one replica: error %v", err)
	}
}

// A message that another program publishes to the log's subject is no entry: the log ends before it.
func TestAMessageOfAnotherProgramEndsTheLog(t *testing.T) {
	for name, header := range map[string]nats.Header{
		"plain": nil, "a number of its own": {"Nats-Sequence": {"1"}}, "a status": {"Status": {"404"}},
	} {
		t.Run(name, func(t *testing.T) { testForeignMessage(t, header) })
	}
}

func testForeignMessage(t *testing.T, header nats.Header) {
	s := startServer(t, nil)
	nc, js := connected(t, s)
	a := addressOf(t, s, "jobs")
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	stream, err := js.Stream(t.Context(), "jobs")
	must(t, err)
	subject := stream.CachedInfo().Config.Subjects[0]
	_, err = nc.RequestMsg(&nats.Msg{Subject: subject, Header: header, Data: []byte("hello")}, 5*time.Second)
	must(t, err)
	var damaged *eventlog.DamagedError
	for range 2 {
		if err := log.Append(t.Context(), 5, logtest.Entries(6, 1)); !errors.As(err, &damaged) || damaged.Seq != 6 {
			t.Errorf("append: error %v, want damage at entry 6", err)
		}
	}
	must(t, log.Close())
	if _, err := a.Open(t.Context()); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "message 3") {
		t.Errorf("open: error %v, want damage by message 3", err)
	}
	reader, err := a.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	n := 0
	for _, err = range reader.Read(t.Context(), 1) {
		if err == nil {
			n++
		}
	}
	if !errors.As(err, &damaged) || damaged.Seq != 6 || n != 5 {
		t.Errorf("%d entries, error %v, want 5 and damage at entry 6", n, err)
	}
}

// A follower does not wait in silence for entries of a stream that was made again.
func TestAFollowerIsToldThatItsStreamWasMadeAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	_, js := connected(t, s)
	at := addressOf(t, s, "followed")
	begin := func(entries int) {
		log, err := at.Create(t.Context(), eventlog.Origin{})
		must(t, err)
		must(t, log.Append(t.Context(), 0, logtest.Entries(1, entries)))
		must(t, log.Close())
	}
	begin(30)
	reader, err := at.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := 0
	for _, err := range reader.Follow(ctx, 1) {
		if n++; err == nil && n == 30 { // it has all of them, and waits for more
			must(t, js.DeleteStream(t.Context(), at.Stream))
			begin(2)
		}
		var damaged *eventlog.DamagedError
		if err != nil && (!errors.As(err, &damaged) || damaged.Seq != 31) {
			t.Errorf("following ends with %v", err)
		}
		var again *eventlog.MadeAgainError
		if err != nil && !errors.As(err, &again) {
			t.Errorf("following does not say that the stream was made again: %v", err)
		}
	}
	if n != 31 {
		t.Errorf("%d entries and errors were yielded, want 31", n)
	}
}

// A reader whose stream is deleted and made again, shorter, does not call it damaged.
func TestAReaderIsToldThatItsStreamWasMadeAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	_, js := connected(t, s)
	at := addressOf(t, s, "read")
	begin := func(entries, each int) {
		log, err := at.Create(t.Context(), eventlog.Origin{})
		must(t, err)
		for from := 0; from < entries; from += each {
			must(t, log.Append(t.Context(), uint64(from), logtest.Entries(uint64(from+1), each)))
		}
		must(t, log.Close())
	}
	begin(30, 10)
	reader, err := at.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	must(t, js.DeleteStream(t.Context(), at.Stream))
	begin(2, 2)
	var last error
	for _, err := range reader.Read(t.Context(), 1) {
		last = err
	}
	var again *eventlog.MadeAgainError
	if !errors.As(last, &again) {
		t.Errorf("reading ends with %v, want that the stream was made again", last)
	}
}

// A writer whose stream was deleted, and made again, appends nothing to the new one.
func TestAStreamThatWasMadeAgainIsNotAppendedTo(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	a := addressOf(t, s, "jobs")
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	must(t, js.DeleteStream(t.Context(), "jobs"))
	other, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer other.Close()
	must(t, other.Append(t.Context(), 0, logtest.Entries(1, 5)))
	var damaged *eventlog.DamagedError
	for range 2 {
		err := log.Append(t.Context(), 5, logtest.Entries(6, 1))
		var again *eventlog.MadeAgainError
		if !errors.As(err, &damaged) || !errors.As(err, &again) ||
			!strings.Contains(err.Error(), "What was acknowledged was in the old stream") {
			t.Errorf("append: error %v, want that the stream was made again", err)
		}
	}
	wantEntries(t, other, 5)
}

func TestWhatCannotBeOpenedIsSaidWithItsPlace(t *testing.T) {
	open := func(name string) error {
		_, err := parse(t, name).Open(context.Background())
		return err
	}
	plain := startServer(t, func(o *server.Options) { o.JetStream = false })
	denying := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "a", Password: "secret", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}}}},
		}
	})
	none := startServer(t, nil)
	for _, tc := range []struct{ name, want string }{
		{"nats://" + plain.Addr().String() + "/jobs", "have no JetStream"},
		{"nats://a:secret@" + denying.Addr().String() + "/jobs", "denies its user to publish to " +
			"$JS.API.STREAM.INFO.jobs"},
		{"nats://a:wrong-secret@" + denying.Addr().String() + "/jobs", "refuses who asks"},
		{"nats://127.0.0.1:1/jobs", "no server answers"},
	} {
		if err := open(tc.name); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(),
			"secret") {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
	if err := open("nats://" + none.Addr().String() + "/jobs"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no stream: error %v", err)
	}
}

func TestNamesAreReadAndShownWithoutSecrets(t *testing.T) {
	a := parse(t, "tls://me:p%40ss@a:1,b,[::1]:3/jobs?replicas=5&ca=ca.pem&patience=2s&domain=hub")
	if a.String() != "tls://a:1,b:4222,[::1]:3/jobs" || a.User != "me" || a.Password != "p@ss" || a.Replicas != 5 ||
		a.CA != "ca.pem" || a.Patience != 2*time.Second || a.Domain != "hub" || !a.TLS {
		t.Errorf("it is %+v", a)
	}
	for name, want := range map[string]string{
		"nats:///jobs":                      "names no server",
		"nats://a/":                         "names no stream",
		"nats://a/x.y":                      "must not contain '.'",
		"nats://a:b/x":                      "a port is none of 1 to 65535",
		"nats://a/x?replicas=9":             "replicas is none of 1 to 5",
		"nats://a/x?color=s3cret":           "a parameter that there is not",
		"nats://u:s3cret@a/x?creds=f":       "one says who asks",
		"nats://a/x?password=s3cret":        "a password without a user",
		"nats://a/x?cert=c":                 "cert and key go together",
		"nats://a/x?creds=a&creds=s3cret":   "creds is said twice",
		"nats://u:s3cret@a/x?patience=soon": "patience is no time",
		"nats://me:s3cret?ret@h/jobs":       "a ? in a password is written %3F",
		"nats://me:s3cret/x?ret@h/jobs":     "a port is none",
		"nats://me:1/x?s3cret@h/jobs":       "a parameter that there is not",
		"nats://a/x?s3cret=1&s3cret=2":      "a parameter that there is not",
		"nats://u:s3cret@a,u:s3cret@b/x":    "give user and password once, before the first host",
		"NATS://u:s3cret@a:b/x":             "a port is none",
		"nats://u:s3cret@a/x?user=v&user=w": "user is said twice",
		"nats://u:s3cret@a/x?user=v":        "user is said twice",
	} {
		if !jetstream.Is(name) {
			t.Errorf("%s: it is no name of a log in NATS", name)
		}
		_, err := jetstream.Parse(name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

func TestRedactPrintsNothingThatMayBeSecret(t *testing.T) {
	for name, want := range map[string]string{
		"nats://h:1/jobs?password=s3cret":  "nats://h:1/jobs",
		"nats://me:s3cret@h/jobs?creds=f":  "nats://h/jobs",
		"nats://me:s3/c?r#et@h/jobs":       "nats://",
		"nats://h/jobs?user=me@there":      "nats://",
		"nats://a:s3cret@h,b:s3cret@i/job": "nats://i/job",
		"TLS://me:s3cret@h/jobs":           "tls://h/jobs",
		"ws://me:s3cret@h/jobs":            "ws://h/jobs",
	} {
		if got := jetstream.Redact(name); got != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
	if a := parse(t, "TLS://h/jobs"); !a.TLS || a.String() != "tls://h:4222/jobs" {
		t.Errorf("it is %+v", a)
	}
}
