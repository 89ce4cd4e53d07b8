package sim

import (
	"bytes"
	_ "embed"
	"fmt"
)

// demoYAML is the bundled workload.
//
//go:embed demo/demo.yaml
var demoYAML []byte

// Demo returns the nodes and the workload of the bundled demo; sim/demo/demo.yaml tells its story. It fails only
// if the file that was built in is damaged.
func Demo() (nodes []NodePlan, w *Workload, err error) {
	in, err := read("demo.yaml", bytes.NewReader(demoYAML))
	if err != nil {
		return nil, nil, fmt.Errorf("bundled demo: %w", err)
	}
	return in.nodes, &in.workload, nil
}

// DemoYAML returns the bundled demo's file, for people to read and to start their own from.
func DemoYAML() []byte { return bytes.Clone(demoYAML) }
