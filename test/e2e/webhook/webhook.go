// Package webhook is an admission webhook that refuses what a test says. It serves on the loopback interface, and the
// API server asks it about binds, about the statuses of pods and PodGroups, and about deletions of pods.
//
//	webhook.ForTest(t, c, func(r webhook.Request) *metav1.Status {
//		if r.Resource == "pods/binding" && r.User == "scheduler" {
//			return webhook.Refusal(http.StatusForbidden)
//		}
//		return nil
//	})
package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
)

// Request is a question of the API server.
type Request struct {
	// User is the user who made the request.
	User string
	// Operation is CREATE, UPDATE or DELETE.
	Operation admissionv1.Operation
	// Resource has the subresource with it: "pods/binding".
	Resource, Namespace, Name string
}

// NoAnswer has the webhook break the connection: the API server answers 500, as it does when a webhook is down that
// must not be skipped.
var NoAnswer = &metav1.Status{}

// Refusal is a refusal with a code, as an administrator may have chosen it.
func Refusal(code int32) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "planted by the webhook"}
}

// Server is a webhook that was started.
type Server struct {
	server *http.Server
	judge  func(Request) *metav1.Status

	mu      sync.Mutex
	refused map[string]int
}

// probe is the pod with which Start checks that the API server calls the webhook.
const probe = "webhook-probe"

// Start starts a webhook, registers it, and returns when the API server asks it. judge returns the refusal, nil for
// none; it is called by several goroutines.
func Start(ctx context.Context, c *cluster.Cluster, judge func(Request) *metav1.Status) (*Server, error) {
	id, err := c.Identity("webhook")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		return nil, fmt.Errorf("start the webhook: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the webhook: %w", err)
	}
	s := &Server{judge: judge, refused: map[string]int{}}
	s.server = &http.Server{
		Handler: s, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = s.server.ServeTLS(listener, "", "") }()
	client, err := kubernetes.NewForConfig(c.Config())
	if err == nil {
		err = register(ctx, client, "https://"+listener.Addr().String()+"/", c.Config().CAData)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register the webhook: %w", err), s.Close())
	}
	return s, nil
}

// ForTest starts a webhook for a test, and ends it with the test.
func ForTest(t testing.TB, c *cluster.Cluster, judge func(Request) *metav1.Status) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, c, judge)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Logf("refused: %v", s.Refused())
		_ = s.Close()
	})
	return s
}

// Close ends the webhook. The API server then refuses what it would ask the webhook about.
func (s *Server) Close() error { return s.server.Close() }

// Refused is the number of times that requests were refused, by operation and resource, such as "CREATE pods/binding".
func (s *Server) Refused() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]int{}
	for k, n := range s.refused {
		counts[k] = n
	}
	return counts
}

// register has the API server ask the webhook, and waits until it does so.
func register(ctx context.Context, client kubernetes.Interface, url string, authority []byte) error {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: probe}}
	pod.Spec.SchedulerName, pod.Spec.Containers = "nobody", []v1.Container{{Name: "c", Image: "i"}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	none, fail, seconds := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, int32(10)
	rule := func(group, version, resource string, operations ...admissionregistrationv1.OperationType,
	) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
			},
		}
	}
	const create, update, remove = admissionregistrationv1.Create, admissionregistrationv1.Update,
		admissionregistrationv1.Delete
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "e2e.rollcall.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule("", "v1", "pods/binding", create), rule("", "v1", "pods/status", update),
				rule("", "v1", "pods", remove), rule("scheduling.k8s.io", "*", "podgroups/status", update),
				rule("scheduling.x-k8s.io", "*", "podgroups/status", update),
			},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds,
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, config,
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for {
		err := pods.Delete(ctx, probe, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			return nil // it is asked: it refuses this always
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not ask it: %w (%v)", ctx.Err(), err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// ServeHTTP answers an AdmissionReview.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("this is no AdmissionReview: %v", err), http.StatusBadRequest)
		return
	}
	asked := review.Request
	request := Request{
		User: asked.UserInfo.Username, Operation: asked.Operation, Resource: asked.Resource.Resource,
		Namespace: asked.Namespace, Name: asked.Name,
	}
	if asked.SubResource != "" {
		request.Resource += "/" + asked.SubResource
	}
	var refusal *metav1.Status
	if request.Name == probe {
		refusal = Refusal(http.StatusForbidden)
	} else if refusal = s.judge(request); refusal != nil {
		s.mu.Lock()
		s.refused[string(request.Operation)+" "+request.Resource]++
		s.mu.Unlock()
	}
	if refusal == NoAnswer {
		panic(http.ErrAbortHandler)
	}
	review.Response = &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: refusal == nil, Result: refusal}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
