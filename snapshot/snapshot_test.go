package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/framework"
	"github.com/rollcall-sched/rollcall/internal/alloc"
	"github.com/rollcall-sched/rollcall/plugins"
	"github.com/rollcall-sched/rollcall/scheduler"
	"github.com/rollcall-sched/rollcall/snapshot"
)

var position = [32]byte{1, 2, 3}

// newMachine returns a Machine with nodes, and with pods of which every other one is bound.
func newMachine(t testing.TB, nodes, pods int) *scheduler.Machine {
	t.Helper()
	config, err := framework.EncodeConfig(framework.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	m := scheduler.New(plugins.NewRegistry())
	now := eventlog.TimeOf(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	apply := func(p eventlog.Payload) {
		if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1, Time: now, Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	upsert := func(res eventlog.Resource, obj eventlog.Object) {
		obj, err := eventlog.Canonical(res, eventlog.Trim(res, obj))
		if err != nil {
			t.Fatal(err)
		}
		apply(&eventlog.Upserted{Resource: res, Object: obj})
	}
	apply(&eventlog.EpochStarted{ID: "epoch", Version: "test", Format: eventlog.FormatVersion,
		Behaviour: scheduler.Behaviour, Config: config})
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		n := &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
				v1.LabelHostname:     name,
				v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3),
				v1.LabelArchStable:   "amd64",
				v1.LabelOSStable:     "linux",
			}},
		}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU:    resource.MustParse("96"),
			v1.ResourceMemory: resource.MustParse("768Gi"),
			"nvidia.com/gpu":  resource.MustParse("8"),
			v1.ResourcePods:   resource.MustParse("110"),
		}
		upsert(eventlog.Nodes, n)
	}
	for i := range pods {
		name := fmt.Sprintf("training-job-%06d-worker-%02d", i/16, i%16)
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("team-%d", i%10),
			Name:      name,
			UID: types.UID(
				fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i),
			),
			Labels: map[string]string{"app": "training", "job": fmt.Sprint(i / 16)},
		}}
		p.Spec.SchedulerName = "default-scheduler"
		p.Spec.Tolerations = []v1.Toleration{{Key: "nvidia.com/gpu", Operator: v1.TolerationOpExists}}
		p.Spec.Containers = []v1.Container{
			{Name: "main", Image: "registry.example.com/training:v17", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{
					v1.ResourceCPU:    resource.MustParse("4"),
					v1.ResourceMemory: resource.MustParse("16Gi"),
				},
			}},
		}
		if i%2 == 0 && nodes > 0 {
			p.Spec.NodeName = fmt.Sprintf("node-%05d", i/2%nodes)
		}
		upsert(eventlog.Pods, p)
	}
	return m
}

