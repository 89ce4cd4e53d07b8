package workload

import (
	"bytes"
	_ "embed"
	"fmt"
)

// demoYAML is the bundled workload.
//
//go:embed demo/demo.yaml
var demoYAML []byte

// Demo returns the nodes and the workload of the bundled demo; demo/demo.yaml tells its story. It fails only
// if the file that was built in is damaged.
func Demo() (nodes []NodePlan, w *Workload, err error) {
	if nodes, w, err = Parse("demo.yaml", bytes.NewReader(demoYAML)); err != nil {
		return nil, nil, fmt.Errorf("bundled demo: %w", err)
	}
	return nodes, w, nil
}

// DemoYAML returns the bundled demo's file, for people to read and to start their own from.
func DemoYAML() []byte { return bytes.Clone(demoYAML) }
