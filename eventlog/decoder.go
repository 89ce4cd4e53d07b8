package eventlog

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// A Decoder decodes records and objects like DecodeRecord and DecodeObject, with the same results and errors. It
// remembers the specs of pods that it has decoded. Pods of one template share the memory of the equal parts of their
// specs, which are most of the cost of decoding a pod. Shared parts must not be written to, and neither may any part of
// an object that others may have. A Quantity to which encoding writes is never shared.
//
// For example, of the 64 pods of a gang two are decoded whole. For the others only metadata, status and node are
// decoded, and they get the containers of the second one.
//
// The remembered specs are a memo, and bounded. The zero Decoder is ready, and a nil one remembers nothing. It is not
// safe for concurrent use. Its results may be encoded by one goroutine at a time only.
type Decoder struct {
	// specs are by the bytes of all their fields except the fields that ownOfPod names.
	specs map[string]*sharedSpec
	// seen has the checksums of bytes that came once: a spec that comes only once is not worth remembering.
	seen [256]uint32

	// own has the fields of ownOfPod of the last spec, and common the others. common is empty if the spec cannot be
	// remembered.
	own, common, scratch []byte
}

// A sharedSpec is a spec without the fields of ownOfPod.
type sharedSpec struct {
	spec v1.PodSpec
	// canonical says that encoding the spec gives the same bytes.
	canonical bool
}

const (
	// maxShared is the number of specs that a Decoder remembers, and maxSharedSize the largest size of one in bytes.
	maxShared     = 64
	maxSharedSize = 16 << 10
)

// The numbers of the fields of a pod.
const (
	podMetadata = iota + 1
	podSpec
	podStatus
)

// The numbers of the fields of a pod's spec in which pods of one template differ.
const (
	specVolumes         = 1 // the name of a service account's token is made for each pod
	specNodeName        = 10
	specSchedulingGroup = 43
)

func ownOfPod(number uint64) bool {
	return number == specVolumes || number == specNodeName || number == specSchedulingGroup
}

// Record is DecodeRecord.
func (d *Decoder) Record(b []byte) (e Entry, prev [32]byte, err error) {
	if err := checkFrame(b); err != nil {
		return Entry{}, prev, recordError(err)
	}
	return decodeChecked(b, d)
}

// Entry is Chain.Entry.
func (d *Decoder) Entry(c *Chain, rec []byte) (Entry, error) { return c.entry(rec, d) }

// unmarshal reads an object whose shape was checked. canonical says that b must equal the encoding of the object.
func (d *Decoder) unmarshal(obj protoObject, b []byte, canonical bool) error {
	pod, isPod := obj.(*v1.Pod)
	if isPod && d != nil {
		if d.pod(b, pod, canonical) {
			return nil
		}
		*pod = v1.Pod{}
	}
	if err := obj.Unmarshal(b); err != nil {
		return err
	}
	if canonical {
		scratch := encodings.Get().(*[]byte)
		defer encodings.Put(scratch)
		if err := isCanonical(obj, b, scratch); err != nil {
			return err
		}
	}
	if isPod && d != nil {
		d.remember(&pod.Spec, canonical)
	}
	return nil
}

// pod reads a pod whose shape was checked, if its spec is one that the Decoder remembers. If it returns false, b may
// still be valid, and pod must not be used. canonical says that b must equal the encoding of the pod.
func (d *Decoder) pod(b []byte, pod *v1.Pod, canonical bool) bool {
	d.common = d.common[:0]
	var parts [podStatus + 1][]byte
	for number := podMetadata; number <= podStatus; number++ {
		f, ok := cutField(b)
		if !ok || f.number != uint64(number) {
			return false
		}
		parts[number], b = f.content, b[len(f.whole):]
	}
	return len(b) == 0 && d.spec(parts[podSpec], &pod.Spec, canonical) &&
		d.part(&pod.ObjectMeta, parts[podMetadata], canonical) && d.part(&pod.Status, parts[podStatus], canonical)
}

// spec is pod for the pod's spec.
func (d *Decoder) spec(b []byte, spec *v1.PodSpec, canonical bool) bool {
	d.own = d.own[:0]
	for len(b) > 0 {
		f, ok := cutField(b)
		if !ok {
			d.common = d.common[:0]
			return false
		}
		if ownOfPod(f.number) {
			d.own = append(d.own, f.whole...)
		} else {
			d.common = append(d.common, f.whole...)
		}
		b = b[len(f.whole):]
	}
	known := d.specs[string(d.common)]
	if known == nil || canonical && !(known.canonical && d.ownCanonical()) {
		return false
	}
	*spec = known.spec
	return spec.Unmarshal(d.own) == nil
}

