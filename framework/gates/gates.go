// Package gates owns the feature gates of Kubernetes, as far as they concern a log. It knows which of them are not at
// their defaults, and keeps the gates of a log's epoch in force while its decisions are made.
//
// Gates are variables of the process. kube-scheduler's plugins read them when they are made and while they work. So
// Machines of different gates can take turns: each puts its own in force before it does anything, see Keep. They cannot
// work at the same time: a process that has two goroutines with a Machine each has to give them the same gates. Nothing
// detects a violation.
//
// PopFromBackoffQ is an exception.
package gates

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	baseversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features" // adds the other gates
)

// The gates of logging and of metrics are chosen with the same flag as the others, and AllAlpha includes them. So every
// process that reads a log has to know them.
func init() {
	gate := utilfeature.DefaultMutableFeatureGate
	if err := errors.Join(logsapi.AddFeatureGates(gate), metricsfeatures.AddFeatureGates(gate)); err != nil {
		panic(fmt.Sprintf("gates: add the feature gates of logging and metrics: %v", err))
	}
}

// Set is the feature gates that are not at the defaults of this Kubernetes version. In the zero Set all are at their
// defaults. Two Sets with the same gates are equal (==).
type Set struct{ text string } // as String returns it

// String returns the gates in the form of the flag --feature-gates, such as "A=true,B=false", sorted by name.
func (s Set) String() string { return s.text }

// Map returns the gates by name; nil if there are none.
func (s Set) Map() map[string]bool {
	if s.text == "" {
		return nil
	}
	values := map[string]bool{}
	for _, pair := range strings.Split(s.text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		values[name] = value == "true"
	}
	return values
}

// setOf returns the Set of these gates, none of which is at its default.
func setOf(values map[string]bool) Set {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, name+"="+strconv.FormatBool(values[name]))
	}
	return Set{strings.Join(pairs, ",")}
}

// The gates that mean all alpha and all beta gates. A Set has the single gates instead.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// PopFromBackoffQ is the gate that lets entities of the queue be attempted before their backoff ends. No plugin reads
// it, only the Machine's queue. So the queue uses the value in the Set, and the process's gate is never changed. It is
// off unless the Set turns it on, though Kubernetes has it on by default: in logs that do not name it, it was off.
const PopFromBackoffQ = string(features.SchedulerPopFromBackoffQ)

// On reports whether the Set turns a gate on.
func (s Set) On(name string) bool { return s.Map()[name] }

// pops returns the value of PopFromBackoffQ in the gates of a configuration, and whether they name it.
func pops(named map[string]bool) (on, said bool) {
	if on, said = named[PopFromBackoffQ]; !said {
		on, said = named[allBeta]
	}
	return on, said
}

// WithPopFromBackoffQ returns the gates of a configuration, with PopFromBackoffQ if they do not name it. It does not
// change named.
func WithPopFromBackoffQ(named map[string]bool) map[string]bool {
	if _, said := pops(named); said {
		return named
	}
	named = maps.Clone(named)
	if named == nil {
		named = map[string]bool{}
	}
	named[PopFromBackoffQ] = true
	return named
}

// Resolve returns the Set of a configuration's gates. As with kube-scheduler's flag, AllAlpha and AllBeta mean all
// gates of their kind that are not named. An error names a gate that this Kubernetes version does not have, one that is
// locked, or one that is on while a gate that it needs is off.
func Resolve(named map[string]bool) (Set, error) {
	if len(named) == 0 {
		return Set{}, nil
	}
	gate := atDefaults()
	specs := gate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		spec, ok := specs[featuregate.Feature(name)]
		switch {
		case !ok:
			return Set{}, fmt.Errorf("this binary's Kubernetes, %s, has no feature gate %q", version, name)
		case spec.LockToDefault && spec.Default != named[name]:
			return Set{}, fmt.Errorf("the feature gate %q is locked to %t in this binary's Kubernetes, %s",
				name, spec.Default, version)
		}
	}
	if err := setIn(gate, named); err != nil {
		return Set{}, fmt.Errorf("feature gates: %s", sorted(err))
	}
	on, _ := pops(named)
	return differing(gate, specs, on), nil
}

// sorted returns the messages of an error that may consist of several, which come in a random order.
func sorted(err error) string {
	messages := []string{err.Error()}
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		messages = nil
		for _, e := range several.Errors() {
			messages = append(messages, e.Error())
		}
	}
	slices.Sort(messages)
	return strings.Join(messages, "; ")
}

// version is the version of Kubernetes whose defaults count.
const version = baseversion.DefaultKubeBinaryVersion

// atDefaults returns a copy of the process's gates in which all have the default of this Kubernetes version.
func atDefaults() featuregate.MutableVersionedFeatureGate {
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopyAndReset()
	if err := setVersion(gate, utilversion.MustParse(version)); err != nil {
		panic(fmt.Sprintf("gates: the default feature gates do not fit together: %v", err))
	}
	needs := utilfeature.DefaultMutableFeatureGate.Dependencies()
	// any order: each is a list of its own
	for name := range needs {
		needs[name] = slices.Clone(needs[name])
	}
	if err := gate.AddDependencies(needs); err != nil {
		panic(fmt.Sprintf("gates: the dependencies of the feature gates cannot be copied: %v", err))
	}
	return gate
}

// differing returns the gates whose value in gate is not the default of specs, and PopFromBackoffQ if pops.
func differing(gate featuregate.FeatureGate, specs map[featuregate.Feature]featuregate.FeatureSpec, pops bool) Set {
	values := map[string]bool{}
	if pops {
		values[PopFromBackoffQ] = true
	}
	// any order: they go into a map, which setOf sorts
	for name, spec := range specs {
		if on := gate.Enabled(name); on != spec.Default && !isApart(name) {
			values[string(name)] = on
		}
	}
	return setOf(values)
}

// isApart reports whether a gate has no value of its own in the process, or none in a Set.
func isApart(name featuregate.Feature) bool {
	return name == allAlpha || name == allBeta || string(name) == PopFromBackoffQ
}

// setIn sets gates without the warnings for a user's flag: nobody chooses a log's gates any longer.
func setIn(gate featuregate.MutableFeatureGate, values map[string]bool) error {
	if silent, ok := gate.(featuregate.MutableFeatureGateWithLogger); ok {
		return silent.SetFromMapWithLogger(klog.Logger{}, values)
	}
	return gate.SetFromMap(values)
}

func setVersion(gate featuregate.MutableVersionedFeatureGate, to *utilversion.Version) error {
	if silent, ok := gate.(featuregate.MutableVersionedFeatureGateWithLogger); ok {
		return silent.SetEmulationVersionAndMinCompatibilityVersionWithLogger(klog.Logger{}, to, to.SubtractMinor(1))
	}
	return gate.SetEmulationVersion(to)
}
