package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/rollcall-sched/rollcall/framework"
)

const (
	// defaultTimeout limits the time of a call without httpTimeout, as in kube-scheduler.
	defaultTimeout = 5 * time.Second
	// An answer may have answerFloor bytes, and answerFactor times as many as the question had. It names nodes of the
	// question, each once, with a reason or a score.
	answerFloor, answerFactor = 1 << 20, 4
	// maxAsking is the number of pods that are asked about at the same time.
	maxAsking = 128
)

// Options configure a Client.
type Options struct {
	// Extenders are the extenders of the configuration.
	Extenders []config.Extender
	// Pod returns the whole pod of a name and UID; nil: extenders receive the pod as the scheduler knows it.
	Pod func(ctx context.Context, namespace, name string, uid types.UID) (*v1.Pod, error)
	// Node returns a node as the API server reported it last, nil if it is gone. It is needed for extenders that are
	// not nodeCacheCapable. The node is not changed.
	Node func(name string) *v1.Node
}

// Client asks the extenders of a configuration. Its methods may be called from any goroutine.
type Client struct {
	opts   Options
	list   []*extender // in the order in which they are asked
	asking chan struct{}
}

// extender is one of them.
type extender struct {
	config.Extender
	place   uint32 // in the configuration
	http    *http.Client
	managed map[v1.ResourceName]bool
}

// New makes a Client. It fails if the TLS settings of an extender cannot be read.
func New(opts Options) (*Client, error) {
	c := &Client{opts: opts, asking: make(chan struct{}, maxAsking)}
	for _, i := range framework.ExtenderOrder(opts.Extenders) {
		e := &extender{Extender: opts.Extenders[i], place: uint32(i)}
		transport, err := transportFor(&e.Extender)
		if err != nil {
			return nil, fmt.Errorf("extenders[%d]: %w", i, err)
		}
		timeout := e.HTTPTimeout.Duration
		if timeout == 0 {
			timeout = defaultTimeout
		}
		e.http = &http.Client{Transport: transport, Timeout: timeout}
		e.managed = framework.ExtenderResources(&e.Extender)
		c.list = append(c.list, e)
	}
	return c, nil
}

// transportFor is kube-scheduler's makeTransport.
func transportFor(e *config.Extender) (http.RoundTripper, error) {
	var cfg rest.Config
	if t := e.TLSConfig; t != nil {
		cfg.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if e.EnableHTTPS && cfg.CAFile == "" && len(cfg.CAData) == 0 {
		cfg.Insecure = true
	}
	tlsConfig, err := rest.TLSConfigFor(&cfg)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tlsConfig}), nil
}

// interested reports whether the extender has to do with a pod.
func (e *extender) interested(pod *v1.Pod) bool { return framework.ExtenderInterested(e.managed, pod) }

// send makes a call.
func (e *extender) send(ctx context.Context, verb string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	url := strings.TrimRight(e.URLPrefix, "/") + "/" + verb
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	limit := int64(answerFloor + answerFactor*len(body))
	limited := &io.LimitedReader{R: resp.Body, N: limit}
	err = json.NewDecoder(limited).Decode(result)
	switch {
	case err != nil && limited.N <= 0:
		return fmt.Errorf("%s answered more than %d bytes", url, limit)
	case err != nil:
		return fmt.Errorf("the answer of %s: %w", url, err)
	}
	return nil
}

// args returns the arguments of a filter or prioritize call.
func (c *Client) args(e *extender, pod *v1.Pod, nodes []string) *extenderv1.ExtenderArgs {
	if e.NodeCacheCapable {
		return &extenderv1.ExtenderArgs{Pod: pod, NodeNames: &nodes}
	}
	list := &v1.NodeList{Items: make([]v1.Node, 0, len(nodes))}
	for _, name := range nodes {
		if node := c.node(name); node != nil {
			list.Items = append(list.Items, *node)
		}
	}
	return &extenderv1.ExtenderArgs{Pod: pod, Nodes: list}
}

func (c *Client) node(name string) *v1.Node {
	if c.opts.Node == nil {
		return nil
	}
	return c.opts.Node(name)
}

// Binds reports whether an extender binds the pod.
func (c *Client) Binds(pod *v1.Pod) bool {
	for _, e := range c.list {
		if e.BindVerb != "" && e.interested(pod) {
			return true
		}
	}
	return false
}

// Bind has the extender that is to bind the pod do so, and names it. "" says that none did, or that the one that failed
// may be ignored: the pod is to be bound otherwise. An error does not say that the pod is not bound.
func (c *Client) Bind(ctx context.Context, pod *v1.Pod, node string) (by string, err error) {
	for _, e := range c.list {
		if e.BindVerb == "" || !e.interested(pod) {
			continue
		}
		var result extenderv1.ExtenderBindingResult
		err := e.send(ctx, e.BindVerb, &extenderv1.ExtenderBindingArgs{
			PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node,
		}, &result)
		if err == nil && result.Error != "" {
			err = errors.New(result.Error)
		}
		if err != nil && e.Ignorable {
			continue
		}
		return e.URLPrefix, err
	}
	return "", nil
}
