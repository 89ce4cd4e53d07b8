package framework

import (
	restclient "k8s.io/client-go/rest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Registry is what profiles are made from: the plugins that a configuration may name, and how profiles use them.
//
// It says nothing of what is decided. With the same Factories the same is decided whatever else it says.
type Registry struct {
	// Factories make plugins, by the name that a configuration gives them.
	Factories frameworkruntime.Registry
	// Reads are the resources that plugins read besides those of scheduling, by the plugin's name. They come into a
	// configuration by DeclareReads.
	Reads map[string][]eventlog.OwnResource
	// LanePolicies make the lane policies that queuePolicy of Coscheduling may name besides its own.
	LanePolicies map[string]NewLanePolicy
	// VictimPolicies make the victim policies that victimPolicy of Coscheduling may name besides Priority.
	VictimPolicies map[string]NewVictimPolicy
	// NoClasses has profiles keep no memo of what plugins said of nodes: in each cycle every node is filtered and
	// scored anew. That takes longer. See classes.go.
	NoClasses bool
	// Outside says how plugins reach the API server beside cycles, nil that there is none.
	Outside *restclient.Config
	// Events takes what plugins record with the handle's EventRecorder, nil that it is dropped.
	Events EventSink
}
