package scheduler

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework/gates"
	"github.com/rollcall-sched/rollcall/internal/backfill"
	"github.com/rollcall-sched/rollcall/queue"
)

// Behaviour is the number of the rules by which this version decides and applies: it starts epochs with it. Epochs of
// lower numbers are applied, and decided again, by the rules of theirs.
const Behaviour = 9

// Rules are what one behaviour does in another way than the one before it.
type Rules struct {
	// Number is the behaviour's.
	Number uint32 `json:"behaviour"`
	// Plugins is the version of Kubernetes whose plugins belong to the rules. Apply asks two kinds of them: PreEnqueue
	// and the QueueingHints, whose answers are state of the queue.
	Plugins string `json:"plugins"`
	// Changed says, a sentence each, what was changed.
	Changed []string `json:"changed"`
	// Kept reports whether this version still decides by these rules. If not, decisions of such an epoch that would be
	// made otherwise now are no divergence.
	Kept bool `json:"kept"`
}

// Behaviours is the table of all behaviours that this version knows, by number from 1. A change of a rule that lets
// this version decide or apply otherwise adds a row, and logs to package compat. So does another
// version of Kubernetes.
var Behaviours = []Rules{
	{Number: 1, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"The first rules. Epochs of this behaviour record no number.",
	}},
	{Number: 2, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"A Decision on a member of a gang with a topology records the domain, and whether another one is tried next;" +
			" Apply looks for neither.",
		"A reservation ends by a Decision when its entity is not the first of its lane any more, not while an entry " +
			"is applied.",
		"Which entity that failed is retried next is looked for by Decide. It is no part of the state.",
	}},
	{Number: 3, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"Amounts, sums of them and times cannot overflow: what a node offers is limited to 0 and 2^50, and a pod " +
			"that requests less than 0 or more than 2^50 of a resource fits nowhere.",
		"A host port is taken as long as any pod on the node has it.",
		"The gangs below a CompositePodGroup of the basic policy have its priority.",
		"An epoch is refused whose configuration has a backoff, or a hold of backfill, above 100 years.",
		"An epoch whose configuration enables a PreBind, Bind or PostBind plugin that would never be called is " +
			"refused.",
		"A reservation leaves out the room that is kept for nominated pods, and keeps none of them from the node " +
			"where that is. They pass the first of their lane if it has no higher priority, also where it lets " +
			"nothing pass.",
		"A pod that is still to be evicted and loses its node by a failed bind is not scheduled anew.",
		"Members of a gang that ended well count toward its minimum until the gang is over, also if it has its " +
			"minimum without them for a time.",
		"A member beyond its gang's minimum takes no victim that another running gang needs for its minimum, and one " +
			"of a gang that counts waiting members only takes none.",
		"The search for a domain passes over members that fit nowhere, as attempts do.",
		"A reservation is looked at again when an attempt on its entity has failed. It ends if that was for another " +
			"reason than want of room.",
	}},
	{Number: 4, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"A reservation that ends because its entity was refused for another reason than want of room says so: it " +
			"ends as OtherReason. Before, it ended as NoTime.",
		"Under the feature gate InterPodAffinityHostnameFastPath, running pods whose anti-affinity is by more than " +
			"the host keep others off their domains.",
		"Domains of gangs, and reservations, heed tolerations that compare numbers where the feature gate " +
			"TaintTolerationComparisonOperators is on.",
		"A reservation passes over members, and gangs below a CompositePodGroup, that find no room, as attempts do, " +
			"and so does the question which entity of a lane room can help.",
		"An entity passes the first of its lane, which lets nothing pass, only if Decisions nominated pods of it to " +
			"nodes, as many as it needs at once, and goes to no other nodes then. Room that is kept for other " +
			"nominated pods of a lane is free for entities of that lane that come before them.",
		"CompositePodGroups may be below each other, up to four levels. All that is below one of the gang policy is " +
			"one entity of the queue.",
		"A CompositePodGroup may ask for a topology. Of the domains that have room the one with the highest score is " +
			"taken, as kube-scheduler 1.37 scores placements; it was the smallest.",
	}},
	{Number: 5, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"An entity that had nominations is retried without an event only if its attempt was refused nodes that are " +
			"for the first of its lane, which it overtook. Before, any refusal by the gang plugin was enough.",
		"Members beyond the minimum of a gang that overtook the first of its lane go to no other nodes than those " +
			"kept for them, also if the members before them are bound meanwhile.",
		"Under Backfill nothing is reserved for an entity that needs no place, since its pods wait for something " +
			"else than room. Before, a reservation without places was decided for it without end.",
		"The state knows for which pods evictions make room, and what came of them. An eviction that the API server " +
			"refuses for good, or that nobody needs any more, ends: the pod stays. The first also ends the " +
			"nominations of those pods to these nodes, has them tried again, and spares the pod that was to go for " +
			"5 minutes. Then what its end could make room for is tried again. Others that wait for room on the node " +
			"of a pod that stays are tried again as well.",
		"Under the feature gate SchedulerPopFromBackoffQ, an entity that backs off is attempted early if nothing " +
			"else is worth an attempt: once, until a backoff of its own has ended. The state knows that it was.",
		"For a gang with a topology of scheduling.k8s.io, its own or of a CompositePodGroup above it, preemption " +
			"chooses the members' nodes as if all pods of lower priority were gone, and then has those stay that " +
			"leave them these nodes, as kube-scheduler 1.37 does. Before, it moved members to have fewer pods go.",
		"A node that an entity is refused which overtakes the first of its lane is said to be kept for that one, " +
			"which is ahead in the queue.",
		"Under the feature gate InPlacePodVerticalScalingSchedulerPreemption, pods are preempted for a running pod " +
			"whose resize is deferred.",
	}},
	{Number: 6, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"What a plugin of others reserves in Reserve stays until the pod is bound, or loses its node. Before, it was " +
			"taken back when the cycle ended. A pod that is refused before Reserve is not unreserved.",
		"PreBind, Bind and PostBind plugins of others are called. A pod that one of them refuses is tried again " +
			"after its backoff, with the plugin as the reason. Before, an epoch with such a plugin was refused.",
		"The pods that a plugin wants tried at once (Handle.Activate within a cycle, PodsToActivate) are, and the " +
			"Decision records them. Before, they were not.",
		"Devices are allocated to ResourceClaims, and the Decision records which. Before, a pod with a claim that " +
			"had to be allocated was refused.",
	}},
	{Number: 7, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"HTTP extenders with preemptVerb are asked about the pods that preemption would evict. Before, such a " +
			"configuration was refused.",
		"A node that an HTTP extender refuses to a pod after pods were evicted from it for that pod is no candidate " +
			"for its preemption any more, and after eight such nodes nothing is evicted for it. Before, pods were " +
			"evicted there again and again.",
		"Devices stay taken until it is known what came of the bind that may have written them to a claim. Before, " +
			"they came free when the pod was deleted, or when the claim was logged without them.",
		"What CEL selectors of devices cost is bounded for each cycle, and a selector whose answer depends on the " +
			"order of a map is refused. Under the feature gate DRAWorkloadResourceClaims, pods of PodGroups with " +
			"claims are refused.",
		"Devices with binding conditions are allocated. A claim that is not ready in time is refused, by the log's " +
			"time. Before, a pod that would have had such a device was refused.",
	}},
	{Number: 8, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"The devices of a pod that is logged on another node than its Decision's come free with the result of its " +
			"bind. Before, they stayed taken as long as the pod was there.",
		"Preemption frees devices: pods of lower priority whose claims have the devices that a pod needs are " +
			"evicted, and while it waits for them no pod of its priority or below takes them. Before, nodes without " +
			"enough free devices were no candidates.",
		"Under the feature gate DRAWorkloadResourceClaims, pods share the claims of their PodGroup, which counts as " +
			"one user of them. When an attempt fails and no pod of a PodGroup has a node, its claims are given back. " +
			"Before, its pods were refused.",
		"A pod may request devices by the name of an extended resource: they are allocated to a claim that its bind " +
			"makes. Before, such a pod was refused.",
		"A minimum of a task of Volcano, or of a subgroup of KAI, is judged by the members that can still be chosen: " +
			"the gang is not refused once it has its minimum, nor for members that are leaving, nor for a part of " +
			"which none are needed. The task is read of the annotation before the label. A gang that is refused for " +
			"its parts alone is evicted below its minimum if it asks for that.",
	}},
	{Number: 9, Plugins: "v1.37.0", Kept: true, Changed: []string{
		"A claim that is made of a template for a PodGroup counts as shared by its pods: preemption plans for all " +
			"of them where its devices are, and of its 256 users the PodGroup is one. Before, it counted as each " +
			"pod's own.",
		"The devices of a claim that a PodGroup has reserved, or will have because a pod of it is bound or being " +
			"bound, do not count as coming free. Before, pods were evicted for them in vain.",
		"A claim of a PodGroup is not given back while a pod of it is nominated by a Decision, nor while a pod of " +
			"another group, or of none, uses it and the claim does not say so yet.",
		"A pod that requests devices as extended resources leaves nominated pods theirs, and has free ones kept " +
			"while it is nominated. For other room on a node nothing is evicted for it where devices would be too " +
			"few, also with those of the victims, and also for all members of a gang together.",
		"A pod that names the claim that the bind of another pod is just making waits until that is logged with its " +
			"devices. Before, the Decision could not be read.",
		"A member that waits in Permit and is planned for the same node again may get other devices there.",
		"A gang has nobody evicted and is nominated only if it is to have devices that come free where its members " +
			"were planned. Pods that wait for devices of pods that have ended are tried again when another pod uses " +
			"the claim, and those that left nominated pods theirs when the claim of such a pod is gone.",
	}},
}

