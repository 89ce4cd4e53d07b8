package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	componentbaseconfig "k8s.io/component-base/config"
)

// TestTheConnectionIsAsConfigured reads each field of clientConnection, and the default of one that is not given.
func TestTheConnectionIsAsConfigured(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	err := os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"k"}}],
		"clusters":[{"name":"k","cluster":{"server":"https://of-the-file:1"}}]}`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c := componentbaseconfig.ClientConnectionConfiguration{Kubeconfig: kubeconfig, QPS: 5.5, Burst: 7}
	got, err := Config(c, "", "agent")
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://of-the-file:1" || got.QPS != 5.5 || got.Burst != 7 || got.ContentType != protobuf ||
		got.AcceptContentTypes != contentTypes || got.UserAgent == "" {
		t.Errorf("the connection is %+v", got)
	}
	c.ContentType, c.AcceptContentTypes = "application/json", "application/cbor"
	if got, err = Config(c, "https://given:2", "agent"); err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://given:2" || got.ContentType != c.ContentType ||
		got.AcceptContentTypes != c.AcceptContentTypes {
		t.Errorf("the connection is %+v", got)
	}
	c.Kubeconfig = kubeconfig + "-gone"
	if _, err := Config(c, "", "agent"); err == nil {
		t.Error("a kubeconfig that is not there is no error")
	}
}

// TestAllClientsTogetherKeepTheRate asks for as many requests as there are at once, by three clients.
func TestAllClientsTogetherKeepTheRate(t *testing.T) {
	config := Shared(&rest.Config{QPS: 0.001, Burst: 40})
	statuses, events := Part(config, 4), Part(config, 8)
	for _, c := range []struct {
		name   string
		config *rest.Config
		want   int
	}{{"statuses", statuses, 10}, {"events", events, 5}, {"binds", config, 25}, {"statuses again", statuses, 0}} {
		got := 0
		for c.config.RateLimiter.TryAccept() {
			got++
		}
		if got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
	if unlimited := Part(Shared(&rest.Config{QPS: -1}), 4); unlimited.RateLimiter != nil {
		t.Error("there is a limit where none is wanted")
	}
}

// TestAReadOnlyClientSendsNoChanges makes requests of each kind to a server, which gets the reading ones alone.
func TestAReadOnlyClientSendsNoChanges(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	}))
	defer server.Close()
	pods := kubernetes.NewForConfigOrDie(ReadOnly(&rest.Config{Host: server.URL})).CoreV1().Pods("ml")
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a list: %v", err)
	}
	_, created := pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
	deleted := pods.Delete(t.Context(), "a", metav1.DeleteOptions{})
	for what, err := range map[string]error{"create": created, "delete": deleted} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(got) != 1 {
		t.Errorf("the server got %q", got)
	}
}
