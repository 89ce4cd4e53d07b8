// Package cluster starts etcd and kube-apiserver 1.37 as processes on the loopback interface, with certificates, users
// and an audit log of their own, and kills, suspends and restarts them. A cluster has no nodes: package nodes plays
// them. Without a controller manager (Options.ControllerManager) no process makes pods of Jobs, service accounts, or
// taints of nodes, and the API server is configured not to need them.
//
// In a test, ForTest starts a cluster and ends it with the test:
//
//	c := cluster.ForTest(t, cluster.Options{})
//	client := kubernetes.NewForConfigOrDie(c.Config())
//	c.APIServer.Kill()                                   // signal 9; Suspend, Resume, Terminate, Restart likewise
//	if err := c.APIServer.Start(t.Context()); err != nil { … }
//
// A scheduler, or any other program, is a Process too: NewProcess.
package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/test/e2e/binaries"
)

// Options say what cluster is wanted. The zero value is a cluster with PodGroups of scheduling.x-k8s.io and with the
// default feature gates, which lack PodGroups of scheduling.k8s.io.
type Options struct {
	// Dir is the place where the cluster keeps its files. Empty: a temporary folder, which Stop removes.
	Dir string
	// GenericWorkload turns on the feature gate of that name and scheduling.k8s.io/v1beta1: PodGroups of the API
	// server's own, and spec.schedulingGroup of pods.
	GenericWorkload bool
	// WithoutCRD leaves the CustomResourceDefinition of scheduling.x-k8s.io out; Cluster.InstallCRD brings it later.
	WithoutCRD bool
	// ControllerManager starts kube-controller-manager, with its leader election off.
	ControllerManager bool
	// FeatureGates and RuntimeConfig are added to the API server's flags of these names.
	FeatureGates, RuntimeConfig map[string]bool
	// APIServer is the program of the API server; empty: binaries.APIServer, of Kubernetes 1.37.
	APIServer string
	// APIServerArgs are added at the end of its command line.
	APIServerArgs []string
	// CheapAudit logs less (see AuditLog): for measurements.
	CheapAudit bool
}

// Cluster is a cluster that was started.
type Cluster struct {
	// Etcd, APIServer and ControllerManager are its processes; ControllerManager is nil if it was not asked for.
	Etcd, APIServer, ControllerManager *Process

	dir       string
	temporary bool
	options   Options
	authority *authority
	admin     Identity
	// ports of the servers; they stay over restarts, so that clients find them again.
	etcdPort, peerPort, apiPort int
	// health asks the API server whether it is ready.
	health *http.Client
}

// Start builds the programs if they are not there, and starts a cluster. Stop ends it.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{dir: o.Dir, options: o}
	if c.dir == "" {
		c.temporary = true
		if c.dir, err = os.MkdirTemp("", "rollcall-e2e-"); err != nil {
			return nil, fmt.Errorf("make the cluster's folder: %w", err)
		}
	} else if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, fmt.Errorf("find the cluster's folder: %w", err)
	} else if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.startServers(ctx); err != nil {
		return nil, err
	}
	if !o.WithoutCRD {
		if err := c.InstallCRD(ctx); err != nil {
			return nil, err
		}
	}
	if c.ControllerManager != nil {
		return c, c.ControllerManager.Start(ctx)
	}
	return c, nil
}

// ForTest starts a cluster for a test, and ends it with the test. If the test has failed, the ends of the servers'
// outputs are in its log.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of %s:\n%s", c.APIServer.Output, c.APIServer.Tail(15))
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// prepare writes what the servers read, and makes up their command lines.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if err := c.writeCredentials(); err != nil {
		return err
	}
	if c.admin, err = c.authority.sign("admin", []string{"system:masters"}); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(c.admin.Cert, c.admin.Key)
	if err != nil {
		return fmt.Errorf("read the admin's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.authority.cert)
	c.health = &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots},
		DisableKeepAlives: true,
	}}
	policy := auditPolicy
	if c.options.CheapAudit {
		policy = auditCheapPolicy
	}
	if err := os.WriteFile(c.path("audit-policy.yaml"), []byte(policy), 0o644); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	var paths [3]string
	for i, name := range []string{binaries.Etcd, c.options.apiServer(), binaries.ControllerManager} {
		if name == binaries.ControllerManager && !c.options.ControllerManager {
			continue
		}
		if paths[i], err = binaries.Path(ctx, name); err != nil {
			return err
		}
	}
	return c.prepareServers(paths[0], paths[1], paths[2])
}

