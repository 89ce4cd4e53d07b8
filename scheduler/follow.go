package scheduler

import (
	"github.com/rollcall-sched/rollcall/cluster"
	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/backfill"
)

// change is an applied entry with its changes of the cluster.
type change struct {
	eventlog.Entry
	cluster.Changes
	// roomBefore are the versions of the room before the entry.
	roomBefore backfill.Versions
}

// followers derive the rest of the Machine's state from a change, in this order. Each of them sees what the ones before
// it have derived. The order is part of the rules: it decides which of two entities is retried first.
var followers = []func(m *Machine, c *change){
	followObjects,
	followNeeds,
	followRefusals,
	followDevices,
	followNominations,
	followWaits,
	followGiveBacks,
	followReservations,
	followOvertaking,
}

// follow lets every follower derive its part.
func (m *Machine) follow(c change) {
	for _, derive := range followers {
		derive(m, &c)
	}
}

// followNeeds makes the queue ask again what gangs need.
func followNeeds(m *Machine, c *change) {
	for _, g := range c.Gangs {
		m.queue.Renew(keyOfGang(g))
	}
}

// followRefusals makes the queue check again gangs that are refused now and were not, or the other way round.
func followRefusals(m *Machine, c *change) {
	for _, g := range c.Judged {
		m.entities.recheck(keyOfGang(g))
	}
}

// followDevices retries pods that wait for devices.
func followDevices(m *Machine, c *change) { m.tellDevices(c.Devices) }

// followNominations finds the nominated pods for which room is no longer kept, and retries pods that may use it.
func followNominations(m *Machine, c *change) {
	m.nominated.followGroup(c.Entry)
	m.nominated.followClaim(c.Entry)
	m.nominated.retryFreed(c.Entry, c.Pods)
}

// followWaits ends the attempt at the queue's head if the entry deleted its last member, and looks again for waits that
// the entry may have broken.
func followWaits(m *Machine, c *change) {
	if m.queue.Counts().InFlight > 0 {
		m.waits.conclude(m.queue.Head().Key())
	}
	m.waits.recheck(c.Entry)
}

// followGiveBacks ends the effects that ask for claims of PodGroups which nobody has to give back any longer.
func followGiveBacks(m *Machine, _ *change) { m.endGiveBacks() }

// followReservations ends reservations, and marks the others for another look.
func followReservations(m *Machine, c *change) {
	m.keepReservations(c.Entry, c.roomBefore != m.backfill.Versions())
}

// followOvertaking notes which entities with nominations may overtake the first of their lane.
func followOvertaking(m *Machine, _ *change) { m.nominated.noteOvertaking() }
