package devices

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/canonical"
)

// AppendState appends the objects, each as it was logged, and the claims to which decisions have allocated devices, in
// one canonical form. Users of claims follow from the pods, and returned pods from the outstanding binds.
func (d *State) AppendState(dst []byte) ([]byte, error) {
	for _, res := range resources {
		objects := d.objects(res)
		dst = binary.AppendUvarint(dst, uint64(len(objects)))
		for _, obj := range objects {
			b, err := eventlog.AppendObject(nil, obj)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", res, obj.GetName(), err)
			}
			dst = canonical.AppendBytes(dst, b)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.assumed)))
	for _, key := range slices.SortedFunc(maps.Keys(d.assumed), compareKeys) {
		assumed := d.assumed[key]
		dst = canonical.AppendString(dst, key.Namespace)
		dst = AppendDevices(dst, []eventlog.DeviceClaim{assumed.claim()})
		dst = binary.AppendUvarint(dst, uint64(len(assumed.holders)))
		for _, uid := range assumed.holders {
			dst = canonical.AppendString(dst, string(uid))
		}
	}
	return dst, nil
}

// objects returns the objects of a resource as they were logged, by namespace and name.
func (d *State) objects(res eventlog.Resource) []eventlog.Object {
	objects := d.cluster.Stored(res)
	if res != eventlog.ResourceClaims || len(d.assumed) == 0 {
		return objects
	}
	logged := slices.Clone(objects)
	for i, obj := range logged {
		logged[i] = d.Logged(obj.(*resourcev1.ResourceClaim))
	}
	return logged
}

// Logged returns a claim that plugins see as it was logged: without the devices that decisions have allocated to it.
func (d *State) Logged(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	if assumed := d.assumed[keyOf(claim)]; assumed != nil {
		return assumed.logged
	}
	return claim
}

// Restore reads what AppendState has written into d, which must hold nothing. It checks what it needs in order not to
// panic. Pods are restored after it.
func (d *State) Restore(r *canonical.Reader) error {
	if len(d.assumed) > 0 {
		return errors.New("restore devices: decisions have allocated some already")
	}
	for _, res := range resources {
		for range r.Count(string(res), 1) {
			b := r.Bytes(string(res))
			if r.Err() != nil {
				return r.Err()
			}
			var decoder *eventlog.Decoder
			obj, memory, err := decoder.Object(res, b, r.Memory())
			r.Fail("object", err)
			r.Take("object", memory)
			if r.Err() != nil {
				return r.Err()
			}
			if _, _, err := d.Upsert(res, obj); err != nil {
				return err
			}
		}
	}
	for range r.Count("assumed claims", 4) {
		if err := d.restoreAssumed(r); err != nil {
			return err
		}
	}
	return r.Err()
}

func (d *State) restoreAssumed(r *canonical.Reader) error {
	var c Changes // nobody has seen the state before
	namespace, list := r.String("namespace"), ReadDevices(r)
	if err := r.Err(); err != nil || len(list) != 1 {
		r.Fail("assumed devices", fmt.Errorf("%d claims where one is expected", len(list)))
		return r.Err()
	}
	key := types.NamespacedName{Namespace: namespace, Name: list[0].Claim}
	fail := func(err error) error { return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err) }
	if requests, err := requestsToMake(&list[0]); err != nil {
		return fail(err)
	} else if len(requests) > 0 {
		return d.restoreMade(r, key, &list[0], requests, &c)
	}
	claim := d.claim(key)
	if claim == nil || claim.UID != list[0].UID || d.assumed[key] != nil {
		return fail(errors.New("it is not logged, or assumed twice"))
	}
	allocation, err := list[0].Result()
	if err != nil {
		return fail(err)
	}
	assumed := &assumedClaim{logged: claim, allocation: allocation, text: list[0].Allocation}
	if assumed.devices, err = devicesIn(allocation); err != nil {
		return fail(err)
	}
	if assumed.isOther(claim) {
		return fail(errors.New("it is logged with others"))
	}
	if err := d.show(assumed.seen(), &c); err != nil {
		return err
	}
	d.assumed[key] = assumed
	holders := r.Count("holders", 1)
	if holders == 0 {
		r.Fail("holders", fmt.Errorf("nobody holds ResourceClaim %s", key))
	}
	for range holders {
		d.hold(types.UID(r.String("holder")), key, assumed)
	}
	return r.Err()
}

// restoreMade reads the holder of a claim that is to be made.
func (d *State) restoreMade(r *canonical.Reader, key types.NamespacedName, made *eventlog.DeviceClaim,
	requests []resourcev1.DeviceRequest, c *Changes) error {
	if holders := r.Count("holders", 1); holders != 1 {
		r.Fail("holders", fmt.Errorf("%d pods hold ResourceClaim %s", holders, key))
	}
	holder := types.UID(r.String("holder"))
	if r.Err() != nil {
		return r.Err()
	}
	if err := d.assumeMade(holder, key, made, requests, c); err != nil {
		return fmt.Errorf("assumed devices of ResourceClaim %s: %w", key, err)
	}
	return nil
}

// AppendDevices appends the devices of a placement. ReadDevices reads them.
func AppendDevices(dst []byte, list []eventlog.DeviceClaim) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, c := range list {
		dst = canonical.AppendString(dst, c.Claim)
		dst = canonical.AppendString(dst, string(c.UID))
		dst = canonical.AppendString(dst, c.Allocation)
	}
	return dst
}

// ReadDevices reads what AppendDevices has written.
func ReadDevices(r *canonical.Reader) (list []eventlog.DeviceClaim) {
	for range r.Count("devices", 3) {
		c := eventlog.DeviceClaim{Claim: r.String("claim"), UID: types.UID(r.String("uid")),
			Allocation: string(r.Bytes("allocation"))}
		if r.Err() == nil {
			memory, err := c.Check(r.Memory())
			r.Fail("allocation", err)
			r.Take("allocation", memory)
		}
		list = append(list, c)
	}
	return list
}
