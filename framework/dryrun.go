package framework

import fwk "k8s.io/kube-scheduler/framework"

const dryRunKey fwk.StateKey = "rollcall.dev/dry-run"

type dryRun struct{}

// Clone implements fwk.StateData.
func (d dryRun) Clone() fwk.StateData { return d }

// MarkDryRun notes in a copy of a cycle's state that plugins are asked what would be if other pods were on the nodes.
func MarkDryRun(state fwk.CycleState) { state.Write(dryRunKey, dryRun{}) }

// IsDryRun reports whether the state is one that MarkDryRun has marked.
func IsDryRun(state fwk.CycleState) bool {
	_, err := state.Read(dryRunKey)
	return err == nil
}
