package histories

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog/jetstream"
)

// usual is the common part of the written histories.
func usual(name string, faults ...Fault) Plan {
	p := Plan{
		Name: name, Seed: 1, Schedulers: 2, Patience: 3 * time.Second, Every: 10 * time.Millisecond, Faults: faults,
	}
	for _, f := range faults {
		p.Lasts = max(p.Lasts, f.At+f.For+time.Second)
	}
	return p
}

// A Plan describes a history to be made: the processes, the workload, and the faults with their times. The same plan
// gives the same faults at the same times; their effect depends on the machine.
type Plan struct {
	// Name is for people.
	Name string
	// Seed is the workload's seed.
	Seed uint64
	// Schedulers is the number of schedulers. Stubborn of them keep leading until the log shows otherwise.
	Schedulers, Stubborn int
	// Patience is the patience of the schedulers' log.
	Patience time.Duration
	// Lease is the time without an answer after which a scheduler's lease counts as lost. 0 means a second.
	Lease time.Duration
	// Every is the time between two changes of the workload, on average.
	Every time.Duration
	// Fat says that appends are often more than one message.
	Fat bool
	// Slow says that schedulers lag behind the log while they are on standby.
	Slow bool
	// Usual says that servers take the usual time for elections.
	Usual bool
	// Networked says that schedulers, servers and the cluster are hosts of a network, see InNetwork; else they talk
	// over proxies.
	Networked bool
	// Fill puts objects into the cluster before anything else; nil for none.
	Fill func(*cluster)
	// Takeovers is the least number of takeovers: with fewer, the faults had no effect.
	Takeovers int
	// Faults are the faults, and Lasts the time at which all of them are over.
	Faults []Fault
	Lasts  time.Duration
}

// leaseTerm returns the plan's Lease, or its default.
func (p Plan) leaseTerm() time.Duration {
	if p.Lease == 0 {
		return time.Second
	}
	return p.Lease
}

// String writes the plan in a few lines.
func (p Plan) String() string {
	out := fmt.Sprintf("%s: seed %d, %d schedulers (%d stubborn), patience %s, a change every %s, fat %v, slow %v, %s",
		p.Name, p.Seed, p.Schedulers, p.Stubborn, p.Patience, p.Every, p.Fat, p.Slow, p.Lasts)
	for _, f := range p.Faults {
		out += "\n  " + f.String()
	}
	return out
}

const ms = time.Millisecond

// Faults of the leading scheduler, and of all servers.
var (
	sendsNothing   = cutScheduler{Scheduler: leading, Way: up}
	hearsNothing   = cutScheduler{Scheduler: leading, Way: down}
	connectionLost = cutScheduler{Scheduler: leading, Broken: true}
	killAllServers = several{killServer{Server: 0}, killServer{Server: 1}, killServer{Server: 2}}
)

// longLease is a lease that no scheduler loses on a busy machine.
const longLease = time.Minute

// RollingRestart is a restart of the servers one after the other, with the elections and the patience that are usual.
func RollingRestart() Plan {
	p := usual("rolling restart", Fault{500 * ms, 0, restartServers{}})
	p.Usual = true
	p.Lease = longLease
	return p.patient(jetstream.DefaultPatience)
}