// BehaviourError says that an epoch, or a snapshot's state, is of a behaviour that this version does not know.
type BehaviourError struct {
	// Number is the behaviour, Highest the highest that this version knows.
	Number, Highest uint32
}

// Error implements error.
func (e *BehaviourError) Error() string {
	return fmt.Sprintf(
		"it was decided by behaviour %d, and this version knows behaviours up to %d: use a newer version",
		e.Number,
		e.Highest,
	)
}

// Behaviour returns the number of the rules of the running epoch.
func (m *Machine) Behaviour() uint32 { return m.rules.behaviour }

// rules are those of the running epoch.
type rules struct {
	behaviour uint32                // 1 before the first epoch
	searches  [Behaviour + 1]search // by behaviour
	room      *room                 // which looks by them
}

// set starts an epoch of a behaviour; 0 is 1.
func (r *rules) set(behaviour uint32) error {
	if behaviour > Behaviour {
		return &BehaviourError{Number: behaviour, Highest: Behaviour}
	}
	r.behaviour = max(1, behaviour)
	return nil
}

// recordsFacts reports whether decisions record what they found, so that Apply searches for nothing.
func (r *rules) recordsFacts() bool { return r.behaviour >= 2 }

// refusesUncalled reports whether an epoch is refused whose configuration enables a PreBind, Bind or PostBind plugin
// that is never called. Before behaviour 3 none is; from 6 on, all are called.
func (r *rules) refusesUncalled() bool { return r.behaviour >= 3 && r.behaviour < 6 }

