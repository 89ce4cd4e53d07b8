package serving

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// served begins to serve on a port of its own, and returns how to ask.
func served(t *testing.T, e Endpoints) (get func(path string) (status int, body string)) {
	t.Helper()
	o := NewOptions()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Secure.Listener = listener
	configuration := &configv1.KubeSchedulerConfiguration{}
	configuration.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	e.Configuration = configuration
	s, err := o.Serve(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is made in memory
	}}
	return func(path string) (int, string) {
		t.Helper()
		answer, err := client.Get("https://" + s.Address().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

func TestHealthIsForEverybodyAndTheRestForThoseTheServerKnows(t *testing.T) {
	get := served(t, Endpoints{Profiling: true})
	for path, want := range map[string]int{ // any order
		"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusOK,
		"/metrics": http.StatusForbidden, "/configz": http.StatusForbidden, "/debug/pprof/heap": http.StatusForbidden,
	} {
		if status, body := get(path); status != want {
			t.Errorf("%s is answered %d, want %d: %s", path, status, want, body)
		}
	}
}

func TestACheckThatFailsIsToldByName(t *testing.T) {
	failing := func(name string) healthz.HealthChecker {
		return healthz.NamedCheck(name, func(*http.Request) error { return errors.New("not now") })
	}
	get := served(t, Endpoints{
		Alive: []healthz.HealthChecker{failing("breathing")}, Ready: []healthz.HealthChecker{failing("scheduling")},
	})
	for path, check := range map[string]string{ // any order
		"/healthz": "breathing", "/livez": "breathing", "/readyz": "scheduling",
	} {
		status, body := get(path)
		if status != http.StatusInternalServerError || !strings.Contains(body, "[-]"+check+" failed") {
			t.Errorf("%s is answered %d, want that %s failed: %s", path, status, check, body)
		}
	}
	// The static pod's probe: a standby serves, and does not schedule.
	if status, body := get("/readyz?exclude=scheduling"); status != http.StatusOK {
		t.Errorf("/readyz without that check is answered %d: %s", status, body)
	}
}

func TestNothingIsServedWithoutAPort(t *testing.T) {
	o := NewOptions()
	o.Secure.BindPort = 0
	if s, err := o.Serve(Endpoints{}); s != nil || err != nil {
		t.Errorf("served at port 0: %v, %v", s, err)
	}
}

// TestOptionsThatAreNotGivenAreNoErrors has the output of the library that applies them.
func TestOptionsThatAreNotGivenAreNoErrors(t *testing.T) {
	var output bytes.Buffer
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false",
		"stderrthreshold": "FATAL"} { // any order
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&output)
	defer klog.SetOutput(io.Discard)
	NewOptions().applyMetrics()
	klog.Flush()
	if output.Len() > 0 {
		t.Errorf("the output is %q", output.String())
	}
}
