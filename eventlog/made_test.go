package eventlog_test

import (
	"bytes"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// A Decision with a claim that is to be made is of format 9, so that an older program says that it is too old; one with
// another claim stays of format 7. Requests of a claim that is there already are refused.
func TestRequestsOfAClaimAreOfFormat9(t *testing.T) {
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
	for want, e := range map[byte]eventlog.Entry{7: entry(plain), 9: entry(plain, made)} {
		rec, err := eventlog.AppendRecord(nil, e, [32]byte{})
		if err != nil || rec[0] != want {
			t.Fatalf("format %d: %d, %v", want, rec[0], err)
		}
		text, err := eventlog.AppendJSON(nil, e)
		if err != nil || strings.Contains(string(text), `"requests":[{"name":"r"`) != (want == 9) {
			t.Errorf("format %d: %s, %v", want, text, err)
		}
	}
	// What no reader takes is not written.
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
