package histories

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/engine/live"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/kube/effect"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// schedulerRole is the configuration of a scheduler's process. It consists of the parts of "rollcall run", with the
// log in JetStream, on standby until it may lead. Instead of a Lease it asks the test, which may lie.
type schedulerRole struct {
	Name     string // of this process, for its requests and notes
	Log      string // the log's name
	Cluster  string // the address of the virtual cluster
	Dir      string // of its notes
	Stubborn bool   // it leads until the log shows otherwise, whatever the lease says
	Slow     bool   // on standby it lags behind the log

	Lease time.Duration // the time without an answer after which the lease counts as lost
}

// The lease: the time between two requests, and the time to wait for an answer.
const (
	leaseEvery = 50 * time.Millisecond
	leaseWait  = 300 * time.Millisecond
)

// callTimeout is the time that a call to the virtual cluster may take.
const callTimeout = 2 * time.Second

// openPatience is the time that servers may lack what the standby has read from others.
const openPatience = 15 * time.Second

// errLeaseLost ends a scheduler's lead when the test has given the lease to another one.
var errLeaseLost = errors.New("the lease is lost")

// exitDamaged is the exit code of a scheduler that calls the log damaged.
const exitDamaged = 4

// exitCode is the exit code of a process that ends because of err.
func exitCode(err error) int {
	if errors.As(err, new(*eventlog.DamagedError)) {
		return exitDamaged
	}
	return 1
}

// A member is a process that schedules, or is on standby.
type member struct {
	schedulerRole
	notes  *notebook
	at     *jetstream.Address
	config []byte
	rest   *rest.Config
	client kubernetes.Interface
	leases *http.Client
	holds  atomic.Bool // the lease, by the last answer
}

// run schedules until the process is asked to end, or an error other than a lost lead ends it.
func (r schedulerRole) run() (err error) {
	m := &member{schedulerRole: r, leases: &http.Client{Timeout: leaseWait}}
	if m.notes, err = openNotebook(r.Dir + "/" + r.Name + notesEnd); err != nil {
		return err
	}
	if m.at, err = jetstream.Parse(r.Log); err != nil {
		return err
	}
	if m.config, err = schedulerConfig(); err != nil {
		return err
	}
	m.rest = &rest.Config{Host: r.Cluster, QPS: -1, UserAgent: r.Name}
	if m.client, err = kubernetes.NewForConfig(m.rest); err != nil {
		return err
	}
	fmt.Println("ready")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go m.keepLease(ctx)
	for ctx.Err() == nil {
		err := m.stand(ctx)
		var superseded *eventlog.SupersededError
		switch {
		case ctx.Err() != nil && err == nil:
		case errors.As(err, &superseded), errors.Is(err, errLeaseLost):
			m.report(Note{What: Lost, Text: err.Error()})
		case errors.As(err, new(*eventlog.DamagedError)):
			m.report(Note{What: Damaged, Text: err.Error()})
			return err
		default:
			m.report(failedNote(err))
			return err
		}
	}
	return nil
}

