// Package devices is the part of the cluster's state for devices (dynamic resource allocation). It has ResourceClaims,
// ResourceSlices, DeviceClasses and DeviceTaintRules, and the devices that decisions have allocated. It knows the pods
// that use each claim, claims of PodGroups, and extended resources that are names for a DeviceClass.
//
// It shows devices to plugins, as a fwk.SharedDRAManager, with the devices in use. It never decides who gets a device:
// the plugin DynamicResources does. It knows the rest of the cluster only through Cluster.
//
// Every method that changes a State returns Changes, a value with the changes that concern the rest of the scheduler.
// Start reading at State in state.go, then at State.Assume.
package devices
