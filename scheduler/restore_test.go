package scheduler_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/internal/alloc"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
	"github.com/rollcall-sched/rollcall/internal/restorecheck"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/test/transcripts"
)

// TestRestoredMachinesGoOnAsTheOriginalInGeneratedHistories plays generated histories of every kind and restores here
// and there: 20 histories of each kind, 100 with ROLLCALL_WHOLE.
func TestRestoredMachinesGoOnAsTheOriginalInGeneratedHistories(t *testing.T) {
	fixedseed.Checks(t, 20)
	shapes := shapes()
	shapes["TwoProfilesAndAll"] = shape{
		schedulers: []string{"default-scheduler", "packer", "somebody-else"},
		config:     packingProfile,
		interrupts: true,
		foreign:    true,
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := encodedConfig(t, shapes[name].config)
			rapid.Check(t, func(t *rapid.T) {
				h := newHistory(t, shapes[name], config)
				h.live()
				restorecheck.New(transcripts.Registry(), h.fatalf).Play(h.entries, 1+len(h.entries)/8, 2)
			})
		})
	}
}

// TestADamagedStateIsNotRestored restores from bytes with each of many faults.
func TestADamagedStateIsNotRestored(t *testing.T) {
	state := storyState(t)
	if _, err := scheduler.Restore(transcripts.Registry(), state); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, b []byte) {
		if m, err := scheduler.Restore(transcripts.Registry(), b); err == nil {
			again, _ := m.AppendState(nil)
			if !bytes.Equal(again, b) {
				t.Errorf("%s: accepted, and is not what it is written as", what)
			}
		}
	}
	newer := bytes.Clone(state)
	newer[0]++
	if _, err := scheduler.Restore(transcripts.Registry(), newer); err == nil {
		t.Error("a newer version is accepted")
	}
	if _, err := scheduler.Restore(transcripts.Registry(), append(bytes.Clone(state), 0)); err == nil {
		t.Error("a trailing byte is accepted")
	}
	stride := max(1, len(state)/120)
	for i := 0; i < len(state); i += stride {
		if _, err := scheduler.Restore(transcripts.Registry(), state[:i]); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", i, len(state))
		}
		for _, flip := range []byte{1, 0x80, 0xff} {
			flipped := bytes.Clone(state)
			flipped[i] ^= flip
			refused(fmt.Sprintf("byte %d ^ %#x", i, flip), flipped)
		}
	}
}

// TestAnyMutationIsRefusedOrMeansAnotherState mutates a state in many places at once.
func TestAnyMutationIsRefusedOrMeansAnotherState(t *testing.T) {
	state := storyState(t)
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(state)
		for range rapid.IntRange(1, 6).Draw(t, "mutations") {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				b[at] = rapid.Byte().Draw(t, "byte")
			case 1:
				b = append(b[:at:at], append(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes"), b[at:]...)...)
			case 2:
				b = append(b[:at:at], b[min(len(b), at+rapid.IntRange(0, 40).Draw(t, "cut")):]...)
			}
			if len(b) == 0 {
				return
			}
		}
		if m, err := scheduler.Restore(transcripts.Registry(), b); err == nil {
			if again, err := m.AppendState(nil); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("accepted, and is not what it is written as (%v)", err)
			}
		}
	})
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte{})
	empty, err := scheduler.New(transcripts.Registry()).AppendState(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Add(storyState(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *scheduler.Machine
		var err error
		got := alloc.Bytes(func() { m, err = scheduler.Restore(transcripts.Registry(), b) })
		if most := uint64(64<<20 + 128*len(b)); got > most {
			t.Errorf("%d bytes allocated for a state of %d, want at most %d (error %v)", got, len(b), most, err)
		}
		if err != nil {
			return
		}
		if again, err := m.AppendState(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("accepted, and is not what it is written as (%v)", err)
		}
	})
}