func encode(t testing.TB, m *scheduler.Machine) []byte {
	t.Helper()
	data, err := snapshot.Encode(m, position)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resealed returns the snapshot with a change that its checksum includes.
func resealed(data []byte, change func(body []byte) []byte) []byte {
	body := change(bytes.Clone(data[:len(data)-sha256.Size]))
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

func TestASnapshotIsTheMachine(t *testing.T) {
	m := newMachine(t, 3, 20)
	s, err := snapshot.Decode(encode(t, m))
	if err != nil {
		t.Fatal(err)
	}
	if s.Seq != m.Seq() || s.Epoch != 1 || s.Time != m.Now() || s.Position != position || s.StateHash != m.Hash() {
		t.Errorf("decoded %+v", s)
	}
	restored, err := s.Restore(plugins.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if restored.Hash() != m.Hash() {
		t.Error("the restored Machine has another hash")
	}
	want, ok := m.Decide(nil)
	got, gotOK := restored.Decide(nil)
	if !ok || !gotOK || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("the restored Machine decides %+v, the original %+v", got, want)
	}
}

// TestASnapshotIsOfTheMomentOfItsCapture has the Machine continue before the snapshot is encoded.
func TestASnapshotIsOfTheMomentOfItsCapture(t *testing.T) {
	m := newMachine(t, 2, 4)
	hash, seq := m.Hash(), m.Seq()
	s, err := snapshot.Capture(m, position, make([]byte, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	want := encode(t, m)
	if err := m.Apply(
		eventlog.Entry{Seq: seq + 1, Epoch: 1, Time: m.Now().Add(time.Hour), Payload: &eventlog.Tick{}},
	); err != nil {
		t.Fatal(err)
	}
	got, err := s.Encode()
	if err != nil || !bytes.Equal(got, want) || s.StateHash != hash {
		t.Errorf("encoded later it is another one: %v", err)
	}
	if scratch := s.Release(); cap(scratch) != 1<<20 {
		t.Errorf("%d bytes come back", cap(scratch))
	}
}

func TestEveryFlippedBitAndEveryCutIsDamage(t *testing.T) {
	data := encode(t, newMachine(t, 1, 2))
	var damaged *snapshot.DamagedError
	for i := range data {
		for bit := range 8 {
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << bit
			if _, err := snapshot.Decode(flipped); !errors.As(err, &damaged) {
				t.Fatalf("bit %d of byte %d flipped: %v", bit, i, err)
			}
		}
		if _, err := snapshot.Decode(data[:i]); !errors.As(err, &damaged) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
}

func TestRefusalsAreByName(t *testing.T) {
	m := newMachine(t, 1, 2)
	data := encode(t, m)
	state, err := m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint64) []byte {
		return resealed(data, func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], v); return b })
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty": {nil, "the snapshot is damaged: its length is wrong: 0 bytes are too few"},
		"another file": {resealed(data, func(b []byte) []byte { b[0] = 'x'; return b }), "the snapshot is " +
			"damaged: its magic is wrong: it does not begin as a snapshot does"},
		"flipped": {append(bytes.Clone(data[:len(data)-1]), data[len(data)-1]^1), "the snapshot is damaged: " +
			"its checksum is wrong"},
		"newer": {resealed(data, func(b []byte) []byte { b[11] = 2; return b }), "the snapshot is of " +
			"format 2: this program reads up to 1"},
		"other hash": {resealed(data, func(b []byte) []byte { b[70] ^= 1; return b }), "the snapshot is " +
			"damaged: its state hash is wrong"},
		"longer": {put(100, uint64(len(state)+1)), "the snapshot is damaged: its compression is wrong: " +
			"unexpected EOF"},
		"shorter": {put(100, uint64(len(state)-1)), "the snapshot is damaged: its state size is wrong"},
		"impossible size": {put(100, 1<<40), fmt.Sprintf("the snapshot is damaged: its state size is wrong: "+
			"1099511627776 bytes cannot be packed into %d", len(data)-108-32)},
		"a bomb": {hugeState(data), "the snapshot is damaged: its state size is wrong: 1073741825 bytes are " +
			"more than the 1073741824 of any state"},
		"not packed": {resealed(data, func(b []byte) []byte { b[108] = 'x'; return b }), "the snapshot is " +
			"damaged: its compression is wrong: gzip: invalid header"},
		"another entry's": {put(12, 77), "snapshot at entry 77: the restored state is not the one of the snapshot: " +
			"it is of entry 4"},
		"newer state": {withState(data, append([]byte{11}, state[1:]...)), "snapshot at entry 4: restore the " +
			"state: state version 11: this program reads version 10"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := snapshot.Decode(c.data)
			if err == nil {
				_, err = s.Restore(plugins.NewRegistry())
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// hugeState returns the snapshot with more packed bytes, as if its state were larger than any.
func hugeState(data []byte) []byte {
	return resealed(data, func(b []byte) []byte {
		binary.BigEndian.PutUint64(b[100:], 1<<30+1)
		return append(b, make([]byte, 4<<20)...)
	})
}

// withState returns the snapshot with another state in it, with the right hash of that.
func withState(data, state []byte) []byte {
	return resealed(data, func(b []byte) []byte {
		hash := sha256.Sum256(state)
		copy(b[68:], hash[:])
		binary.BigEndian.PutUint64(b[100:], uint64(len(state)))
		buf := bytes.NewBuffer(b[:108])
		zip := gzip.NewWriter(buf)
		_, _ = zip.Write(state)
		_ = zip.Close()
		return buf.Bytes()
	})
}

func FuzzDecode(f *testing.F) {
	data := encode(f, newMachine(f, 1, 2))
	f.Add(data)
	f.Add(data[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeMeasured(t, b)
		if len(b) > sha256.Size {
			decodeMeasured(t, resealed(b, func(body []byte) []byte { return body }))
		}
	})
}

// decodeMeasured decodes a snapshot and sees how much memory that takes.
func decodeMeasured(t testing.TB, b []byte) (err error) {
	t.Helper()
	got := alloc.Bytes(func() { _, err = snapshot.Decode(b) })
	if most := snapshot.DecodeMemory(len(b)); got > most {
		t.Errorf("%d bytes allocated for a snapshot of %d, want at most %d (error %v)", got, len(b), most, err)
	}
	return err
}

// A snapshot of a megabyte, whole by all its checksums, made its reader take a gigabyte.
func TestAHostileSnapshotTakesLittleMemory(t *testing.T) {
	data := withState(encode(t, newMachine(t, 1, 2)), make([]byte, 1<<30))
	if err := decodeMeasured(t, data); err == nil {
		t.Errorf("a snapshot of %d bytes with a state of a gigabyte is accepted", len(data))
	}
}

// A state that packs too well is packed otherwise, and can be read.
func TestAStateThatPacksTooWellIsRead(t *testing.T) {
	m := newMachine(t, 1, 2)
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{
		"label": strings.Repeat("a", 8<<20)}}}
	if err := m.Apply(eventlog.Entry{Seq: m.Seq() + 1, Epoch: 1, Time: m.Now(),
		Payload: &eventlog.Upserted{Resource: eventlog.Nodes, Object: n}}); err != nil {
		t.Fatal(err)
	}
	data := encode(t, m)
	s, err := snapshot.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(plugins.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	t.Logf("a snapshot of %d bytes", len(data))
}

// BenchmarkRestart measures the cost of a restart, from the bytes of a snapshot to the Machine.
func BenchmarkRestart(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{5000, 100_000}, {15_000, 300_000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			benchmarkRestart(b, newMachine(b, size.nodes, size.pods))
		})
	}
}

func benchmarkRestart(b *testing.B, m *scheduler.Machine) {
	data := encode(b, m)
	b.ReportMetric(float64(len(data))/1e6, "MB")
	b.Run("capture", func(b *testing.B) { // what an append waits for
		var scratch []byte
		for b.Loop() {
			s, err := snapshot.Capture(m, position, scratch)
			if err != nil {
				b.Fatal(err)
			}
			scratch = s.Release()
		}
		b.ReportMetric(float64(len(scratch))/1e6, "MB")
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			encode(b, m)
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := snapshot.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data))/1e6, "MB")
	})
	b.Run("decode+restore", func(b *testing.B) {
		for b.Loop() {
			s, err := snapshot.Decode(data)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Restore(plugins.NewRegistry()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
