package framework

import fwk "k8s.io/kube-scheduler/framework"

const dryRunKey fwk.StateKey = "rollcall.dev/dry-run"

type dryRun struct{}

// Clone implements fwk.StateData.
func (d dryRun) Clone() fwk.StateData { return d }

// MarkDryRun marks a copy of a cycle's state: plugins are asked about nodes with other pods than the real ones.
func MarkDryRun(state fwk.CycleState) { state.Write(dryRunKey, dryRun{}) }

// IsDryRun reports whether MarkDryRun has marked the state.
func IsDryRun(state fwk.CycleState) bool {
	_, err := state.Read(dryRunKey)
	return err == nil
}
