package jetstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
)

// longLog makes a log of many appends, with several hash trees.
func longLog(t *testing.T, at *jetstream.Address, entries int) *jetstream.Log {
	t.Helper()
	log, err := at.Create(t.Context(), eventlog.Origin{})
	must(t, err)
	grow(t, log, entries)
	return log
}

// grow appends entries, a hundred at a time.
func grow(t *testing.T, log *jetstream.Log, entries int) {
	t.Helper()
	last, err := log.Last()
	must(t, err)
	for end := last + uint64(entries); last < end; last += 100 {
		var batch []eventlog.Entry
		for i := range uint64(100) {
			batch = append(batch, tick(last+i+1))
		}
		must(t, log.Append(t.Context(), last, batch))
	}
}

func tick(seq uint64) eventlog.Entry {
	e := eventlog.Entry{Seq: seq, Epoch: 1, Time: eventlog.Time(seq), Payload: &eventlog.Tick{}}
	if seq == 1 {
		e.Payload = &eventlog.EpochStarted{ID: "e", Version: "test", Format: eventlog.FormatVersion}
	}
	return e
}

// A trimmed log can be read from its new beginning on, with the same records, chain and tree, and can be appended to.
// The removed entries are archived, not damaged, also for processes that had the log open.
func TestATrimmedLogGoesOnWithItsChain(t *testing.T) {
	for name, replicas := range map[string]int{"one server": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			at := addressOf(t, startServer(t, nil), "jobs")
			if replicas == 3 {
				at = startCluster(t).address(t, "jobs")
			}
			log := longLog(t, at, 20_000)
			defer log.Close()
			reader, err := at.OpenReadOnly(t.Context())
			must(t, err)
			defer reader.Close()
			whole := slices.Collect(records(t, reader, 1))
			before := originAt(t, reader, 15_000)
			identity, err := reader.Identity(t.Context())
			must(t, err)
			if done, err := at.Trim(t.Context(), 15_000); err != nil || done.Messages != 0 || done.First != 1 {
				t.Errorf("200 messages are fewer than the margin, and %+v went, error %v", done, err)
			}
			const margin = 20
			done, err := jetstream.TrimTo(t.Context(), at, 15_000, margin)
			must(t, err)
			if done.First < 10_000 || done.First > 15_000 || done.Messages == 0 || done.Bytes == 0 {
				t.Fatalf("trimmed %+v, want a beginning up to entry 15000", done)
			}
			grow(t, log, 5_000)
			again, err := at.Open(t.Context())
			must(t, err)
			defer again.Close()
			if again.First() != done.First {
				t.Errorf("it begins with entry %d, want %d", again.First(), done.First)
			}
			got := slices.Collect(records(t, again, done.First))
			if want := whole[done.First-1:]; !slices.Equal(got[:len(want)], want) || len(got) != len(want)+5_000 {
				t.Errorf("the %d records are not those of before, and 5,000 more", len(got))
			}
			if after := originAt(t, again, 15_000); after.Hash != before.Hash || !after.Tree.Equal(before.Tree) {
				t.Error("behind entry 15,000 it has another hash or tree than before")
			}
			if id, err := again.Identity(t.Context()); err != nil || id != identity {
				t.Errorf("its identity is %s, error %v, want %s", id, err, identity)
			}
			grow(t, again, 5_000)
			var archived *eventlog.ArchivedError
			for name, l := range map[string]*jetstream.Log{"a reader of before": reader, "a later one": again} {
				for _, err := range l.Records(t.Context(), 5) {
					if !errors.As(err, &archived) || archived.First != done.First {
						t.Errorf("%s reads entry 5: %v, want that it is archived", name, err)
					}
				}
			}
			more, err := jetstream.TrimTo(t.Context(), at, 25_000, margin)
			if err != nil || more.First <= done.First {
				t.Errorf("trimmed again: %+v, error %v, want a later beginning than %d", more, err, done.First)
			}
		})
	}
}

