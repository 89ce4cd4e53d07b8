package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// bucketOf returns the bucket beside a new log at a.
func bucketOf(t *testing.T, a *jetstream.Address) *jetstream.Bucket {
	t.Helper()
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	return log.Bucket()
}

// again returns the bucket beside the log at a, as another process has it that only reads the log.
func again(t *testing.T, a *jetstream.Address) *jetstream.Bucket {
	t.Helper()
	log, err := a.OpenReadOnly(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log.Bucket()
}

// noise returns bytes that cannot be packed, the same ones for a seed.
func noise(seed uint64, size int) []byte {
	r, out := rand.New(rand.NewPCG(seed, seed)), make([]byte, size)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func anySize([]byte) int64 { return math.MaxInt64 }

// wantObject checks that an object has a content.
func wantObject(t *testing.T, b *jetstream.Bucket, name string, want []byte) {
	t.Helper()
	got, _, err := b.Get(t.Context(), name, anySize)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, error %v, want the %d that were put", name, len(got), err, len(want))
	}
}

// wantNames checks which objects there are.
func wantNames(t *testing.T, b *jetstream.Bucket, want ...string) {
	t.Helper()
	if got, err := b.List(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("the objects are %v, error %v, want %v", got, err, want)
	}
}

// messages returns the number of a bucket's messages under a kind of subject: M for descriptions, C for contents.
func messages(t *testing.T, js natsjs.JetStream, b *jetstream.Bucket, kind string) (n uint64) {
	t.Helper()
	stream, err := js.Stream(t.Context(), "OBJ_"+b.Name())
	must(t, err)
	info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter("$O."+b.Name()+"."+kind+".>"))
	must(t, err)
	for _, count := range info.State.Subjects {
		n += count
	}
	return n
}

// An object can be read whole, with its description, by this client and by other object store clients. Objects that
// another client has put or removed are visible.
func TestAnObjectIsThatOfAnyClient(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	a := addressOf(t, s, "jobs")
	b := bucketOf(t, a)
	wantNames(t, b)
	if _, _, err := b.Get(t.Context(), "x", anySize); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), b.Name()) {
		t.Errorf("there is no bucket: error %v", err)
	}
	for name, size := range map[string]int{"empty": 0, "small": 10, "large": 5<<20 + 7} {
		data := noise(1, size)
		must(t, b.Put(t.Context(), name, data, map[string]string{"is": name}))
		got, about, err := again(t, a).Get(t.Context(), name, anySize)
		if err != nil || !bytes.Equal(got, data) || about["is"] != name {
			t.Errorf("%s: %d bytes, said of it %v, error %v", name, len(got), about, err)
		}
		store, err := js.ObjectStore(t.Context(), b.Name())
		must(t, err)
		if got, err := store.GetBytes(t.Context(), name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: another client reads %d bytes, error %v", name, len(got), err)
		}
	}
	wantNames(t, b, "empty", "large", "small")
	store, err := js.ObjectStore(t.Context(), b.Name())
	must(t, err)
	_, err = store.PutBytes(t.Context(), "theirs", noise(2, 300<<10))
	must(t, err)
	must(t, store.Delete(t.Context(), "large"))
	wantObject(t, b, "theirs", noise(2, 300<<10))
	if _, _, err := b.Get(t.Context(), "large", anySize); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another client has removed it: error %v", err)
	}
	wantNames(t, b, "empty", "small", "theirs")
	for _, name := range []string{"theirs", "theirs", "large"} {
		must(t, b.Remove(t.Context(), name))
	}
	wantNames(t, b, "empty", "small")
	if n := messages(t, js, b, "C") + messages(t, js, b, "M"); n != 3 { // one content, and what the two are
		t.Errorf("%d messages are left", n)
	}
}

// A bucket has a name that is valid, and its own, for every stream.
func TestABucketHasAValidName(t *testing.T) {
	valid, seen := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), map[string]string{}
	long := strings.Repeat("x", 240)
	for _, stream := range []string{"jobs", "jobs=west", "jobs_west", "_jobs", "jobs=east", long, long + "y"} {
		name := jetstream.BucketOf(stream)
		if before, both := seen[name]; both || !valid.MatchString(name) || len("OBJ_"+name) > 255 {
			t.Errorf("%s has %s, as %q", stream, name, before)
		}
		seen[name] = stream
	}
	s := startServer(t, nil)
	a := addressOf(t, s, "jobs=west")
	b := bucketOf(t, a)
	must(t, b.Put(t.Context(), "x", noise(1, 10), nil))
	wantObject(t, again(t, a), "x", noise(1, 10))
}