func (o Options) apiServer() string {
	if o.APIServer == "" {
		return binaries.APIServer
	}
	return o.APIServer
}

// prepareServers chooses ports and makes the processes, which are not started yet.
func (c *Cluster) prepareServers(etcd, apiServer, controllerManager string) error {
	for _, port := range []*int{&c.etcdPort, &c.peerPort, &c.apiPort} {
		var err error
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	c.Etcd = NewProcess("etcd", c.path("etcd.log"), append([]string{etcd}, c.etcdArgs()...), nil, c.etcdReady)
	c.prepareAPIServer(apiServer)
	if err := c.writeKubeconfig(c.Kubeconfig(), "", "admin", []string{"system:masters"}); err != nil {
		return err
	}
	if controllerManager == "" {
		return nil
	}
	kubeconfig, err := c.KubeconfigFor("", "system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	c.ControllerManager = NewProcess("kube-controller-manager", c.path("kube-controller-manager.log"),
		append([]string{controllerManager}, c.controllerManagerArgs(kubeconfig)...), nil, nil)
	return nil
}

func (c *Cluster) prepareAPIServer(program string) {
	c.APIServer = NewProcess("kube-apiserver", c.path("kube-apiserver.log"),
		append([]string{program}, c.apiServerArgs()...), nil, c.apiServerReady)
}

// ReplaceAPIServer ends the API server, and starts the one that o wants in its place, such as one of another release.
// The options of the other servers stay as they are.
func (c *Cluster) ReplaceAPIServer(ctx context.Context, o Options) error {
	program, err := binaries.Path(ctx, o.apiServer())
	if err != nil {
		return err
	}
	o.Dir, o.ControllerManager, o.CheapAudit = c.options.Dir, c.options.ControllerManager, c.options.CheapAudit
	c.options = o
	c.APIServer.Kill()
	c.prepareAPIServer(program)
	return c.APIServer.Start(ctx)
}

// startServers starts etcd and the API server. A port that another program took in between is given up for others.
func (c *Cluster) startServers(ctx context.Context) error {
	for try := 0; ; try++ {
		err := c.Etcd.Start(ctx)
		if err == nil {
			err = c.APIServer.Start(ctx)
		}
		if err == nil || try == 3 || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
		c.APIServer.Kill()
		c.Etcd.Kill()
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return fmt.Errorf("begin again on other ports: %w", err)
		}
		var manager string
		if c.ControllerManager != nil {
			manager = c.ControllerManager.Command()[0]
		}
		if err := c.prepareServers(c.Etcd.Command()[0], c.APIServer.Command()[0], manager); err != nil {
			return err
		}
	}
}

// freePort returns a port that nobody listens at. It is below the range from which the system takes ports for
// outgoing connections, so that a server finds its port free after a restart.
func freePort() (int, error) {
	for range 100 {
		port := 18000 + rand.IntN(14000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("found no free port on 127.0.0.1 among a hundred from 18000 to 32000")
}

func (c *Cluster) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.etcdPort) }

func (c *Cluster) etcdArgs() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.peerPort)
	return []string{
		"--data-dir=" + c.path("etcd"), "--name=e2e", "--log-level=warn",
		"--listen-client-urls=" + c.etcdURL(), "--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=e2e=" + peer,
	}
}

