package framework

import (
	restclient "k8s.io/client-go/rest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Registry has the plugins that a configuration may name, and options for the profiles that are built from them.
//
// Only Factories can change a decision. The other fields cannot.
type Registry struct {
	// Factories build plugins. The key is the name that a configuration uses.
	Factories frameworkruntime.Registry
	// Reads lists, by plugin name, the resources that a plugin reads besides the ones that scheduling reads.
	// DeclareReads adds them to a configuration.
	Reads map[string][]eventlog.OwnResource
	// LanePolicies make the lane policies that queuePolicy of Coscheduling may name besides its own.
	LanePolicies map[string]NewLanePolicy
	// VictimPolicies make the victim policies that victimPolicy of Coscheduling may name besides Priority.
	VictimPolicies map[string]NewVictimPolicy
	// NoClasses turns off the memos of plugins' answers. Each cycle then filters and scores every node again, which
	// takes longer. See classes.go.
	NoClasses bool
	// Outside is the configuration for plugins' requests to the API server outside cycles. It is nil if there is no API
	// server.
	Outside *restclient.Config
	// Events receives the events that plugins record with the handle's EventRecorder. If it is nil, they are dropped.
	Events EventSink
}
