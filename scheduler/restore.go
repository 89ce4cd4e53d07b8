package scheduler

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// VersionError reports a state in a version of the encoding that this program does not read.
type VersionError struct {
	// Version is the version of the state, Read the version that this program reads.
	Version, Read byte
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("state version %d: this program reads version %d", e.Version, e.Read)
}

// Restore returns the Machine whose AppendState is state. It makes the configuration's plugins and nothing else: from
// the entry after Seq on, the Machine behaves as the original. The registry holds the plugins that the configuration
// may name.
//
// Restore fails for bytes that AppendState did not write. The error is a *VersionError for the state of another
// program. It wraps ErrNotTheSame if the bytes can be read but are not the canonical form of the state. Restore never
// panics.
func Restore(registry framework.Registry, state []byte) (*Machine, error) {
	m := New(registry)
	r := canonical.NewReader(state)
	if err := m.restore(r); err != nil {
		return nil, fmt.Errorf("restore the state: %w", err)
	}
	again, err := m.AppendState(make([]byte, 0, len(state)))
	if err != nil {
		return nil, fmt.Errorf("restore the state: %w", err)
	}
	if !bytes.Equal(again, state) {
		return nil, fmt.Errorf("restore the state after entry %d: %w", m.at.seq, ErrNotTheSame)
	}
	return m, nil
}

// RestoreReplacing returns the Machine of a state with other texts: replace changes the bytes of each text and each
// object, whose field it gets. Restore returns the same Machine for the state of the result.
func RestoreReplacing(registry framework.Registry, state []byte,
	replace func(field string, b []byte) ([]byte, error)) (*Machine, error) {
	m := New(registry)
	if err := m.restore(canonical.NewReader(state).Replacing(replace)); err != nil {
		return nil, fmt.Errorf("restore the state with other texts: %w", err)
	}
	again, err := m.AppendState(make([]byte, 0, len(state)))
	if err != nil {
		return nil, fmt.Errorf("restore the state with other texts: %w", err)
	}
	return Restore(registry, again)
}

// ErrNotTheSame is wrapped by Restore's error for bytes that can be read but are not the canonical form of a state: the
// Machine would not be the one that was encoded.
var ErrNotTheSame = errors.New("what was restored is not what was written down")

// ConfigOf returns the configuration in a state, nil if no epoch had begun, and the number of its behaviour. It makes
// no plugins.
func ConfigOf(state []byte) (config []byte, behaviour uint32, err error) {
	m := &Machine{}
	config, begun, err := m.restoreBeginning(canonical.NewReader(state))
	if err != nil || !begun {
		return nil, 0, err
	}
	return bytes.Clone(config), m.behaviour, nil
}

// restoreBeginning reads the part of a state that needs no plugins. begun is false if no epoch had begun: then the
// state ends there.
func (m *Machine) restoreBeginning(r *canonical.Reader) (config []byte, begun bool, err error) {
	v := r.Byte("version")
	if r.Err() == nil && v != stateVersion {
		return nil, false, &VersionError{Version: v, Read: stateVersion}
	}
	behaviour := r.Uvarint("behaviour")
	if r.Err() == nil {
		if err := m.setBehaviour(uint32(min(behaviour, math.MaxUint32))); err != nil {
			return nil, false, err
		}
	}
	m.at.seq, m.at.epoch, m.at.now = r.Uvarint("seq"), r.Uvarint("epoch"), eventlog.Time(r.Varint("time"))
	m.at.cycle, m.at.start = r.Uvarint("cycle"), r.Int("start")
	if begun = r.Flags("begun", 1)[0]; !begun {
		return nil, false, r.End()
	}
	config = r.Bytes("configuration")
	return config, begun, r.Err()
}

func (m *Machine) restore(r *canonical.Reader) error {
	config, begun, err := m.restoreBeginning(r)
	if err != nil || !begun {
		return err
	}
	// Plugins are made over an empty cluster, which is filled afterwards, as when the log began.
	if err := m.configure(bytes.Clone(config)); err != nil {
		return err
	}
	if err := m.Restorable(); err != nil {
		return err
	}
	if err := m.cluster.RestoreOwn(r); err != nil {
		return err
	}
	if err := m.cluster.Restore(r); err != nil {
		return err
	}
	m.effects.restore(r)
	m.noteReturned()
	m.effects.restoreEvictions(r)
	if err := m.cluster.RestoreWaits(r); err != nil {
		return err
	}
	m.backfill.Restore(r)
	if err := m.queue.Restore(r, m.at.now, objectIn(m.cluster)); err != nil {
		return err
	}
	m.nominated.restore(r)
	if err := m.restorePlugins(r); err != nil {
		return err
	}
	if len(m.extenders.list) > 0 {
		m.restoreQuestions(r)
		m.restorePreemptions(r)
	}
	m.bindings.reopen(false)
	return r.End()
}
