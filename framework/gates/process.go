package gates

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

var (
	// process guards the gates of the process against two changes at a time.
	process sync.Mutex
	// checked is the Set in force as far as this package knows. It is changed under process alone.
	checked atomic.Pointer[inForce]
)

// inForce is a Set that has been in force, and how the process's gates looked then.
type inForce struct {
	set  Set
	seen string
}

// OfProcess returns the gates that were chosen for the process, with flags for example, and gates that are not at their
// defaults for another reason, such as an emulated version. It must be called before the first configuration is read:
// that changes the process's gates. The configuration's gates override them, see framework.ReadOptions.
func OfProcess() map[string]bool {
	gate, values := utilfeature.DefaultMutableFeatureGate, map[string]bool{}
	// any order: they go into a map
	for name, spec := range atDefaults().GetAll() {
		if gate.ExplicitlySet(name) || gate.Enabled(name) != spec.Default {
			values[string(name)] = gate.Enabled(name)
		}
	}
	return values
}

// Put puts a Set in force for the process: its gates, and all others at their defaults.
func Put(s Set) error {
	process.Lock()
	defer process.Unlock()
	return put(s)
}

// Keep is Put for a Set that was in force before, and costs next to nothing if it still is. It does not see what others
// than this package have changed since.
func Keep(s Set) {
	if now := checked.Load(); now != nil && now.set == s {
		return
	}
	if err := Put(s); err != nil {
		panic(fmt.Sprintf("gates: %q were in force, and cannot be put in force again: %v", s, err))
	}
}

// During calls f while a Set is in force, and afterwards restores the Set before. f must not call this package.
func During(s Set, f func()) error {
	process.Lock()
	defer process.Unlock()
	before := current()
	if err := put(s); err != nil {
		return err
	}
	defer func() {
		if err := put(before); err != nil {
			panic(fmt.Sprintf("gates: %q were in force, and cannot be put in force again: %v", before, err))
		}
	}()
	f()
	return nil
}

// current returns the Set that is in force.
func current() Set {
	if now := checked.Load(); now != nil && now.seen == look() {
		return now.set
	}
	return differing(utilfeature.DefaultMutableFeatureGate, atDefaults().GetAll(), false)
}

// look returns all that the value of the process's gates depends on.
func look() string {
	gate := utilfeature.DefaultMutableFeatureGate
	return fmt.Sprintf("%v %v %s", gate.EmulationVersion(), gate.MinCompatibilityVersion(), gate)
}

func put(s Set) error {
	if now := checked.Load(); now != nil && now.set == s && now.seen == look() {
		return nil
	}
	if err := change(utilfeature.DefaultMutableFeatureGate, s); err != nil {
		return fmt.Errorf("feature gates %q: %w", s, err)
	}
	checked.Store(&inForce{set: s, seen: look()})
	return nil
}

// change gives the gates the values of s. After an error they are as they were.
func change(gate featuregate.MutableVersionedFeatureGate, s Set) error {
	wanted, values := s.Map(), map[string]bool{}
	// any order: they go into a map
	for name, spec := range atDefaults().GetAll() {
		value, named := wanted[string(name)]
		if !named {
			value = spec.Default
		}
		if gate.Enabled(name) != value && !isApart(name) {
			values[string(name)] = value
		}
	}
	if len(values) == 0 {
		return nil
	}
	// An error would leave a part of the values behind.
	if err := changeTo(gate.DeepCopy(), values); err != nil {
		return err
	}
	return changeTo(gate, values)
}

func changeTo(gate featuregate.MutableVersionedFeatureGate, values map[string]bool) error {
	for _, name := range []featuregate.Feature{allAlpha, allBeta} { // else they are heeded again with every change
		if err := gate.ResetFeatureValueToDefault(name); err != nil {
			return err
		}
	}
	if err := setIn(gate, values); err != nil {
		return err
	}
	defaults := gate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		name := featuregate.Feature(name)
		if spec, ok := defaults[name]; !ok || spec.Default != values[string(name)] {
			continue
		}
		if err := gate.ResetFeatureValueToDefault(name); err != nil {
			return err
		}
	}
	return nil
}