// Putting an object that exists with the same content writes nothing. Two clients that put the same at the same time
// both succeed.
func TestWhatIsThereIsNotWrittenAgain(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	a := addressOf(t, s, "jobs")
	one, two := bucketOf(t, a), again(t, a)
	data := noise(3, 3<<20)
	last := func() uint64 {
		stream, err := js.Stream(t.Context(), "OBJ_"+one.Name())
		must(t, err)
		return stream.CachedInfo().State.LastSeq
	}
	must(t, one.Put(t.Context(), "x", data, nil))
	before := last()
	must(t, two.Put(t.Context(), "x", data, nil))
	if after := last(); after != before {
		t.Errorf("what is there was written again, in %d messages", after-before)
	}
	for i := range 5 {
		name := fmt.Sprint("both", i)
		var both sync.WaitGroup
		for _, b := range []*jetstream.Bucket{one, two} {
			both.Go(func() {
				if err := b.Put(t.Context(), name, data, nil); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		wantObject(t, one, name, data)
	}
	must(t, one.Put(t.Context(), "x", noise(4, 2<<20), nil)) // another content, such as of a log that was made again
	wantObject(t, two, "x", noise(4, 2<<20))
	must(t, two.Sweep(t.Context(), "z"))
	if n := messages(t, js, one, "C"); n != 5*4+3 {
		t.Errorf("six objects have %d parts, want 23", n)
	}
	wantObject(t, two, "both0", data)
}

// An object of which a part is missing, or other bytes than were put, is none; put again it is whole.
func TestAnObjectThatIsNotWholeIsNotRead(t *testing.T) {
	s := startServer(t, nil)
	nc, js := connected(t, s)
	b := bucketOf(t, addressOf(t, s, "jobs"))
	data := noise(5, 3<<20)
	for _, tc := range []struct {
		name, want string
		harm       func(stream natsjs.Stream, o *natsjs.ObjectInfo)
	}{
		{"torn", "of its 3145728 bytes there are", func(stream natsjs.Stream, o *natsjs.ObjectInfo) {
			m, err := stream.GetLastMsgForSubject(t.Context(), "$O."+b.Name()+".C."+o.NUID)
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), m.Sequence))
		}},
		{"flipped", "its digest is", func(stream natsjs.Stream, o *natsjs.ObjectInfo) {
			subject := "$O." + b.Name() + ".C." + o.NUID
			m, err := stream.GetLastMsgForSubject(t.Context(), subject)
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), m.Sequence))
			m.Data[len(m.Data)-1] ^= 1
			_, err = nc.Request(subject, m.Data, 5*time.Second)
			must(t, err)
		}},
		{"longer", "more than its 3145728 bytes", func(stream natsjs.Stream, o *natsjs.ObjectInfo) {
			subject := "$O." + b.Name() + ".C." + o.NUID
			m, err := stream.GetLastMsgForSubject(t.Context(), subject)
			must(t, err)
			must(t, stream.DeleteMsg(t.Context(), m.Sequence))
			_, err = nc.Request(subject, append(m.Data, 'x'), 5*time.Second)
			must(t, err)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must(t, b.Put(t.Context(), tc.name, data, nil))
			store, err := js.ObjectStore(t.Context(), b.Name())
			must(t, err)
			o, err := store.GetInfo(t.Context(), tc.name)
			must(t, err)
			stream, err := js.Stream(t.Context(), "OBJ_"+b.Name())
			must(t, err)
			tc.harm(stream, o)
			var wrong *jetstream.ObjectError
			_, _, err = b.Get(t.Context(), tc.name, anySize)
			if !errors.As(err, &wrong) || wrong.Name != tc.name || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	must(t, b.Put(t.Context(), "torn", data, nil))
	wantObject(t, b, "torn", data)
}

// An object larger than its beginning allows is not read further.
func TestALargeObjectIsNotRead(t *testing.T) {
	s := startServer(t, nil)
	b := bucketOf(t, addressOf(t, s, "jobs"))
	must(t, b.Put(t.Context(), "x", noise(6, 4<<20), nil))
	asked := 0
	_, _, err := b.Get(t.Context(), "x", func([]byte) int64 { asked++; return 100 })
	if !errors.As(err, new(*jetstream.ObjectError)) || asked != 1 {
		t.Errorf("%d parts were read, error %v, want one and that it is too large", asked, err)
	}
}

// An interrupted writer's remains are no object, and the earlier object still exists. The remains are swept once a
// later object exists.
func TestAnInterruptedWriterLeavesWhatWasThere(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	var w wire
	a := w.over(parse(t, fmt.Sprintf("nats://%s/jobs?replicas=1&patience=300ms", s.Addr())))
	b := bucketOf(t, a)
	must(t, b.Put(t.Context(), "1", noise(7, 2<<20), nil))
	seen := 0
	sees := func(sent []byte) {
		if bytes.Contains(sent, []byte("HPUB $O."+b.Name()+".C.")) {
			if seen++; seen == 2 {
				w.lastOf("snapshots").losesSent.Store(true)
			}
		}
	}
	w.lastOf("snapshots").sees.Store(&sees)
	if err := b.Put(t.Context(), "1", noise(8, 4<<20), nil); err == nil || !strings.Contains(err.Error(), b.Name()) {
		t.Errorf("cut off: error %v", err)
	}
	other := again(t, addressOf(t, s, "jobs"))
	wantObject(t, other, "1", noise(7, 2<<20))
	if n := messages(t, js, b, "C"); n != 3+1 {
		t.Fatalf("%d parts are there, want those of an object and one of what was interrupted", n)
	}
	must(t, other.Sweep(t.Context(), "1"))
	if n := messages(t, js, b, "C"); n != 3+1 {
		t.Errorf("%d parts are there: what may be under way was swept", n)
	}
	must(t, other.Sweep(t.Context(), "2"))
	if n := messages(t, js, b, "C"); n != 3 {
		t.Errorf("%d parts are there, want those of an object", n)
	}
	wantObject(t, other, "1", noise(7, 2<<20))
}

// A writer under which a part is removed, by one who takes it for left over or who removes the bucket, begins again:
// there is never an object without its parts. Whichever of the messages is the next to be sent.
func TestAWriterThatIsSweptBeginsAnew(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	for name, remove := range map[string]func(stream string) error{
		"swept": func(stream string) error {
			held, err := js.Stream(t.Context(), stream)
			if err != nil {
				return err
			}
			return held.Purge(t.Context(), natsjs.WithPurgeSubject("$O.*.C.>"))
		},
		"bucket": func(stream string) error { return js.DeleteStream(t.Context(), stream) },
	} {
		for _, before := range []string{".C.", ".M."} {
			t.Run(name+before, func(t *testing.T) {
				var w wire
				a := w.over(addressOf(t, s, strings.ReplaceAll(name+before, ".", "-")))
				b := bucketOf(t, a)
				must(t, b.Put(t.Context(), "0", noise(9, 10), nil))
				seen := 0
				sees := func(sent []byte) {
					if bytes.Contains(sent, []byte("HPUB $O."+b.Name()+before)) {
						if seen++; seen == 2 && before == ".C." || seen == 1 && before == ".M." {
							if err := remove("OBJ_" + b.Name()); err != nil {
								t.Error(err)
							}
						}
					}
				}
				w.lastOf("snapshots").sees.Store(&sees)
				data := noise(10, 3<<20)
				must(t, b.Put(t.Context(), "1", data, nil))
				wantObject(t, b, "1", data)
				if n := messages(t, js, b, "C"); n < 4 || n > 5 {
					t.Errorf("%d parts are left, want four of one object, and what was before", n)
				}
			})
		}
	}
}

// An answer that is lost leaves open what became of a part: what is there is compared, and each part is there once.
func TestAnObjectIsPutOverABadConnection(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	for _, part := range []string{".C.", ".M."} {
		var w wire
		a := w.over(parse(t, fmt.Sprintf("nats://%s/bad%s?replicas=1&patience=20s", s.Addr(), part[1:2])))
		b := bucketOf(t, a)
		must(t, b.Put(t.Context(), "0", noise(9, 10), nil))
		c, once := w.lastOf("snapshots"), false
		sees := func(sent []byte) {
			if !once && bytes.Contains(sent, []byte("HPUB $O."+b.Name()+part)) {
				once = true
				c.losesAnswers.Store(true)
				time.AfterFunc(300*time.Millisecond, func() { _ = c.Conn.Close() }) // then it connects again
			}
		}
		c.sees.Store(&sees)
		data := noise(11, 3<<20)
		must(t, b.Put(t.Context(), "1", data, nil))
		wantObject(t, b, "1", data)
		if n := messages(t, js, b, "C"); n != 1+4 || !once {
			t.Errorf("%d parts are there, want each once", n)
		}
	}
}

// A bucket of other settings is refused by the setting, and the log is read and written as ever.
func TestABucketOfOtherSettingsIsRefusedByTheSetting(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	for i, tc := range []struct {
		setting string
		reading bool // it is refused for reading, too
		change  func(c *natsjs.StreamConfig)
	}{
		{"", false, func(*natsjs.StreamConfig) {}},
		{"storage", true, func(c *natsjs.StreamConfig) { c.Storage = natsjs.MemoryStorage }},
		{"max_bytes", true, func(c *natsjs.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"max_msgs", true, func(c *natsjs.StreamConfig) { c.MaxMsgs = 100 }},
		{"max_age", true, func(c *natsjs.StreamConfig) { c.MaxAge = time.Hour }},
		{"max_msgs_per_subject", true, func(c *natsjs.StreamConfig) { c.MaxMsgsPerSubject = 1 }},
		{"retention", true, func(c *natsjs.StreamConfig) { c.Retention = natsjs.InterestPolicy }},
		{"allow_msg_ttl", true, func(c *natsjs.StreamConfig) { c.AllowMsgTTL = true }},
		{"subjects", true, func(c *natsjs.StreamConfig) { c.Subjects = c.Subjects[:1] }},
		{"allow_rollup_hdrs", false, func(c *natsjs.StreamConfig) { c.AllowRollup = false }},
		{"deny_purge", false, func(c *natsjs.StreamConfig) { c.AllowRollup, c.DenyPurge = true, true }},
		{"deny_delete", false, func(c *natsjs.StreamConfig) { c.DenyDelete = true }},
		{"max_msg_size", false, func(c *natsjs.StreamConfig) { c.MaxMsgSize = 1000 }},
	} {
		a := addressOf(t, s, fmt.Sprint("jobs", i))
		log, err := a.Create(t.Context(), eventlog.Origin{})
		must(t, err)
		b := log.Bucket()
		c := natsjs.StreamConfig{
			Name: "OBJ_" + b.Name(), Subjects: []string{"$O." + b.Name() + ".C.>", "$O." + b.Name() + ".M.>"},
			Storage: natsjs.FileStorage, AllowRollup: true, AllowDirect: true, Discard: natsjs.DiscardNew,
		}
		tc.change(&c)
		if c.DenyPurge {
			c.AllowRollup = false // which the servers want
		}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", tc.setting, err)
		}
		refused := func(err error) bool {
			var setting *jetstream.SettingError
			return errors.As(err, &setting) && strings.HasPrefix(setting.Setting, tc.setting) &&
				setting.Bucket == b.Name()
		}
		if tc.setting == "deny_purge" {
			tc.setting = "allow_rollup_hdrs"
		}
		err = b.Put(t.Context(), "x", []byte("data"), nil)
		if good := tc.setting == ""; good && err != nil || !good && !refused(err) {
			t.Errorf("%s: put: error %v", tc.setting, err)
		}
		if _, err = b.List(t.Context()); tc.reading != refused(err) && tc.setting != "" {
			t.Errorf("%s: list: error %v", tc.setting, err)
		}
		must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
		wantEntries(t, log, 5)
		must(t, log.Close())
	}
}

// A right that is missing is said with the subject, which has the bucket's name, at once, and without a secret.
func TestAMissingRightToTheBucketIsSaid(t *testing.T) {
	for _, tc := range []struct {
		deny string
		do   func(b *jetstream.Bucket) error
	}{
		{"$JS.API.STREAM.INFO.OBJ_rollcall-snapshots-jobs", func(b *jetstream.Bucket) error {
			_, err := b.List(t.Context())
			return err
		}},
		{"$JS.API.STREAM.MSG.GET.OBJ_rollcall-snapshots-jobs", func(b *jetstream.Bucket) error {
			_, _, err := b.Get(t.Context(), "x", anySize)
			return err
		}},
		{"$JS.API.STREAM.CREATE.OBJ_rollcall-snapshots-jobs", func(b *jetstream.Bucket) error {
			return b.Put(t.Context(), "x", noise(1, 10), nil)
		}},
		{"$O.rollcall-snapshots-jobs.C.>", func(b *jetstream.Bucket) error {
			return b.Put(t.Context(), "x", noise(1, 10), nil)
		}},
		{"$O.rollcall-snapshots-jobs.M.>", func(b *jetstream.Bucket) error {
			return b.Put(t.Context(), "x", noise(1, 10), nil)
		}},
		{"$JS.API.STREAM.PURGE.OBJ_rollcall-snapshots-jobs", func(b *jetstream.Bucket) error {
			must(t, b.Put(t.Context(), "x", noise(1, 10), nil))
			return b.Remove(t.Context(), "x")
		}},
	} {
		t.Run(tc.deny, func(t *testing.T) {
			s := startServer(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "a", Password: "secret", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Deny: []string{tc.deny}}}}}
			})
			b := bucketOf(t, parse(t, fmt.Sprintf("nats://a:secret@%s/jobs?replicas=1&patience=1m", s.Addr())))
			err := tc.do(b)
			if err == nil || !strings.Contains(err.Error(), "denies its user to publish to "+strings.TrimSuffix(tc.deny,
				">")) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A full server refuses the object with advice. Earlier objects exist, and the bucket has no part of the refused one.
