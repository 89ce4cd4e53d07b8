package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// Run runs the scheduler's program with args in its container, as "kubectl exec" does, and returns its exit code. The
// error says why there is none.
func Run(
	ctx context.Context, config *rest.Config, s Scheduler, args []string, stdout, stderr io.Writer,
) (code int, err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.Namespace).Name(s.Pod).
		SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: s.Container, Command: append([]string{s.Program}, args...), Stdout: true, Stderr: true,
	}, scheme.ParameterCodec).URL()
	// Web sockets first; API servers and proxies that do not have them have SPDY.
	webSocket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return 0, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return 0, err
	}
	executor, err := remotecommand.NewFallbackExecutor(webSocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return 0, err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	var ended exec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &ended):
		return ended.Code, nil
	}
	return 0, fmt.Errorf("pod %s, container %s: %w", s, s.Container, err)
}
