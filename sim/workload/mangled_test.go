package workload_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-sched/rollcall/sim"
	"github.com/rollcall-sched/rollcall/sim/workload"
)

func FuzzReadNeverPanics(f *testing.F) {
	for _, seed := range workload.Seeds {
		f.Add([]byte(seed))
	}
	f.Add(workload.DemoYAML())
	f.Fuzz(func(t *testing.T, data []byte) { readGarbage(t, data) })
}

// readGarbage reads data that may be wrong in any way: an error says where, and what is read can be simulated.
func readGarbage(t interface{ Fatalf(string, ...any) }, data []byte) {
	nodes, w, err := workload.Parse("F", bytes.NewReader(data))
	if err != nil {
		if !strings.HasPrefix(err.Error(), "F") {
			t.Fatalf("error without place: %v", err)
		}
		return
	}
	if len(w.Pods) > 10_000 {
		return
	}
	if _, err := sim.New(nodes, w, sim.Options{}); err != nil {
		t.Fatalf("what was read makes no cluster: %v", err)
	}
}

func TestMangledFilesNeverPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := []byte(rapid.SampledFrom(append(slices.Clone(workload.Seeds), string(workload.DemoYAML()))).Draw(t,
			"seed"))
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			at := rapid.IntRange(0, len(data)).Draw(t, "at")
			end := min(len(data), at+rapid.IntRange(0, 9).Draw(t, "cut"))
			put := rapid.SampledFrom(
				[]string{"", "-", ":", "\n", "---\n", "{", "]", "&a ", "*a", "99999999999999999999", "\x00", "\t", "\"",
					"-1", "é"}).Draw(t, "put")
			data = append(append(append([]byte{}, data[:at]...), put...), data[end:]...)
		}
		readGarbage(t, data)
	})
}