func TestAFullServerRefusesTheObject(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.JetStreamMaxStore = 8 << 20 })
	_, js := connected(t, s)
	b := bucketOf(t, addressOf(t, s, "jobs"))
	must(t, b.Put(t.Context(), "1", noise(12, 2<<20), nil))
	err := b.Put(t.Context(), "2", noise(13, 12<<20), nil)
	if err == nil || !strings.Contains(err.Error(), b.Name()) || !strings.Contains(err.Error(), "room") {
		t.Errorf("error %v", err)
	}
	wantNames(t, b, "1")
	wantObject(t, b, "1", noise(12, 2<<20))
	if n := messages(t, js, b, "C"); n != 3 {
		t.Errorf("%d parts are there, want three", n)
	}
}

// While one of three servers is away, whichever, objects are put and read; the bucket is kept by as many servers as the
// stream.
func TestOneServerOfThreeIsAway(t *testing.T) {
	c := startCluster(t)
	b := bucketOf(t, c.address(t, "jobs"))
	for i := range c.servers {
		c.stop(i)
		name, data := fmt.Sprint(i), noise(uint64(i), 2<<20)
		must(t, b.Put(t.Context(), name, data, nil))
		wantObject(t, b, name, data)
		c.start(t, i)
		c.ready(t)
		c.current(t, "OBJ_"+b.Name()) // as another one is to be away next
	}
	wantNames(t, again(t, c.address(t, "jobs")), "0", "1", "2")
	_, js := connected(t, c.servers[0])
	stream, err := js.Stream(t.Context(), "OBJ_"+b.Name())
	must(t, err)
	if n := stream.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the bucket is kept by %d servers", n)
	}
}

