// Package dumptest writes dumps of made-up clusters, for tests.
package dumptest

import (
	"bufio"
	"fmt"
	"io"
)

// A Cluster is a cluster to write as kubectl get -o json prints it. Each node has room for 16 pods.
type Cluster struct{ Nodes, Pods, Pending int }

// Write writes the cluster as one List. The pending pods ask for more than any node has.
func (c Cluster) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprint(out, "{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")
	for i := range c.Nodes {
		fmt.Fprintf(out, nodeText, i, i%10)
		fmt.Fprint(out, ",\n")
	}
	for i := range c.Pods {
		node := fmt.Sprintf("\"nodeName\": \"node-%05d\",", i%max(1, c.Nodes))
		phase, cpu, condition := "Running", 2, "True"
		if i >= c.Pods-c.Pending {
			node, phase, cpu, condition = "", "Pending", 64, "False"
		}
		fmt.Fprintf(out, podText, i%100, i, i%20, i%2000, cpu, node, condition, i%3600/60, i%60, phase)
		if i < c.Pods-1 {
			fmt.Fprint(out, ",\n")
		}
	}
	fmt.Fprint(out, "\n    ],\n    \"kind\": \"List\",\n    \"metadata\": {\"resourceVersion\": \"\"}\n}\n")
	return out.Flush()
}