// Written returns the written histories: schedules that are known to be hard.
func Written() []Plan {
	var all []Plan
	add := func(p Plan) { all = append(all, p) }

	// The leader is suspended after it has published: its append may be in the stream, and it does not know. Another
	// one takes over, and then the first one continues.
	add(usual("the leader is suspended in an append and goes on after a takeover",
		Fault{300 * ms, 3000 * ms, atPublish{stopScheduler{leading}}},
		Fault{4000 * ms, 2500 * ms, atPublish{several{sendsNothing, stopScheduler{leading}}}},
	).stubborn(2))

	// A leader's publish arrives after its death, when another one has the log.
	add(usual("a publish arrives when its sender is dead and another has the log",
		Fault{300 * ms, 2500 * ms, atPublish{several{sendsNothing, killScheduler{leading}}}},
		Fault{3500 * ms, 2500 * ms, atPublish{several{sendsNothing, killScheduler{leading}}}},
	).slow())

	// The stream's leader is moved, killed or suspended under an append.
	add(usual("the stream's leader moves under an append",
		Fault{200 * ms, 200 * ms, atPublish{moveStream{}}},
		Fault{600 * ms, 200 * ms, atPublish{moveStream{}}},
		Fault{1200 * ms, 1500 * ms, atPublish{killServer{Server: leading}}},
		Fault{3200 * ms, 1500 * ms, atPublish{stopServer{leading}}},
		Fault{5200 * ms, 200 * ms, atPublish{moveStream{}}},
	).fat())

	// A leader is killed whose binds were decided and not carried out: its successor has to ask for them again.
	add(usual("the leader is killed before its binds are carried out",
		Fault{300 * ms, 2500 * ms, hangBinds{}}, Fault{1300 * ms, 1000 * ms, killScheduler{leading}},
		Fault{3300 * ms, 2500 * ms, hangBinds{}}, Fault{4300 * ms, 1000 * ms, killScheduler{leading}},
	))

	// A leader that is cut off from the cluster misses its events. A standby that lags behind the log has seen them.
	add(usual("a standby that lags takes over from a leader that is cut off from the cluster",
		Fault{500 * ms, 2500 * ms, cutCluster{leading, both}},
		Fault{4000 * ms, 2500 * ms, several{cutCluster{leading, down}, killScheduler{1}}},
	).slow())

	// A leader is cut off one way: either its messages do not arrive, or the answers. Another one takes over; the
	// first one's messages arrive when the link is repaired.
	add(usual("the leader is cut off one way",
		Fault{300 * ms, 2500 * ms, atPublish{several{hearsNothing, cutCluster{leading, both}}}},
		Fault{3500 * ms, 2500 * ms, atPublish{several{sendsNothing, cutCluster{leading, both}}}},
	).stubborn(2))

	// The connection is lost when the leader has published, and when it can connect again another one has the log. The
	// first one's repeated publish is refused, and was never stored.
	add(usual("the leader connects again when another has taken over",
		Fault{300 * ms, 2500 * ms, atPublish{several{connectionLost, cutCluster{leading, both}}}},
		Fault{3500 * ms, 2500 * ms, atPublish{several{connectionLost, cutCluster{leading, both}}}},
	).stubborn(2).patient(10 * time.Second))

	// The same, and the lease tells both that they lead.
	add(usual("the lease tells everyone that it may lead",
		Fault{200 * ms, 5000 * ms, lie{}},
		Fault{1000 * ms, 700 * ms, cutScheduler{Scheduler: 0, Way: down}},
		Fault{2500 * ms, 700 * ms, stopScheduler{1}},
		Fault{3500 * ms, 700 * ms, cutScheduler{Scheduler: 1, Broken: true}},
	).with(3))

	// Two of three servers are away: nothing can be appended.
	add(usual("two of three servers are suspended, and then killed",
		Fault{300 * ms, 2000 * ms, several{stopServer{0}, stopServer{1}}},
		Fault{3500 * ms, 1500 * ms, several{killServer{Server: 1}, killServer{Server: 2}}},
	))

	// All servers are killed in the middle of an append.
	add(usual("all servers are killed at once",
		Fault{500 * ms, 300 * ms, atPublish{killAllServers}},
		Fault{4500 * ms, 1000 * ms, atPublish{killAllServers}},
	).fat())

	// The stream's leader is on one side of a partition with the leading scheduler, the majority on the other side with
	// the standby.
	add(usual("a partition with the leaders on the smaller side",
		Fault{500 * ms, 4000 * ms, cutServer{Server: leading, Way: both, With: []int{leading}}},
		Fault{6000 * ms, 2000 * ms, cutServer{Server: leading, Way: up}},
	).stubborn(2).patient(8 * time.Second))

	// The disk of the stream's leader is full, and then the disks of two servers.
	add(usual("full disks",
		Fault{300 * ms, 2000 * ms, fillDisk{leading}},
		Fault{4000 * ms, 1500 * ms, several{fillDisk{0}, fillDisk{1}}},
	).fat())
	return all
}