// ownCanonical reports whether each message among the fields of ownOfPod equals its encoding.
func (d *Decoder) ownCanonical() bool {
	for b := d.own; len(b) > 0; {
		f, _ := cutField(b)
		b = b[len(f.whole):]
		if f.number == specVolumes && !d.part(&v1.Volume{}, f.content, true) ||
			f.number == specSchedulingGroup && !d.part(&v1.PodSchedulingGroup{}, f.content, true) {
			return false
		}
	}
	return true
}

// part reads a message.
func (d *Decoder) part(m protoMessage, b []byte, canonical bool) bool {
	if err := m.Unmarshal(b); err != nil || !canonical {
		return err == nil
	}
	return isCanonical(m, b, &d.scratch) == nil
}

// remember remembers a spec that pod could not read from the memo, and that was then decoded from the same bytes.
func (d *Decoder) remember(spec *v1.PodSpec, canonical bool) {
	if len(d.common) == 0 || len(d.common) > maxSharedSize || writtenByEncoding(spec) {
		return
	}
	sum := crc32.Checksum(d.common, castagnoli)
	if seen := &d.seen[sum%uint32(len(d.seen))]; *seen != sum {
		*seen = sum
		return
	}
	if d.specs == nil || len(d.specs) >= maxShared {
		d.specs = map[string]*sharedSpec{}
	}
	shared := &sharedSpec{spec: *spec, canonical: canonical}
	shared.spec.Volumes, shared.spec.NodeName, shared.spec.SchedulingGroup = nil, "", nil
	clip(&shared.spec)
	d.specs[string(d.common)] = shared
}

// clip removes the free capacity of the spec's lists, because the generated code leaves room behind the lists that it
// reads. So an append makes a new list, as it must where lists are shared.
func clip(spec *v1.PodSpec) {
	spec.InitContainers = slices.Clip(spec.InitContainers)
	spec.Containers = slices.Clip(spec.Containers)
	spec.EphemeralContainers = slices.Clip(spec.EphemeralContainers)
	spec.Tolerations = slices.Clip(spec.Tolerations)
	spec.ImagePullSecrets = slices.Clip(spec.ImagePullSecrets)
	spec.HostAliases = slices.Clip(spec.HostAliases)
	spec.ReadinessGates = slices.Clip(spec.ReadinessGates)
	spec.TopologySpreadConstraints = slices.Clip(spec.TopologySpreadConstraints)
	spec.SchedulingGates = slices.Clip(spec.SchedulingGates)
	spec.ResourceClaims = slices.Clip(spec.ResourceClaims)
	spec.EvictionResponders = slices.Clip(spec.EvictionResponders)
}

// writtenByEncoding reports whether encoding a pod may write into the shared part of its spec: a Quantity outside of a
// map keeps its text. Only environment variables have one, and Trim removes these.
func writtenByEncoding(spec *v1.PodSpec) bool {
	for i := range spec.InitContainers {
		if len(spec.InitContainers[i].Env) > 0 {
			return true
		}
	}
	for i := range spec.Containers {
		if len(spec.Containers[i].Env) > 0 {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if len(spec.EphemeralContainers[i].Env) > 0 {
			return true
		}
	}
	return false
}

// A cutOff is the first field of a message.
type cutOff struct {
	number uint64
	// content is the content of a field with a length, whole is all of the field.
	content, whole []byte
}

// cutField returns the first field of b, whose shape was checked. ok is false if its tag, its length or its number is
// not in its shortest form.
func cutField(b []byte) (f cutOff, ok bool) {
	tag, n := shortUvarint(b)
	if n <= 0 {
		return f, false
	}
	value, m := shortUvarint(b[n:])
	if m <= 0 {
		return f, false
	}
	end := n + m
	if f.number = tag >> 3; tag&7 == protoBytes {
		if value > uint64(len(b)-end) {
			return f, false
		}
		f.content = b[end : end+int(value)]
		end += int(value)
	}
	f.whole = b[:end]
	return f, true
}

// shortUvarint is binary.Uvarint for a number in its shortest form; n is 0 for any other.
func shortUvarint(b []byte) (v uint64, n int) {
	if v, n = binary.Uvarint(b); n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}