// apiServerArgs are the flags of kube-apiserver. Its audit log is written before a request ends.
func (c *Cluster) apiServerArgs() []string {
	gates, apis := map[string]bool{}, map[string]bool{}
	if c.options.GenericWorkload {
		gates["GenericWorkload"] = true
		apis["scheduling.k8s.io/v1beta1"] = true
	}
	args := []string{
		"--etcd-servers=" + c.etcdURL(), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.apiPort),
		"--external-hostname=localhost",
		"--tls-cert-file=" + c.path("server.crt"), "--tls-private-key-file=" + c.path("server.key"),
		"--client-ca-file=" + c.path("ca.crt"), "--authorization-mode=RBAC", "--anonymous-auth=false",
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("accounts.key"),
		"--service-account-signing-key-file=" + c.path("accounts.key"),
		"--audit-policy-file=" + c.path("audit-policy.yaml"), "--audit-log-path=" + c.AuditLog(),
		"--audit-log-mode=blocking", "--audit-log-maxsize=100000", "--endpoint-reconciler-type=none",
		"--event-ttl=1h", "--profiling=false", "--shutdown-delay-duration=0s",
	}
	if !c.options.ControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	args = append(args, switches("--feature-gates=", gates, c.options.FeatureGates)...)
	args = append(args, switches("--runtime-config=", apis, c.options.RuntimeConfig)...)
	return append(args, c.options.APIServerArgs...)
}

func (c *Cluster) controllerManagerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + c.path("accounts.key"), "--root-ca-file=" + c.path("ca.crt"),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}
}

// switches is a flag of the form name=true,name=false; none if there is nothing to switch.
func switches(flag string, sets ...map[string]bool) []string {
	all := map[string]bool{}
	for _, s := range sets {
		for k, v := range s {
			all[k] = v
		}
	}
	var words []string
	for k, v := range all {
		words = append(words, fmt.Sprintf("%s=%v", k, v))
	}
	if len(words) == 0 {
		return nil
	}
	slices.Sort(words)
	return []string{flag + strings.Join(words, ",")}
}

func (c *Cluster) etcdReady(ctx context.Context) error {
	return get(ctx, http.DefaultClient, c.etcdURL()+"/health")
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	return get(ctx, c.health, c.URL()+"/readyz")
}

// get asks for a page and wants the answer 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, resp.Status, strings.ReplaceAll(string(text), "\n", " "))
	}
	return err
}

// URL is the place where the API server listens.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.apiPort) }

// Dir is the folder of the cluster's files: outputs of its processes, etcd's data, the audit log, credentials.
func (c *Cluster) Dir() string { return c.dir }

// AuditLog is the file of the API server's audit log, a JSON object a line (audit.k8s.io/v1 Event). It has whole
// requests and answers for changes of pods, their binds and evictions, nodes and PodGroups, and the users of other
// requests; with Options.CheapAudit only the users.
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// Config is the configuration for a client in this process, with all permissions and without a limit of requests.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host: c.URL(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem, CertData: c.admin.Cert, KeyData: c.admin.Key},
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
	}
}

// InstallCRD brings PodGroups of scheduling.x-k8s.io, and waits until the API server serves them.
func (c *Cluster) InstallCRD(ctx context.Context) error {
	module, err := binaries.ModuleDir()
	if err != nil {
		return err
	}
	file := filepath.Join(module, "..", "..", "deploy", "crd", "podgroups.scheduling.x-k8s.io.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("install the PodGroups of scheduling.x-k8s.io: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		return fmt.Errorf("install the PodGroups of scheduling.x-k8s.io: %w", err)
	}
	config := rest.CopyConfig(c.Config())
	config.ContentConfig = rest.ContentConfig{}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install the PodGroups of scheduling.x-k8s.io: %w", err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install the PodGroups of scheduling.x-k8s.io: %w", err)
	}
	page := c.URL() + "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
	for {
		err := get(ctx, c.health, page)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the PodGroups of scheduling.x-k8s.io: %w (%w)", err, ctx.Err())
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Metrics returns the API server's metrics, in the text form of Prometheus.
func (c *Cluster) Metrics(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := c.health.Do(req)
	if err != nil {
		return "", fmt.Errorf("read the API server's metrics: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read the API server's metrics: %s %w", resp.Status, err)
	}
	return string(text), nil
}

// Stop kills the servers. The files go too if they are in a temporary folder.
func (c *Cluster) Stop() error {
	for _, p := range []*Process{c.ControllerManager, c.APIServer, c.Etcd} {
		if p != nil {
			p.Kill()
		}
	}
	if !c.temporary {
		return nil
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the cluster's folder: %w", err)
	}
	return nil
}
