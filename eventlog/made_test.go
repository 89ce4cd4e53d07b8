package eventlog_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Requests of a claim that the pod's bind makes are recorded. Requests of an existing claim are refused.
func TestRequestsOfAClaimThatIsMade(t *testing.T) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 2}}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "g"}}}}
	plain, err := eventlog.NewDeviceClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	made, err := eventlog.NewMadeClaim(claim)
	if err != nil {
		t.Fatal(err)
	}
	if requests, err := made.Requests(); err != nil || len(requests) != 1 || made.UID != "" ||
		!made.SameDevices(claim) {
		t.Errorf("the claim is %+v with %+v, %v", made, requests, err)
	}
	if requests, err := plain.Requests(); err != nil || requests != nil {
		t.Errorf("a claim that is there requests %+v, %v", requests, err)
	}
	entry := func(devices ...eventlog.DeviceClaim) eventlog.Entry {
		return eventlog.Entry{Seq: 1, Epoch: 1, Payload: &eventlog.Decision{Cycle: 1, Name: "p", UID: "p",
			Outcome: eventlog.Scheduled, Node: "n", Devices: devices}}
	}
	for made, e := range map[bool]eventlog.Entry{false: entry(plain), true: entry(plain, made)} {
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := eventlog.DecodeRecord(rec); err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v is read back as %+v, %v", e, again, err)
		}
		text, err := eventlog.AppendJSON(nil, e)
		if err != nil || strings.Contains(string(text), `"requests":[{"name":"r"`) != made {
			t.Errorf("%s, %v", text, err)
		}
	}
	// The writer refuses everything that no reader accepts.
	wrong := made
	wrong.UID = "u"
	if _, err := eventlog.AppendRecord(nil, entry(plain, wrong), [32]byte{}); err == nil ||
		!strings.Contains(err.Error(), "requests of a claim with a UID") {
		t.Errorf("requests of a claim that is there are written: %v", err)
	}
	text, err := eventlog.AppendJSON(nil, entry(made))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"claim":"c","uid":""`), []byte(`"claim":"c","uid":"u"`), 1)
	if _, err := eventlog.ParseJSON(text); err == nil ||
		!strings.Contains(err.Error(), "requests of a claim with a UID") {
		t.Errorf("%s: %v", text, err)
	}
}
