package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/rollcall-sched/rollcall/engine"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/kube/lease"
	"github.com/rollcall-sched/rollcall/kube/status"
	"github.com/rollcall-sched/rollcall/kube/watch"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/scheduler"
)

// A standby is the state that a process prepares before it leads: the scheduler's state after the log's last entry, and
// watches of the cluster. So when the leader is gone the process needs to read or list nothing.
//
// It follows a log in NATS JetStream, which other processes can read while one writes it. The process makes any missing
// part when it leads: a process that was just started has none of them.
type standby struct {
	*connection
	state  *engine.Standby // nil without a log
	recent status.Recent   // what the state's last entries were
}

// recoveredEntries is the number of the log's last entries that the process searches for statuses that were not written
// before the last one ended. Reading them from a directory takes the loop some 50 ms.
const recoveredEntries = 20_000

// followPause is the time between two tries to follow a log that is not there yet, or whose servers do not answer.
const followPause = time.Second

// standAgainAndAgain is on standby until this process leads, and again when another one has taken the lead, until ctx
// is done.
func (p *clusterProcess) standAgainAndAgain(ctx context.Context) error {
	for {
		err := p.stand(ctx)
		var superseded *eventlog.SupersededError
		if ctx.Err() != nil || !errors.As(err, &superseded) && !errors.Is(err, lease.ErrLost) {
			return err
		}
		slog.Warn("This scheduler leads no more: it is on standby again", "err", err)
	}
}

// stand is on standby, and then leads, once.
func (p *clusterProcess) stand(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c, err := p.connect()
	if err != nil {
		return err
	}
	p.astray.Store(nil)
	s := &standby{connection: c, recent: status.Recent{Most: recoveredEntries}}
	var watches, follows sync.WaitGroup
	defer watches.Wait()
	watching, endWatching := context.WithCancel(context.WithoutCancel(ctx)) // also while it leads, to its end
	defer endWatching()
	following, endFollowing := context.WithCancel(ctx)
	defer endFollowing()
	follows.Go(func() {
		if err := s.follow(following, func() { s.prepare(watching, &watches) }); err != nil {
			fail(err) // the log cannot be taken over from here
		}
	})
	err = p.election.Run(ctx, p.otherLeads(), func(ctx context.Context, lost <-chan struct{}) error {
		endFollowing()
		follows.Wait()
		p.followed.Store(0)
		if ctx.Err() != nil {
			return nil
		}
		return p.lead(ctx, lost, s)
	})
	endFollowing()
	follows.Wait()
	p.followed.Store(0)
	if s.state != nil {
		s.state.Close()
	}
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// follow follows the log until ctx ends. It calls ready once the state is the one after the log's last entry. It
// retries after errors that pass with time, and returns the others, such as damage.
func (s *standby) follow(ctx context.Context, ready func()) error {
	told := ""
	for ctx.Err() == nil {
		err := s.followOnce(ctx, ready)
		if ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			s.astray.Store(&err)
		}
		var damaged *eventlog.DamagedError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &damaged):
			return s.adviseOnStop(err)
		case errors.Is(err, fs.ErrNotExist):
			if told != err.Error() {
				slog.Info("There is no log yet to be followed", "log", logs.Shown(s.running.log))
			}
		case told != err.Error():
			slog.Warn("The log cannot be followed, and it is tried again", "err", err)
		}
		told = err.Error()
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
	return nil
}

// followOnce opens the log and follows it until ctx ends or something fails. The state continues where it was.
func (s *standby) followOnce(ctx context.Context, ready func()) error {
	opts := s.keeping()
	log, err := opts.Follow(ctx, s.running.log)
	if err != nil {
		return err
	}
	defer log.Close()
	if s.state == nil {
		state := engine.NewStandby(s.engine(log.Snapshots(s.running.snapshotDistance()), s.status.PluginEvents()))
		if err := state.Recover(ctx, log); err != nil {
			return err
		}
		s.state = state
		s.followed.Store(state.Seq())
		s.remember(ctx, log)
		slog.Info("The scheduler follows the log, on standby", "log", logs.Shown(s.running.log), "entry", state.Seq())
		ready()
	}
	s.astray.Store(nil)
	asking, end := context.WithCancel(ctx)
	defer end()
	var asks sync.WaitGroup
	defer asks.Wait()
	asks.Go(func() { s.watchWriter(asking, log) })
	defer end()
	return s.state.Follow(ctx, log, s.applied)
}

// prepare watches the cluster beside the log, over the state that was recovered. With delayCacheUntilActive the process
// does so only when it leads.
func (s *standby) prepare(ctx context.Context, watches *sync.WaitGroup) {
	if s.config.DelayCacheUntilActive {
		return
	}
	var recorded watch.Recorded
	if s.state.Seq() > 0 {
		recorded.Until = s.state.Machine().Now().Std()
	}
	watcher, err := s.watch(s.state.Machine(), true, recorded)
	if err != nil { // it will be an error again when it leads
		slog.Warn("The cluster cannot be watched on standby", "err", err)
		return
	}
	watches.Go(func() { runWatch(ctx, watcher) })
	watches.Go(func() {
		select {
		case <-ctx.Done():
		case <-watcher.Synced():
			slog.Info("The scheduler knows the cluster, on standby: it takes over without listing anything")
		}
	})
}

// applied passes an entry of the log on to the watches.
func (s *standby) applied(entry eventlog.Entry) error {
	s.followed.Store(entry.Seq)
	s.recent.Note(entry)
	if watcher := s.watcher.Load(); watcher != nil {
		return watcher.Logged(entry)
	}
	return nil
}

// watchWriter takes the lease away from each writer of the log that is gone, until ctx ends.
func (s *standby) watchWriter(ctx context.Context, log *logs.Followed) {
	for {
		name, err := log.Abandoned(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			slog.Warn("It cannot be seen whether the leader is there: if it is killed, its lease has to expire before "+
				"another scheduler takes over", "err", err)
			return
		}
		slog.Info("The leader is gone: its lease is taken away", "identity", name)
		s.election.TakeFrom(name)
	}
}

// recover writes the statuses that earlier processes have not written, of the state after the log's last entry, which
// began this epoch. Entries that the standby has kept need not be read again.
func (s *standby) recover(m *scheduler.Machine, log engine.Log) {
	last := m.Seq()
	first := max(last, recoveredEntries) - recoveredEntries + 1
	entries, kept := s.recent.Between(first, last-1)
	if !kept {
		entries = upTo(last, log.Read(context.Background(), first))
	}
	if err := s.status.Recover(m, entries); err != nil {
		logNote(fmt.Sprintf("statuses that were not written before are written with the next decisions: %v", err))
	}
}

// remember keeps the last entries, up to the last one in the state, which was just recovered. Without them this process
// reads them when it leads.
func (s *standby) remember(ctx context.Context, log *logs.Followed) {
	last := s.state.Seq()
	first := max(log.First(), max(last, recoveredEntries)-recoveredEntries+1)
	for e, err := range upTo(last, log.Read(ctx, first)) {
		if err != nil {
			slog.Warn("The log's last entries are read again when this scheduler leads", "err", err)
			return
		}
		s.recent.Note(e)
	}
}

// upTo ends with entry last, without waiting for more.
func upTo(last uint64, entries iter.Seq2[eventlog.Entry, error]) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range entries {
			if !yield(e, err) || err != nil || e.Seq >= last {
				return
			}
		}
	}
}
