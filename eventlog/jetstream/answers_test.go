package jetstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// A relay hands requests to JetStream's API on, and answers some of them itself.
type relay struct {
	answer atomic.Pointer[func(request string) string] // "" for requests that are passed on
}

// startRelay returns a relay, and the address of a stream whose requests it gets.
func startRelay(t *testing.T, s *server.Server, parameters string) (*relay, *jetstream.Address) {
	t.Helper()
	r := &relay{}
	r.by(func(string) string { return "" })
	nc, _ := connected(t, s)
	const domain = "$JS.relay.API."
	_, err := nc.Subscribe(domain+">", func(m *nats.Msg) {
		request := strings.TrimPrefix(m.Subject, domain)
		switch text := (*r.answer.Load())(request); text {
		case "":
		case noAnswer:
			return
		default:
			_ = m.Respond([]byte(text))
			return
		}
		_ = nc.PublishRequest("$JS.API."+request, m.Reply, m.Data)
	})
	must(t, err)
	must(t, nc.Flush())
	return r, parse(t, fmt.Sprintf("nats://%s/jobs?replicas=1&domain=relay&%s", s.Addr(), parameters))
}

// noAnswer makes a relay give no answer.
const noAnswer = "no answer"

// by makes the relay answer with the result of f for a request, such as STREAM.INFO.jobs.
func (r *relay) by(f func(request string) string) { r.answer.Store(&f) }

// apiError is an answer with an error.
func apiError(code int) string {
	return fmt.Sprintf(`{"error": {"code": 503, "err_code": %d, "description": "told by the test"}}`, code)
}

// reconnect lets a log that was opened over w connect again, so that its next append looks at the stream first.
func (w *wire) reconnect(log eventlog.Log) {
	before := jetstream.Reconnects(log)
	_ = w.last().Conn.Close()
	for jetstream.Reconnects(log) == before {
		time.Sleep(5 * time.Millisecond)
	}
}

// A server that has no leader just then answers nothing. Each question is asked again while patience lasts, which is
// shorter here than the longest wait for an answer.
func TestWhatIsNotAnsweredIsAskedAgain(t *testing.T) {
	s := startServer(t, nil)
	r, a := startRelay(t, s, "patience=4s")
	var w wire
	w.over(a)
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	swallow := func() {
		var mu sync.Mutex
		asked := map[string]int{}
		r.by(func(request string) string {
			mu.Lock()
			defer mu.Unlock()
			if asked[request]++; asked[request] == 1 {
				return noAnswer
			}
			return ""
		})
	}
	swallow()
	w.reconnect(log)
	must(t, log.Append(t.Context(), 5, logtest.Entries(6, 5)))
	swallow()
	wantEntries(t, log, 10)
	swallow()
	again, err := a.OpenReadOnly(t.Context())
	must(t, err)
	defer again.Close()
	swallow()
	for r, err := range again.Follow(t.Context(), 6) {
		must(t, err)
		if r.Seq == 10 {
			break
		}
	}
}

// That there is no leader for a moment is no outcome: it is asked again, at the opening, in reading and in appending.
func TestWhatHasNoLeaderForAMomentIsAskedAgain(t *testing.T) {
	s := startServer(t, nil)
	r, a := startRelay(t, s, "patience=20s")
	var w wire
	w.over(a)
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	last := 0
	for _, code := range []int{10008, 10009, 10118} {
		var asked atomic.Int64
		r.by(func(request string) string {
			if !strings.HasPrefix(request, "DIRECT.") && asked.Add(1)%3 != 0 {
				return apiError(code)
			}
			return ""
		})
		w.reconnect(log)
		must(t, log.Append(t.Context(), uint64(last), logtest.Entries(uint64(last)+1, 3)))
		last += 3
		reader, err := a.OpenReadOnly(t.Context())
		must(t, err)
		wantEntries(t, reader, last)
		must(t, reader.Close())
		if asked.Load() < 9 {
			t.Errorf("%d: %d requests were made, so that the test is of none", code, asked.Load())
		}
	}
}

func TestWhatHasNoLeaderAtAllEndsWithPatience(t *testing.T) {
	s := startServer(t, nil)
	r, a := startRelay(t, s, "patience=200ms")
	r.by(func(string) string { return apiError(10008) })
	began := time.Now()
	_, err := a.Create(t.Context(), eventlog.Origin{})
	took := time.Since(began)
	if err == nil || !strings.Contains(err.Error(), "see that the servers run") || took < 200*time.Millisecond {
		t.Errorf("error %v after %s, want one once patience has ended", err, took)
	}
}