// Networked returns the written histories of a real network (InNetwork), in which packets are lost.
func Networked() []Plan {
	var all []Plan
	add := func(p Plan) {
		p.Networked = true
		all = append(all, p)
	}

	// The leading scheduler cannot reach the servers, does not hear them, and both, while another one takes over.
	add(usual("the leader is cut off one way, the other way, and both",
		Fault{1000 * ms, 2500 * ms, several{sendsNothing, cutCluster{leading, both}}},
		Fault{6500 * ms, 2500 * ms, several{hearsNothing, cutCluster{leading, both}}},
		Fault{12000 * ms, 2500 * ms, several{cutScheduler{Scheduler: leading, Way: both}, cutCluster{leading, both}}},
	).stubborn(2).takenOver(3))

	// The same of the server that leads the stream, and the other two.
	add(usual("the stream's leader is cut off one way, the other way, and both",
		Fault{1000 * ms, 2500 * ms, cutServer{Server: leading, Way: up}},
		Fault{6500 * ms, 2500 * ms, cutServer{Server: leading, Way: down}},
		Fault{12000 * ms, 2500 * ms, cutServer{Server: leading, Way: both}},
	).patient(8 * time.Second).fat())

	// Schedulers and servers are on both sides of a partition: the leaders on the smaller one. In the second one the
	// leading scheduler is killed there: its messages are never sent again.
	add(usual("a partition with the leaders on the smaller side",
		Fault{1000 * ms, 4000 * ms, several{
			cutServer{Server: leading, Way: both, With: []int{leading}}, cutCluster{leading, both},
		}},
		Fault{9000 * ms, 3000 * ms, several{
			cutServer{Server: leading, Way: both, With: []int{leading}}, killScheduler{leading},
		}},
	).stubborn(2).patient(8 * time.Second).takenOver(2))
	return all
}

// stubborn has n schedulers lead until the log tells them otherwise.
func (p Plan) stubborn(n int) Plan {
	p.Stubborn = n
	return p
}

func (p Plan) takenOver(n int) Plan {
	p.Takeovers = n
	return p
}

func (p Plan) fat() Plan {
	p.Fat = true
	return p
}

func (p Plan) slow() Plan {
	p.Slow = true
	return p
}

// with has n schedulers.
func (p Plan) with(n int) Plan {
	p.Schedulers = n
	return p
}

func (p Plan) patient(d time.Duration) Plan {
	p.Patience = d
	return p
}

// Random returns the history of a seed.
func Random(seed uint64) Plan {
	d := dice{rand.New(rand.NewPCG(seed, 2))}
	p := Plan{
		Name: fmt.Sprintf("random %d", seed), Seed: seed, Schedulers: 2 + d.below(2),
		Patience: one(d, 1500*ms, 3000*ms, 3000*ms, 8000*ms, 30000*ms), Every: one(d, 5*ms, 10*ms, 30*ms),
		Fat: d.chance(40), Slow: d.chance(40), Lasts: 7 * time.Second,
	}
	p.Stubborn = d.below(p.Schedulers + 1)
	for range 3 + d.below(5) {
		p.Faults = append(p.Faults, d.fault(p.Schedulers, p.Lasts))
	}
	return p
}

// dice make the choices of a random history.
type dice struct{ rng *rand.Rand }

func (d dice) below(n int) int { return d.rng.IntN(n) }

func (d dice) chance(percent int) bool { return d.below(100) < percent }

// one returns one of some values.
func one[T any](d dice, of ...T) T { return of[d.below(len(of))] }

// between returns a time.
func (d dice) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.rng.Int64N(int64(most-least)))).Round(10 * ms)
}

// fault returns a fault that is over before the time of faults is.
func (d dice) fault(schedulers int, lasts time.Duration) Fault {
	f := Fault{At: d.between(100*ms, lasts-2500*ms), For: d.between(200*ms, 2500*ms), What: d.mishap(schedulers)}
	if d.chance(35) {
		f.What = atPublish{f.What}
	}
	return f
}

// someone returns a scheduler, most often the leading one, and some a server, the stream's leader half of the time.
func (d dice) someone(schedulers int) int {
	if d.chance(60) {
		return leading
	}
	return d.below(schedulers)
}

func (d dice) some() int {
	if d.chance(50) {
		return leading
	}
	return d.below(servers)
}

func (d dice) way() way { return one(d, up, down, both) }

func (d dice) mishap(schedulers int) mishap {
	switch d.below(14) {
	case 0, 1:
		return killScheduler{d.someone(schedulers)}
	case 2, 3:
		return stopScheduler{d.someone(schedulers)}
	case 4, 5:
		return cutScheduler{Scheduler: d.someone(schedulers), Way: d.way(), Broken: d.chance(20)}
	case 6:
		return cutScheduler{Scheduler: d.someone(schedulers), Way: d.way(), From: []int{d.below(servers)}}
	case 7:
		return cutCluster{d.someone(schedulers), d.way()}
	case 8:
		return killServer{Server: d.some(), InOrder: d.chance(30)}
	case 9:
		return stopServer{d.some()}
	case 10:
		return cutServer{Server: d.some(), Way: d.way(), Broken: d.chance(20)}
	case 11:
		return cutServer{Server: d.some(), Way: both, With: []int{d.someone(schedulers)}}
	case 12:
		return one[mishap](d, moveStream{}, moveStream{}, killAllServers, several{stopServer{0}, stopServer{2}})
	default:
		return lie{}
	}
}