// Messages that are missing without a word in the stream's metadata are damage.
func TestAStreamThatLacksMessagesForNoReasonIsDamaged(t *testing.T) {
	s := startServer(t, nil)
	at := addressOf(t, s, "jobs")
	must(t, longLog(t, at, 10_000).Close())
	if _, err := jetstream.TrimTo(t.Context(), at, 9_000, 5); err != nil {
		t.Fatal(err)
	}
	edit(t, s.ClientURL(), "jobs", func(c map[string]any) { delete(c, "metadata") })
	var damaged *eventlog.DamagedError
	if _, err := at.OpenReadOnly(t.Context()); !errors.As(err, &damaged) {
		t.Errorf("error %v, want damage", err)
	}
}

// A trim that was broken off while the limit stood is seen at the next opening, and completed by the next trim.
func TestATrimThatWasBrokenOffIsCompleted(t *testing.T) {
	s := startServer(t, nil)
	at := addressOf(t, s, "jobs")
	must(t, longLog(t, at, 10_000).Close())
	done, err := jetstream.TrimTo(t.Context(), at, 9_000, 5)
	must(t, err)
	edit(t, s.ClientURL(), "jobs", func(c map[string]any) { c["max_msgs"], c["discard"] = 1000, "old" })
	var setting *jetstream.SettingError
	if _, err := at.Open(t.Context()); !errors.As(err, &setting) || !strings.Contains(err.Error(), "max_msgs") {
		t.Errorf("error %v, want that max_msgs is set", err)
	}
	if again, err := jetstream.TrimTo(t.Context(), at, 9_000, 5); err != nil || again.First != done.First {
		t.Errorf("the next trim: %+v, error %v", again, err)
	}
	log, err := at.Open(t.Context())
	must(t, err)
	must(t, log.Close())
}

// A writer that appends all the time while the log is trimmed, again and again, loses nothing that was to stay.
func TestALogIsTrimmedUnderItsWriter(t *testing.T) {
	at := addressOf(t, startServer(t, nil), "jobs")
	log := longLog(t, at, 10_000)
	defer log.Close()
	var stop atomic.Bool
	var writing sync.WaitGroup
	writing.Go(func() {
		for !stop.Load() {
			last, err := log.Last()
			if err == nil {
				err = log.Append(t.Context(), last, []eventlog.Entry{tick(last + 1)})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		time.Sleep(200 * time.Millisecond)
		last, err := log.Last()
		must(t, err)
		done, err := jetstream.TrimTo(t.Context(), at, last, 3)
		if err != nil {
			if !strings.Contains(err.Error(), "in a moment") { // three messages are a small margin
				t.Error(err)
			}
			break
		}
		reader, err := at.OpenReadOnly(t.Context())
		must(t, err)
		n := uint64(0)
		for range records(t, reader, done.First) {
			n++
		}
		if end, err := reader.Last(); err != nil || end != done.First+n-1 {
			t.Errorf("%d entries from %d on, and the last is %d, error %v", n, done.First, end, err)
		}
		must(t, reader.Close())
	}
	stop.Store(true)
	writing.Wait()
}

// edit changes a stream's settings, as an administrator may.
func edit(t *testing.T, url, stream string, change func(map[string]any)) {
	t.Helper()
	nc, err := nats.Connect(url)
	must(t, err)
	defer nc.Close()
	m, err := nc.Request("$JS.API.STREAM.INFO."+stream, nil, 5*time.Second)
	must(t, err)
	var info struct {
		Config map[string]any `json:"config"`
	}
	must(t, json.Unmarshal(m.Data, &info))
	change(info.Config)
	body, err := json.Marshal(info.Config)
	must(t, err)
	m, err = nc.Request("$JS.API.STREAM.UPDATE."+stream, body, 5*time.Second)
	must(t, err)
	if strings.Contains(string(m.Data), `"error"`) {
		t.Fatalf("%s", m.Data)
	}
}

// records yields the texts of a log's records.
func records(t *testing.T, log *jetstream.Log, from uint64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for r, err := range log.Records(t.Context(), from) {
			must(t, err)
			if !yield(fmt.Sprintf("%d %x", r.Seq, r.Hash)) {
				return
			}
		}
	}
}

func originAt(t *testing.T, log *jetstream.Log, seq uint64) eventlog.Origin {
	t.Helper()
	o, err := eventlog.OriginAt(t.Context(), log, seq)
	must(t, err)
	return o
}