// A member that lags may say how long the stream is, while the stream has no leader. That something is lost is said
// only if the leader lacks it too.
func TestAStreamThatIsSaidToBeShorterIsDamagedOnlyIfTheLeaderSaysSo(t *testing.T) {
	for _, tc := range []struct {
		name, message string // what is answered to who asks for a message
		damaged       bool
	}{
		{"the leader has it", "", false},
		{"the leader lacks it", apiError(10037), true},
		{"there is no leader", apiError(10008), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startServer(t, nil)
			r, a := startRelay(t, s, "")
			var w wire
			w.over(a)
			log, err := a.Create(t.Context(), eventlog.Origin{})
			must(t, err)
			defer log.Close()
			must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
			nc, _ := connected(t, s)
			info, err := nc.Request("$JS.API.STREAM.INFO.jobs", nil, 5*time.Second)
			must(t, err)
			lagging := strings.Replace(string(info.Data), `"last_seq":2`, `"last_seq":1`, 1)
			if lagging == string(info.Data) {
				t.Fatalf("the stream does not end with message 2: %s", lagging)
			}
			r.by(func(request string) string {
				if strings.HasPrefix(request, "STREAM.INFO.") {
					return lagging
				}
				return tc.message
			})
			w.reconnect(log)
			jetstream.Hasten(log, 200*time.Millisecond)
			err = log.Append(t.Context(), 5, logtest.Entries(6, 1))
			if errors.As(err, new(*eventlog.DamagedError)) != tc.damaged ||
				errors.Is(err, eventlog.ErrUnknownOutcome) == tc.damaged {
				t.Errorf("error %v, want damage: %t", err, tc.damaged)
			}
		})
	}
}

// A server that is cut off from the others, or that waits for an election, reports a stream that ends where it did for
// this server. Open asks again until a leader answers that is in touch with most members, and returns an error if
// there is none.
func TestALogIsOpenedAsTheLeaderOfMostServersHasIt(t *testing.T) {
	const alone = `"leader":"n1","replicas":[` +
		`{"name":"n2","current":true,"active":4000000000},{"name":"n3","current":true,"active":4000000000}]`
	for _, tc := range []struct{ name, cluster string }{
		{"there is no leader", `"leader":""`},
		{"the leader was heard of long ago", alone},
		{"the leader has heard of nobody yet", strings.ReplaceAll(alone, "4000000000", "0")},
		{"the other servers are away", strings.ReplaceAll(alone, `"active":4000000000`, `"offline":true,"active":5`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startServer(t, nil)
			r, a := startRelay(t, s, "patience=500ms")
			log, err := a.Create(t.Context(), eventlog.Origin{})
			must(t, err)
			defer log.Close()
			must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
			must(t, log.Append(t.Context(), 5, logtest.Entries(6, 5)))
			nc, _ := connected(t, s)
			info, err := nc.Request("$JS.API.STREAM.INFO.jobs", nil, 5*time.Second)
			must(t, err)
			var told map[string]json.RawMessage
			must(t, json.Unmarshal(info.Data, &told))
			told["cluster"] = json.RawMessage("{" + tc.cluster + "}")
			told["state"] = bytes.Replace(told["state"], []byte(`"last_seq":3`), []byte(`"last_seq":2`), 1)
			stale, err := json.Marshal(told)
			must(t, err)
			tell := func(times int64) *atomic.Int64 {
				var asked atomic.Int64
				r.by(func(request string) string {
					if strings.HasPrefix(request, "STREAM.INFO.") && asked.Add(1) <= times {
						return string(stale)
					}
					return ""
				})
				return &asked
			}
			for _, open := range []func(context.Context) (*jetstream.Log, error){a.OpenReadOnly, a.Open} {
				asked := tell(3)
				again, err := open(t.Context())
				must(t, err)
				wantEntries(t, again, 10)
				if again.Behind() != nil || asked.Load() < 4 {
					t.Errorf("behind: %v after %d questions, want nil after 4", again.Behind(), asked.Load())
				}
				must(t, again.Close())
			}
			tell(math.MaxInt64)
			if _, err := a.Open(t.Context()); !errors.Is(err, jetstream.ErrNoMajority) {
				t.Errorf("open for appending: error %v, want %v", err, jetstream.ErrNoMajority)
			}
			again, err := a.OpenReadOnly(t.Context())
			must(t, err)
			defer again.Close()
			wantEntries(t, again, 5)
			if !errors.Is(again.Behind(), jetstream.ErrNoMajority) {
				t.Errorf("behind: %v, want %v", again.Behind(), jetstream.ErrNoMajority)
			}
			if _, err := a.Trim(t.Context(), 5); !errors.Is(err, jetstream.ErrNoMajority) {
				t.Errorf("trim: error %v, want %v", err, jetstream.ErrNoMajority)
			}
		})
	}
}

