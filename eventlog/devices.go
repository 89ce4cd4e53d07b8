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

// DeviceClaim has the devices that a placement gives to a ResourceClaim of the pod's namespace.
type DeviceClaim struct {
	// Claim and UID are the ResourceClaim's name and UID.
	Claim string
	UID   types.UID
	// Allocation becomes the claim's status.allocation, without its configurations and its time: they are added when
	// the status is written, because the log does not have them. Equal allocations have equal encodings, see Result.
	//
	// A claim that the pod's bind makes, for devices that the pod requests by the names of extended resources, has no
	// UID yet. Its requests are in Allocation too, see Requests.
	Allocation string
}

// NewDeviceClaim returns the devices in claim.status.allocation. It does not write to the claim.
func NewDeviceClaim(claim *resourcev1.ResourceClaim) (DeviceClaim, error) {
	if claim.Status.Allocation == nil {
		return DeviceClaim{}, fmt.Errorf("ResourceClaim %s/%s has no allocation", claim.Namespace, claim.Name)
	}
	text, err := encodeAllocation(nil, claim.Status.Allocation)
	if err != nil {
		return DeviceClaim{}, fmt.Errorf("allocation of ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return DeviceClaim{Claim: claim.Name, UID: claim.UID, Allocation: text}, nil
}

// NewMadeClaim returns the devices, and the requests, of a claim that the pod's bind makes. It does not write to the
// claim.
func NewMadeClaim(claim *resourcev1.ResourceClaim) (DeviceClaim, error) {
	if claim.Status.Allocation == nil || len(claim.Spec.Devices.Requests) == 0 {
		return DeviceClaim{}, fmt.Errorf("ResourceClaim %s/%s has no allocation, or no requests", claim.Namespace,
			claim.Name)
	}
	text, err := encodeAllocation(claim.Spec.Devices.Requests, claim.Status.Allocation)
	if err != nil {
		return DeviceClaim{}, fmt.Errorf("allocation of ResourceClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return DeviceClaim{Claim: claim.Name, Allocation: text}, nil
}

// Result returns the allocation. The caller may change it.
func (c *DeviceClaim) Result() (*resourcev1.AllocationResult, error) {
	claim, _, err := decodeAllocation(c.Allocation, decodeMost)
	if err != nil {
		return nil, err
	}
	return claim.Status.Allocation, nil
}

// Requests returns the requests of a claim that the pod's bind makes, nil for any other claim. The names of the
// requests and the pod say which container uses which request.
func (c *DeviceClaim) Requests() ([]resourcev1.DeviceRequest, error) {
	claim, _, err := decodeAllocation(c.Allocation, decodeMost)
	if err != nil {
		return nil, err
	}
	return claim.Spec.Devices.Requests, nil
}

// checkMade returns an error if the claim has requests that are wrong.
func (c *DeviceClaim) checkMade(claim *resourcev1.ResourceClaim) error {
	if c.UID != "" && len(claim.Spec.Devices.Requests) > 0 {
		return errors.New("requests of a claim with a UID")
	}
	return nil
}

// SameDevices reports whether the claim is allocated these devices.
func (c *DeviceClaim) SameDevices(claim *resourcev1.ResourceClaim) bool {
	result, err := c.Result()
	if err != nil || claim.Status.Allocation == nil {
		return false
	}
	want, err := encodeAllocation(nil, result)
	has, hasErr := encodeAllocation(nil, claim.Status.Allocation)
	return err == nil && hasErr == nil && has == want
}

// Check reports whether the allocation can be decoded within most bytes of memory, and the number of bytes that it
// takes.
func (c *DeviceClaim) Check(most int) (memory int, err error) {
	_, memory, err = decodeAllocation(c.Allocation, most)
	return memory, err
}

// encodeAllocation writes an allocation as the status of a ResourceClaim with nothing else except its requests, if
// there are any. The rules for encoded objects hold.
func encodeAllocation(requests []resourcev1.DeviceRequest, a *resourcev1.AllocationResult) (string, error) {
	bare := resourcev1.AllocationResult{Devices: a.Devices, NodeSelector: a.NodeSelector}
	bare.Devices.Config = nil
	claim := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &bare}}
	claim.Spec.Devices.Requests = requests
	text, err := AppendObject(nil, claim)
	if err != nil {
		return "", err
	}
	// The allocator computes capacities: their form may differ from the form of their text, see loggedAsRead.
	read, err := asRead(&resourcev1.ResourceClaim{}, text)
	if err != nil {
		return "", err
	}
	text, err = AppendObject(text[:0], read)
	return string(text), err
}

// decodeAllocation is the inverse of encodeAllocation. It takes at most most bytes of memory.
func decodeAllocation(text string, most int) (claim *resourcev1.ResourceClaim, memory int, err error) {
	b := []byte(text)
	obj, memory, err := DecodeObject(ResourceClaims, b, most)
	if err != nil {
		return nil, 0, err
	}
	claim = obj.(*resourcev1.ResourceClaim)
	if claim.Status.Allocation == nil {
		return nil, 0, errors.New("it has no allocation")
	}
	switch again, err := encodeAllocation(claim.Spec.Devices.Requests, claim.Status.Allocation); {
	case err != nil:
		return nil, 0, err
	case again != text:
		return nil, 0, errNotCanonical
	}
	return claim, memory, nil
}

func (w *payloadWriter) devices(list []DeviceClaim) {
	w.uvarint(uint64(len(list)))
	for i := range list {
		w.str("device claim", list[i].Claim)
		w.str("device claim's uid", string(list[i].UID))
		shape := infoWire[infoByResource[ResourceClaims].code]
		w.fail("device claim's allocation", shape.check([]byte(list[i].Allocation)))
		if w.err == nil && list[i].UID != "" {
			claim, _, err := decodeAllocation(list[i].Allocation, decodeMost)
			if err == nil {
				err = list[i].checkMade(claim)
			}
			w.fail("device claim's allocation", err)
		}
		w.uvarint(uint64(len(list[i].Allocation)))
		w.b = append(w.b, list[i].Allocation...)
	}
}

// devices is the inverse of the writer's devices. The memory of all allocations together is limited.
func (r *payloadReader) devices() []DeviceClaim {
	left := objectMemory(len(r.text), besideFactor)
	list := readList(r, "devices", 3, func() DeviceClaim {
		c := DeviceClaim{Claim: r.str("claim"), UID: r.uid("uid"), Allocation: r.bytes("allocation")}
		if r.err != nil {
			return c
		}
		claim, memory, err := decodeAllocation(c.Allocation, left)
		if err == nil {
			err = c.checkMade(claim)
		}
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
		claim, _, err := decodeAllocation(c.Allocation, decodeMost)
		if err != nil {
			w.fail("allocation", err)
			return
		}
		if requests := claim.Spec.Devices.Requests; len(requests) > 0 {
			w.name("requests")
			w.ofClaim("requests", requests)
		}
		w.name("allocation")
		w.ofClaim("allocation", claim.Status.Allocation)
		w.close('}')
	})
}

// ofClaim writes a part of a claim as Kubernetes does.
func (w *jsonWriter) ofClaim(field string, part any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	w.fail(field, encoder.Encode(part))
	w.b = append(w.b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

type jsonDevices struct {
	Claim      string          `json:"claim"`
	UID        types.UID       `json:"uid"`
	Requests   json.RawMessage `json:"requests,omitempty"`
	Allocation json.RawMessage `json:"allocation"`
}

// claim reads the allocation as a ResourceClaim, with its limits.
func (j *jsonDevices) claim() (DeviceClaim, error) {
	var spec []byte
	if len(j.Requests) > 0 {
		spec = slices.Concat([]byte(`"spec":{"devices":{"requests":`), j.Requests, []byte(`}},`))
	}
	text := slices.Concat([]byte(`{`), spec, []byte(`"status":{"allocation":`), j.Allocation, []byte(`}}`))
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
	c := DeviceClaim{Claim: j.Claim, UID: j.UID}
	if err := c.checkMade(claim); err != nil {
		return DeviceClaim{}, err
	}
	var err error
	c.Allocation, err = encodeAllocation(claim.Spec.Devices.Requests, claim.Status.Allocation)
	return c, err
}
