// Package client makes the clients with which the scheduler reaches its API server.
//
// Start reading at Config.
package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	componentbaseconfig "k8s.io/component-base/config"
)

// contentTypes is the Accept header where nothing is configured. Protobuf takes the API server a tenth less time for a
// bind.
const (
	protobuf     = "application/vnd.kubernetes.protobuf"
	contentTypes = protobuf + ",application/json"
)

// Config returns the connection to the API server: by the kubeconfig file that c names, or as a pod of the cluster if
// it names none. master replaces the server's address if it is not empty. The rates are c's: QPS requests a second, and
// Burst of them at once.
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

// Shared returns config for clients that make the requests of config's QPS and Burst together, however many they are.
func Shared(config *rest.Config) *rest.Config {
	shared := rest.CopyConfig(config)
	if config.QPS > 0 && config.RateLimiter == nil {
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	return shared
}

// Part returns config, which Shared has returned, for clients that make only one in share of those requests: their
// requests do not keep the others waiting.
func Part(config *rest.Config, share int) *rest.Config {
	part := rest.CopyConfig(config)
	if config.RateLimiter != nil {
		part.RateLimiter = &both{
			RateLimiter: config.RateLimiter,
			own:         flowcontrol.NewTokenBucketRateLimiter(config.QPS/float32(share), max(config.Burst/share, 1)),
		}
	}
	return part
}

// both lets a request go when its own limit and the shared one do.
type both struct {
	flowcontrol.RateLimiter // shared
	own                     flowcontrol.RateLimiter
}

// TryAccept implements flowcontrol.RateLimiter.
func (b *both) TryAccept() bool { return b.own.TryAccept() && b.RateLimiter.TryAccept() }

// Accept implements flowcontrol.RateLimiter.
func (b *both) Accept() {
	b.own.Accept()
	b.RateLimiter.Accept()
}

// Wait implements flowcontrol.RateLimiter.
func (b *both) Wait(ctx context.Context) error {
	if err := b.own.Wait(ctx); err != nil {
		return err
	}
	return b.RateLimiter.Wait(ctx)
}

// JSON returns config for resources that the API server has in JSON only, such as the resources of a
// CustomResourceDefinition.
func JSON(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.AcceptContentTypes, c.ContentType = "application/json", "application/json"
	return c
}

// ErrReadOnly is the error of a request that a client of ReadOnly does not send.
var ErrReadOnly = errors.New("this client only reads")

// ReadOnly returns config for clients that send no request but to get, list and watch. Any other request is an
// ErrReadOnly, and is not sent.
func ReadOnly(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	return c
}

type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrReadOnly)
	}
	return r.next.RoundTrip(request)
}