// A stream that was just made may have nobody who stores its first message yet.
func TestTheFirstMessageIsPublishedAgainWhileNobodyIsThere(t *testing.T) {
	s := startServer(t, nil)
	nc, _ := connected(t, s)
	const domain = "$JS.late.API."
	var made atomic.Bool
	_, err := nc.Subscribe(domain+">", func(m *nats.Msg) {
		request := strings.TrimPrefix(m.Subject, domain)
		switch {
		case strings.HasPrefix(request, "STREAM.CREATE."):
			_ = m.Respond(fmt.Appendf(nil, `{"config":%s,"created":%q}`, m.Data, time.Now().Format(time.RFC3339Nano)))
			time.AfterFunc(300*time.Millisecond, func() {
				made.Store(true)
				_ = nc.PublishRequest("$JS.API."+request, nats.NewInbox(), m.Data)
			})
		case strings.HasPrefix(request, "STREAM.MSG.GET.") && !made.Load():
			_ = m.Respond([]byte(apiError(10037)))
		default:
			_ = nc.PublishRequest("$JS.API."+request, m.Reply, m.Data)
		}
	})
	must(t, err)
	must(t, nc.Flush())
	a := parse(t, fmt.Sprintf("nats://%s/jobs?replicas=1&domain=late", s.Addr()))
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	reader, err := a.OpenReadOnly(t.Context())
	must(t, err)
	must(t, reader.Close())
	if _, err := a.Create(t.Context(), eventlog.Origin{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again: error %v, want %v", err, fs.ErrExist)
	}
}

// A caller that stops waiting gets an unknown outcome, and never a damaged log.
func TestAnEndedContextIsNoDamage(t *testing.T) {
	s := startServer(t, nil)
	r, a := startRelay(t, s, "patience=20s")
	var w wire
	w.over(a)
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	nc, _ := connected(t, s)
	info, err := nc.Request("$JS.API.STREAM.INFO.jobs", nil, 5*time.Second)
	must(t, err)
	r.by(func(request string) string {
		if strings.HasPrefix(request, "STREAM.INFO.") {
			return strings.Replace(string(info.Data), `"last_seq":2`, `"last_seq":1`, 1)
		}
		return ""
	})
	w.reconnect(log)
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, stop)
	defer cancel()
	err = log.Append(ctx, 5, logtest.Entries(6, 1))
	if !errors.Is(err, eventlog.ErrUnknownOutcome) || !errors.Is(err, stop) ||
		errors.As(err, new(*eventlog.DamagedError)) {
		t.Errorf("error %v, want an unknown outcome", err)
	}
}

// Messages after the log's end are the append only if their bytes are the same: a frame alone may lie.
func TestAnAppendWithOtherBytesIsNotTakenForTheOneThatWasMade(t *testing.T) {
	s := startServer(t, nil)
	nc, js := connected(t, s)
	var logs [2]eventlog.Log
	for i, name := range []string{"twin", "jobs"} {
		log, err := addressOf(t, s, name).Create(t.Context(), eventlog.Origin{})
		must(t, err)
		defer log.Close()
		must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
		logs[i] = log
	}
	must(t, logs[0].Append(t.Context(), 5, logtest.Entries(6, 1)))
	twin, err := js.Stream(t.Context(), "twin")
	must(t, err)
	forged, err := twin.GetMsg(t.Context(), 3)
	must(t, err)
	forged.Data[len(forged.Data)-1] ^= 1
	jobs, err := js.Stream(t.Context(), "jobs")
	must(t, err)
	_, err = nc.Request(jobs.CachedInfo().Config.Subjects[0], forged.Data, 5*time.Second)
	must(t, err)
	var damaged *eventlog.DamagedError
	if err := logs[1].Append(t.Context(), 5, logtest.Entries(6, 1)); !errors.As(err, &damaged) || damaged.Seq != 6 {
		t.Errorf("error %v, want damage at entry 6", err)
	}
}

// Credentials that are refused for a while, such as while a server's configuration is changed, do not end a connection.
func TestAConnectionOutlivesRefusedCredentials(t *testing.T) {
	var opts *server.Options
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "a", Password: "first"}}
		opts = o.Clone()
	})
	a := parse(t, fmt.Sprintf("nats://a:first@%s/jobs?replicas=1&patience=20s", s.Addr()))
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	for _, password := range []string{"second", "first"} {
		changed := opts.Clone()
		changed.Users[0].Password = password
		must(t, s.ReloadOptions(changed))
		time.Sleep(time.Second) // several tries to connect
	}
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	wantEntries(t, log, 5)
}
