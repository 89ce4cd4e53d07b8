// Package devices is the part of the cluster's state that is about devices (dynamic resource allocation):
// ResourceClaims, ResourceSlices, DeviceClasses and DeviceTaintRules; the devices that decisions have allocated; the
// pods that use each claim; claims of PodGroups; and extended resources that stand for a DeviceClass.
//
// It owns what plugins see of devices, as a fwk.SharedDRAManager, and which devices are in use. It never decides who
// gets a device: that is the plugin DynamicResources. Of the rest of the cluster it knows what Cluster tells.
//
// Every method that changes a State returns Changes, a value: what the rest of the scheduler must know of it. Start
// reading at State in state.go, then at State.Assume.
package devices
