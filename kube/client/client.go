// Package client makes the clients by which the scheduler reaches its API server.
//
// Start reading at Config.
package client

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentbaseconfig "k8s.io/component-base/config"
)

// contentTypes is what is asked for where nothing is configured. Protobuf takes the API server a tenth less time for
// a bind.
const (
	protobuf     = "application/vnd.kubernetes.protobuf"
	contentTypes = protobuf + ",application/json"
)

// Config returns how the API server is reached: by the kubeconfig file that c names, or as a pod of the cluster if it
// names none. master replaces the server's address if it is not empty. The rates are those of c: QPS requests a
// second, and Burst of them at once.
func Config(c componentbaseconfig.ClientConnectionConfiguration, master, userAgent string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags(master, c.Kubeconfig)
	if err != nil {
		if c.Kubeconfig == "" && master == "" {
			return nil, fmt.Errorf("no API server: outside of a cluster, name a file with --kubeconfig: %w", err)
		}
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	config.DisableCompression = true // the API server is near; packing would take its time and ours
	config.AcceptContentTypes, config.ContentType = c.AcceptContentTypes, c.ContentType
	if config.AcceptContentTypes == "" {
		config.AcceptContentTypes = contentTypes
	}
	if config.ContentType == "" {
		config.ContentType = protobuf
	}
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	return rest.AddUserAgent(config, userAgent), nil
}

// JSON returns config for resources that the API server has in JSON only, such as those of a
// CustomResourceDefinition.
func JSON(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.AcceptContentTypes, c.ContentType = "application/json", "application/json"
	return c
}