// recordsActivated reports whether a Decision records the pods that plugins want tried at once, which are tried then.
func (r *rules) recordsActivated() bool { return r.behaviour >= 6 }

// allocatesDevices reports whether Decisions allocate devices to claims.
func (r *rules) allocatesDevices() bool { return r.behaviour >= 6 }

// makesClaims reports whether pods may request devices by the names of extended resources.
func (r *rules) makesClaims() bool { return r.behaviour >= 8 }

// awaitsDevices reports whether devices with binding conditions may be allocated.
func (r *rules) awaitsDevices() bool { return r.behaviour >= 7 }

// keepsDevices reports whether devices stay taken until it is known what came of the bind.
func (r *rules) keepsDevices() bool { return r.behaviour >= 7 }

// keepsElsewhere reports whether the bind of a pod with devices stays outstanding that is logged on another node.
func (r *rules) keepsElsewhere() bool { return r.behaviour >= 8 }

// freesDevices reports whether preemption frees devices, and devices are kept for nominated pods.
func (r *rules) freesDevices() bool { return r.behaviour >= 8 }

// boundsSelectors reports whether the cost of CEL selectors is bounded for each cycle, and those are refused whose
// answer depends on the order of a map.
func (r *rules) boundsSelectors() bool { return r.behaviour >= 7 }