// schedulerConfig is the default configuration with short backoffs.
func schedulerConfig() ([]byte, error) {
	cfg, err := framework.LoadConfig([]byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 10}
`), "the configuration of histories")
	if err != nil {
		return nil, err
	}
	return framework.EncodeConfig(cfg)
}

// report notes something and writes it to the standard error, for people who read a failed history.
func (m *member) report(n Note) {
	m.notes.note(n)
	m.say(fmt.Sprintf("%s %s", n.What, n.Text))
}

func (m *member) say(text string) {
	fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format("15:04:05.000"), m.Name, text)
}

// keepLease asks for the lease until ctx ends.
func (m *member) keepLease(ctx context.Context) {
	answered := time.Now()
	for ctx.Err() == nil {
		if holds, err := m.askLease(ctx); err == nil {
			answered = time.Now()
			m.holds.Store(holds)
		} else if time.Since(answered) > m.Lease {
			m.holds.Store(false)
		}
		time.Sleep(leaseEvery)
	}
}

func (m *member) askLease(ctx context.Context) (holds bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Cluster+"/lease?by="+m.Name, nil)
	if err != nil {
		return false, err
	}
	answer, err := m.leases.Do(request)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return false, err
	}
	return holds, json.Unmarshal(text, &holds)
}

// releaseLease takes the lease from a scheduler that has ended.
func (m *member) releaseLease(ctx context.Context, name string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Cluster+"/vacate?of="+name, nil)
	if err != nil {
		return
	}
	if answer, err := m.leases.Do(request); err == nil {
		_ = answer.Body.Close()
	}
}

// A tenure is the time of a member from the beginning of its standby to the end of its lead.
type tenure struct {
	*member
	state   *engine.Standby // nil before the log was read
	watcher atomic.Pointer[watch.Watch]
	effects *effect.Effects
}

// stand is on standby, and then leads, once.
func (m *member) stand(ctx context.Context) error {
	t := &tenure{member: m}
	t.effects = effect.New(effect.Options{
		Client: m.client, Workers: 16, CallTimeout: callTimeout, Still: t.still, Report: m.say,
	})
	var watches, follows sync.WaitGroup
	defer watches.Wait()
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer endWatching()
	following, endFollowing := context.WithCancelCause(ctx)
	defer endFollowing(nil)
	follows.Go(func() {
		if err := t.follow(following, func() { t.prepare(watching, &watches) }); err != nil {
			endFollowing(err)
		}
	})
	for !m.holds.Load() && following.Err() == nil {
		time.Sleep(leaseEvery / 5)
	}
	cause := context.Cause(following)
	endFollowing(nil)
	follows.Wait()
	if t.state != nil {
		defer t.state.Close()
	}
	if cause != nil {
		if ctx.Err() != nil {
			return nil
		}
		return cause
	}
	return t.lead(ctx, watching, &watches)
}

// follow follows the log until ctx ends, or the log is damaged. ready is called once it was read.
func (t *tenure) follow(ctx context.Context, ready func()) error {
	said := ""
	for ctx.Err() == nil {
		err := t.followOnce(ctx, ready)
		if ctx.Err() != nil {
			return nil
		}
		if errors.As(err, new(*eventlog.DamagedError)) {
			return err
		}
		if said != err.Error() {
			said = err.Error()
			t.say("it cannot follow: " + said)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

func (t *tenure) followOnce(ctx context.Context, ready func()) error {
	opened, err := t.at.OpenReadOnly(ctx)
	if err != nil {
		return err
	}
	defer opened.Close()
	log := &notedLog{opened, t.notes}
	if t.state == nil {
		state := engine.NewStandby(t.options())
		if err := state.Recover(ctx, log); err != nil {
			return err
		}
		t.state = state
		ready()
	}
	asking, end := context.WithCancel(ctx)
	var asks sync.WaitGroup
	asks.Go(func() {
		for {
			name, err := opened.Abandoned(asking)
			if err != nil {
				return
			}
			t.say("the leader is gone: " + name)
			t.releaseLease(asking, name)
		}
	})
	err = t.state.Follow(ctx, log, t.applied)
	end()
	asks.Wait()
	return err
}

// prepare watches the cluster beside the log.
func (t *tenure) prepare(ctx context.Context, watches *sync.WaitGroup) {
	if err := t.watch(ctx, watches, t.state.Machine(), true); err != nil {
		t.say(err.Error())
	}
}

func (t *tenure) watch(ctx context.Context, watches *sync.WaitGroup, m *scheduler.Machine, following bool) error {
	w, err := watch.New(watch.Options{
		Client: t.client, Config: t.rest, Known: m.Cluster().Objects(), Following: following,
	})
	if err != nil {
		return err
	}
	t.watcher.Store(w)
	watches.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.say(err.Error())
		}
	})
	return nil
}

// slowness is the additional time that a slow standby takes for an entry.
const slowness = 10 * time.Millisecond

// applied passes an entry of the log on to the watches.
func (t *tenure) applied(entry eventlog.Entry) error {
	if t.Slow && !t.holds.Load() {
		time.Sleep(slowness)
	}
	if w := t.watcher.Load(); w != nil {
		return w.Logged(entry)
	}
	return nil
}

func (t *tenure) options() engine.Options {
	return engine.Options{Registry: plugins.NewRegistry(), Config: t.config, Version: "histories", Report: t.say}
}

// still returns the reason why an effect need not be sent any more.
func (t *tenure) still(e engine.Effect) error {
	w := t.watcher.Load()
	if w == nil {
		return nil
	}
	p, ok := w.Pod(e.UID)
	switch {
	case !ok:
		return errors.New("the pod is gone")
	case e.Kind != scheduler.Bind:
		return nil
	case p.NodeName != "":
		return fmt.Errorf("the pod is on node %s", p.NodeName)
	case !w.Node(e.Node):
		return fmt.Errorf("node %s is gone", e.Node)
	}
	return nil
}

// lead schedules until ctx is done or the lead is lost.
func (t *tenure) lead(ctx, watching context.Context, watches *sync.WaitGroup) error {
	opened, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer opened.Close()
	t.report(Note{What: Leads})
	var all sync.WaitGroup
	defer all.Wait()
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	lost := make(chan struct{})
	all.Go(func() {
		for working.Err() == nil && (t.Stubborn || t.holds.Load()) {
			time.Sleep(leaseEvery / 5)
		}
		close(lost)
		stop()
	})
	all.Go(func() { t.effects.Run(working) })
	options := t.options()
	options.Standby = t.state
	err = live.Run(ctx, live.Options{
		Log:    &notedLog{opened, t.notes},
		Engine: options,
		World: func(r engine.Recovery) (live.World, error) {
			if w := t.watcher.Load(); w != nil {
				w.Lead()
				return w, nil
			}
			err := t.watch(watching, watches, r.State, false)
			return t.watcher.Load(), err
		},
		Effects: &notedEffects{t.effects, t.notes},
		Grace:   500 * time.Millisecond, Lost: lost, Report: t.say,
	})
	select {
	case <-lost:
		if err == nil && ctx.Err() == nil {
			err = errLeaseLost
		}
	default:
	}
	return err
}

// open opens the log, or makes it. Servers that lack what the standby has read from others are given time to learn of
// it.
func (t *tenure) open(ctx context.Context) (*jetstream.Log, error) {
	for began := time.Now(); ; {
		log, err := t.at.Open(ctx)
		if errors.Is(err, fs.ErrNotExist) && t.state == nil {
			log, err = t.at.Create(ctx, eventlog.Origin{})
		}
		if err != nil {
			return nil, err
		}
		if err := log.Announce(t.Name); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		last, err := log.Last()
		if err != nil || t.state == nil || last >= t.state.Seq() || time.Since(began) > openPatience {
			return log, err
		}
		if err := log.Close(); err != nil {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// notedLog notes the log's acknowledgements and the entries read from it.
type notedLog struct {
	*jetstream.Log
	notes *notebook
}

// Append implements eventlog.Appender.
func (l *notedLog) Append(ctx context.Context, expectedLast uint64, entries []eventlog.Entry) error {
	if err := l.Log.Append(ctx, expectedLast, entries); err != nil || len(entries) == 0 {
		return err
	}
	last := entries[len(entries)-1].Seq
	hash, err := l.RecordHash(ctx, last)
	if err != nil {
		return err
	}
	l.notes.note(Note{What: Acknowledged, First: expectedLast + 1, Last: last, Hash: hex.EncodeToString(hash[:])})
	return nil
}

// Read implements eventlog.Reader. It notes the last entry, whose hash covers all earlier ones.
func (l *notedLog) Read(ctx context.Context, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		last := uint64(0)
		for e, err := range l.Log.Read(ctx, from) {
			if err == nil {
				last = e.Seq
			}
			if !yield(e, err) {
				return
			}
		}
		if last == 0 {
			return
		}
		if hash, err := l.RecordHash(ctx, last); err == nil {
			l.notes.note(Note{What: Seen, Last: last, Hash: hex.EncodeToString(hash[:])})
		}
	}
}

// Follow implements eventlog.Follower.
func (l *notedLog) Follow(ctx context.Context, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		for r, err := range l.Log.Follow(ctx, from) {
			if err == nil {
				l.notes.note(Note{What: Seen, Last: r.Seq, Hash: hex.EncodeToString(r.Hash[:])})
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// notedEffects notes the effects that are given out to be carried out.
type notedEffects struct {
	*effect.Effects
	notes *notebook
}

// Carry implements live.Effects.
func (e *notedEffects) Carry(ready engine.Ready) {
	notes := make([]Note, len(ready.Effects))
	for i, x := range ready.Effects {
		kind := map[scheduler.EffectKind]string{scheduler.Bind: "bind", scheduler.Evict: "evict"}[x.Kind]
		notes[i] = Note{What: Released, Effect: kind, Last: x.Seq, UID: string(x.UID), Node: x.Node}
	}
	e.notes.note(notes...)
	e.Effects.Carry(ready)
}

// failedNote says that the scheduler ends because of err.
func failedNote(err error) Note {
	n := Note{What: Failed, Text: fmt.Sprint(err)}
	if isExpected(err) {
		n.Effect = endExpected
	}
	return n
}
