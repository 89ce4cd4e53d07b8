package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceClaim is the devices that a placement gives a ResourceClaim of the pod's namespace.
type DeviceClaim struct {
	// Claim and UID are the ResourceClaim's.
	Claim string
	UID   types.UID
	// Allocation is what the claim's status.allocation becomes, without its configurations and its time: those are
	// added when it is written, because the log does not have them. It is encoded so that two are the same if they are
	// equal, see Result.
	Allocation string
}

// NewDeviceClaim returns the devices that claim.status.allocation has. The claim is not written to.
func NewDeviceClaim(claim *resourcev1.ResourceClaim) (DeviceClaim, error) {
	if claim.Status.Allocation == nil {
		return DeviceClaim{}, fmt.Errorf("ResourceClaim %s/%s has no allocation", claim.Namespace, claim.Name)
	}
	text, err := encodeAllocation(claim.Status.Allocation)
	if err != nil {
		return DeviceClaim{}, fmt.Errorf("allocation of ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return DeviceClaim{Claim: claim.Name, UID: claim.UID, Allocation: text}, nil
}

// Result returns the allocation, which is the caller's to change.
func (c *DeviceClaim) Result() (*resourcev1.AllocationResult, error) {
	result, _, err := decodeAllocation(c.Allocation, decodeMost)
	return result, err
}

// Check reports whether the allocation can be decoded, in no more than most bytes of memory, and how many it takes.
func (c *DeviceClaim) Check(most int) (memory int, err error) {
	_, memory, err = decodeAllocation(c.Allocation, most)
	return memory, err
}

// encodeAllocation writes an allocation as the status of a ResourceClaim that says nothing else: what holds of the
// encoding of objects holds of it.
func encodeAllocation(a *resourcev1.AllocationResult) (string, error) {
	bare := resourcev1.AllocationResult{Devices: a.Devices, NodeSelector: a.NodeSelector}
	bare.Devices.Config = nil
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &bare}}
	text, err := AppendObject(nil, claim)
	if err != nil {
		return "", err
	}
	// The allocator computes capacities: their form need not be that of their text, see loggedAsRead.
	read, err := asRead(&resourcev1.ResourceClaim{}, text)
	if err != nil {
		return "", err
	}
	text, err = AppendObject(text[:0], read)
	return string(text), err
}

// decodeAllocation reads what encodeAllocation has written, if it takes no more than most bytes of memory.
func decodeAllocation(text string, most int) (result *resourcev1.AllocationResult, memory int, err error) {
	b := []byte(text)
	obj, memory, err := DecodeObject(ResourceClaims, b, most)
	if err != nil {
		return nil, 0, err
	}
	claim := obj.(*resourcev1.ResourceClaim)
	if claim.Status.Allocation == nil {
		return nil, 0, errors.New("it has no allocation")
	}
	switch again, err := encodeAllocation(claim.Status.Allocation); {
	case err != nil:
		return nil, 0, err
	case again != text:
		return nil, 0, errNotCanonical
	}
	return claim.Status.Allocation, memory, nil
}

func (w *payloadWriter) devices(list []DeviceClaim) {
	w.uvarint(uint64(len(list)))
	for i := range list {
		w.str("device claim", list[i].Claim)
		w.str("device claim's uid", string(list[i].UID))
		shape := infoWire[infoByResource[ResourceClaims].code]
		w.fail("device claim's allocation", shape.check([]byte(list[i].Allocation)))
		w.uvarint(uint64(len(list[i].Allocation)))
		w.b = append(w.b, list[i].Allocation...)
	}
}

// devices reads what the writer's devices has written. What the allocations take together is limited.
func (r *payloadReader) devices() []DeviceClaim {
	left := objectMemory(len(r.text), besideFactor)
	list := readList(r, "devices", 3, func() DeviceClaim {
		c := DeviceClaim{Claim: r.str("claim"), UID: r.uid("uid"), Allocation: r.bytes("allocation")}
		if r.err != nil {
			return c
		}
		_, memory, err := decodeAllocation(c.Allocation, left)
		r.fail("allocation", err)
		left -= memory + besideFactor*len(c.Allocation)
		return c
	})
	if r.err == nil && len(list) == 0 && r.at == len(r.text) {
		r.fail("devices", errors.New("an empty list is left out"))
	}
	return list
}

func (w *jsonWriter) devices(list []DeviceClaim) {
	writeList(w, "devices", list, func(c DeviceClaim) {
		w.open('{')
		w.str("claim", c.Claim)
		w.str("uid", string(c.UID))
		w.name("allocation")
		w.allocation(c)
		w.close('}')
	})
}

func (w *jsonWriter) allocation(c DeviceClaim) {
	result, err := c.Result()
	if err != nil {
		w.fail("allocation", err)
		return
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	w.fail("allocation", encoder.Encode(result))
	w.b = append(w.b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

type jsonDevices struct {
	Claim      string          `json:"claim"`
	UID        types.UID       `json:"uid"`
	Allocation json.RawMessage `json:"allocation"`
}

// claim reads the allocation as that of a ResourceClaim, whose limits hold for it.
func (j *jsonDevices) claim() (DeviceClaim, error) {
	text := slices.Concat([]byte(`{"status":{"allocation":`), j.Allocation, []byte(`}}`))
	info := infoByResource[ResourceClaims]
	if err := infoJSON[info.code].check(text, objectMemory(len(text), plainFactor)); err != nil {
		return DeviceClaim{}, err
	}
	if err := CheckQuantities(text); err != nil {
		return DeviceClaim{}, err
	}
	claim := &resourcev1.ResourceClaim{}
	if err := unmarshalStrict(text, claim); err != nil {
		return DeviceClaim{}, err
	}
	if len(j.Allocation) == 0 || claim.Status.Allocation == nil {
		return DeviceClaim{}, errors.New("missing")
	}
	allocation, err := encodeAllocation(claim.Status.Allocation)
	return DeviceClaim{Claim: j.Claim, UID: j.UID, Allocation: allocation}, err
}