// followsDeviceUsers reports whether preemption, the claims of PodGroups and the devices of extended resources go by
// all users of a claim, and heed each other.
func (r *rules) followsDeviceUsers() bool { return r.behaviour >= 9 }

// sharesGroupClaims reports whether claims may be those of PodGroups, where the feature gate is on.
func (r *rules) sharesGroupClaims() bool { return r.behaviour >= 8 }

// namesBinders reports whether the queue knows which plugin refused a pod behind its Decision. Before, no such plugin
// was called.
func (r *rules) namesBinders() bool { return r.behaviour >= 6 }

// awaitsNodes reports whether the node that a pod's object names counts once it joins. Before, a node that was not
// there when the object came never counted.
func (r *rules) awaitsNodes() bool { return r.behaviour >= 6 }

// keepsNominated reports whether lanes and reservations take the room that is kept for nominated pods into account.
func (r *rules) keepsNominated() bool { return r.behaviour >= 3 }

// passesOver reports whether the search for a domain passes over members that fit nowhere, as attempts do.
func (r *rules) passesOver() bool { return r.behaviour >= 3 }

// endOfUseless returns as what a reservation ends if room is not what its entity waits for; 0 if it does not end then.
func (r *rules) endOfUseless() eventlog.Ending {
	switch {
	case r.behaviour >= 4:
		return eventlog.OtherReason
	case r.behaviour == 3:
		return eventlog.NoTime
	}
	return 0
}

// knowsOwnNominations reports whether the state says which nominations were given by Decisions.
func (r *rules) knowsOwnNominations() bool { return r.behaviour >= 4 }

// listsWide reports whether the state lists the nodes that have pods with anti-affinity by more than the host.
func (r *rules) listsWide() bool { return r.behaviour >= 4 }

// needsPassOver reports whether the room that an entity needs is that of any members that are enough, and not of the
// first ones: attempts pass over members that find no node.
func (r *rules) needsPassOver() bool { return r.behaviour >= 4 }

// keepsAlone reports whether an entity passes the first of its lane only if Decisions had room kept for all that it
// needs, and with that room alone.
func (r *rules) keepsAlone() bool { return r.behaviour >= 4 }

// notesKeptOff reports whether the state says which attempts were refused nodes that are for an entity they overtook.
func (r *rules) notesKeptOff() bool { return r.behaviour >= 5 }

// needsPlaces reports whether nothing is reserved for an entity that needs no place.
func (r *rules) needsPlaces() bool { return r.behaviour >= 5 }

// keepsBeyond reports whether members beyond the minimum of an entity that overtakes are always bound to the nodes that
// are kept for them.
func (r *rules) keepsBeyond() bool { return r.behaviour >= 5 }

// keepsApart reports whether pods that a nominated pod must not be beside are kept out of its topology.
func (r *rules) keepsApart() bool { return r.behaviour >= 5 }

// saysAhead reports whether nodes that are for the first of a lane are refused in plain words.
func (r *rules) saysAhead() bool { return r.behaviour >= 5 }

// heedsComparisons reports whether the feature gate TaintTolerationComparisonOperators is heeded by all that looks for
// room, and not by plugins alone.
func (r *rules) heedsComparisons() bool { return r.behaviour >= 4 }

// countsParts reports whether the minimums of a gang's parts are judged by the members that can still be chosen.
func (r *rules) countsParts() bool { return r.behaviour >= 8 }

// knowsLevels reports whether CompositePodGroups may be below each other.
func (r *rules) knowsLevels() bool { return r.behaviour >= 4 }

// hearsOfEvictions reports whether the state knows for which pods evictions make room, and what came of them.
func (r *rules) hearsOfEvictions() bool { return r.behaviour >= 5 }