// Reaches asks the servers: it knows what another writer has appended, and that a stream was made again.
func TestReachesAsksTheServers(t *testing.T) {
	s := startServer(t, nil)
	_, js := connected(t, s)
	a := parse(t, fmt.Sprintf("nats://%s/jobs?replicas=1&patience=200ms", s.Addr()))
	log, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer log.Close()
	must(t, log.Append(t.Context(), 0, logtest.Entries(1, 5)))
	reader, err := a.OpenReadOnly(t.Context())
	must(t, err)
	defer reader.Close()
	must(t, log.Append(t.Context(), 5, logtest.Entries(6, 9000))) // an append of several messages
	if last, _ := reader.Last(); last != 5 {
		t.Fatalf("the reader knows entry %d", last)
	}
	for seq, want := range map[uint64]bool{5: true, 6: true, 9005: true, 9006: false} {
		if got, err := reader.Reaches(t.Context(), seq); got != want || err != nil {
			t.Errorf("entry %d: %t, error %v", seq, got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reached, err := reader.Reaches(ctx, 9006); reached || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has ended: %t, error %v", reached, err)
	}
	must(t, js.DeleteStream(t.Context(), "jobs"))
	other, err := a.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	defer other.Close()
	must(t, other.Append(t.Context(), 0, logtest.Entries(1, 20)))
	if reached, err := reader.Reaches(t.Context(), 10); reached || err == nil {
		t.Errorf("another stream: %t, error %v", reached, err)
	}
}