// knowsEarlyAttempts reports whether entities may be attempted before their backoff ends, and the state says which
// were.
func (r *rules) knowsEarlyAttempts() bool { return r.behaviour >= 5 }

// choosesNodesFirst reports whether preemption chooses nodes before victims, see cluster.State.ChoosesNodesFirst.
func (r *rules) choosesNodesFirst() bool { return r.behaviour >= 5 }

// attemptsResizes reports whether running pods whose resize is deferred are attempted, where the feature gate
// InPlacePodVerticalScalingSchedulerPreemption is on.
func (r *rules) attemptsResizes() bool { return r.behaviour >= 5 }

// keepsReserved reports whether what plugins reserve stays until the binding cycle ends, and is part of the state.
func (r *rules) keepsReserved() bool { return r.behaviour >= 6 }

// consultsExtenders reports whether HTTP extenders have a say in preemption: those with preemptVerb are asked, and
// nodes are remembered that were made free for a pod in vain.
func (r *rules) consultsExtenders() bool { return r.behaviour >= 7 }

// boundsNumbers reports whether no number of the state can overflow.
func (r *rules) boundsNumbers() bool { return r.behaviour >= 3 }

// ofState are the rules by which the state of the cluster is computed: an epoch by others has it made anew.
func (r *rules) ofState() [3]bool {
	return [3]bool{r.boundsNumbers(), r.knowsLevels(), r.countsParts()}
}

// search is what decisions look for and a later version may find otherwise. From behaviour 2 on only Decide looks for
// it, and the Decision says what was found: the state after an entry is the same whatever these functions answer. In
// epochs of behaviour 1, Apply looks too: so the functions of that behaviour stay as they are, and a better search is
// one of a new behaviour.
type search struct {
	// domain finds the domain of nodes where the gang's next member may go.
	domain func(s *domainSearch) (d *domain, why string)
	// first finds the first entity of a profile's lane that waits for room.
	first func(p *backfill.Planner, profile string) *queue.Entity
	// room tells whether an attempt on an entity that failed may end otherwise.
	room func(r *room, e *queue.Entity) bool
	// needs says that room answers false where there is too little for what (*room).needOf says, so that it need not be
	// asked there.
	needs bool
}

// searches are those of the behaviours, by number.
var searches = [Behaviour + 1]search{
	1: {domain: (*domainSearch).find, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	2: {domain: (*domainSearch).find, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	3: {domain: (*domainSearch).find, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	4: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	5: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	6: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	7: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	8: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
	9: {domain: (*domainSearch).findByScore, first: (*backfill.Planner).FindFirst, room: (*room).look, needs: true},
}

// comparesTolerations reports whether tolerations that compare numbers count where room is looked for that comes free.
// The gates of the configuration are in force.
func (m *Machine) comparesTolerations() bool {
	return m.rules.heedsComparisons() &&
		utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
}

// popsEarly reports whether entities may be attempted before their backoff ends.
func (m *Machine) popsEarly() bool {
	return m.rules.knowsEarlyAttempts() && m.gates.On(gates.PopFromBackoffQ)
}

// useRules has what looks for something do so by the rules of the epoch's behaviour.
func (m *Machine) useRules() {
	rules := m.rules.searches[m.rules.behaviour]
	m.topology.find, m.rules.room.find, m.rules.room.needs = rules.domain, rules.room, rules.needs
	m.backfill.UseSearch(rules.first)
	m.backfill.EndUseless(m.rules.endOfUseless())
	m.backfill.NeedPlaces(m.rules.needsPlaces())
	m.backfill.UseKeptAlone(m.rules.keepsAlone())
	m.backfill.SayAhead(m.rules.saysAhead())
	m.backfill.KeepBeyond(m.rules.keepsBeyond())
	m.backfill.CompareTolerations(m.comparesTolerations())
	m.topology.projector.CompareTolerations(m.comparesTolerations())
	m.queue.PickIsMemo(m.rules.recordsFacts())
	m.cluster.ListWideAntiAffinity(m.rules.listsWide())
	m.cluster.PreemptNodesFirst(m.rules.choosesNodesFirst())
	m.cluster.HearOfEvictions(m.rules.hearsOfEvictions())
}
