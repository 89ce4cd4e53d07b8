package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// bare answers as an API server of a cluster without Rollcall does. It has one node, three pods in pages of two, and an
// older version of PodDisruptionBudgets. The account may not list claims.
type bare struct {
	t        *testing.T
	noNodes  bool
	listings int
}

func barePod(name, node, cpu string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ml","uid":%q,"creationTimestamp":"2026-11-28T07:00:00Z"},
		"spec":{"schedulerName":"default-scheduler","nodeName":%q,"containers":[{"name":"c","image":"i",
		"resources":{"requests":{"cpu":%q}}}]},"status":{"phase":"Pending"}}`, name, "u-"+name, node, cpu)
}

func (b *bare) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	list := func(kind, meta string, items ...string) {
		b.listings++
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":%q,"metadata":{%s},"items":[%s]}`, kind, meta,
			strings.Join(items, ","))
	}
	refuse := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q,"message":"no"}`,
			code, reason)
	}
	switch q := r.URL.Query(); r.URL.Path {
	case "/api/v1/pods":
		switch {
		case q.Get("labelSelector") != "":
			list("PodList", "")
		case q.Get("continue") == "":
			list("PodList", `"continue":"more"`, barePod("runs", "n1", "3"), barePod("big", "", "8"))
		default:
			list("PodList", "", barePod("small", "", "500m"))
		}
	case "/api/v1/nodes":
		if b.noNodes {
			refuse(http.StatusForbidden, "Forbidden")
			return
		}
		list("NodeList", "", `{"metadata":{"name":"n1","uid":"u-n1","creationTimestamp":"2026-11-28T07:00:00Z"},
			"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}`)
	case "/api/v1/persistentvolumeclaims":
		refuse(http.StatusForbidden, "Forbidden")
	case "/apis/policy/v1beta1/poddisruptionbudgets":
		list("PodDisruptionBudgetList", "")
	case "/api/v1/namespaces", "/api/v1/services", "/api/v1/replicationcontrollers", "/api/v1/persistentvolumes":
		list("List", "")
	default:
		refuse(http.StatusNotFound, "NotFound")
	}
}

func (b *bare) run(args ...string) (stdout, stderr string, err error) {
	b.t.Setenv("KUBECONFIG", filepath.Join(b.t.TempDir(), "none"))
	return runAgainst(b.t, b, args...)
}

// TestWithoutRollcallInTheClusterADumpIsAsked asks about pods of a cluster that has no Rollcall.
func TestWithoutRollcallInTheClusterADumpIsAsked(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"explain pod ml/big", "Pod ml/big is pending: "},
		{"explain pod ml/small", "Pod ml/small is pending: a node would take it now"},
		{"explain pod ml/runs", "How good the node was is not known: it had its node when the log first had it"},
		{"get pending", "ml/big"},
		{"get nodes -o csv", "n1,"},
	} {
		b := &bare{t: t}
		stdout, stderr, err := b.run(strings.Fields(test.given)...)
		if err != nil || !strings.Contains(stdout, test.want) {
			t.Errorf("%s: %v, without %q:\n%s%s", test.given, err, test.want, stdout, stderr)
		}
		for _, want := range []string{"there is no Rollcall in the cluster: asking a dump of its objects, taken now",
			"the account may not list persistentvolumeclaims", "the API server has no replicasets.apps"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: stderr has no %q:\n%s", test.given, want, stderr)
			}
		}
		if strings.Contains(stderr, "poddisruptionbudgets") {
			t.Errorf("%s: the older version was not asked for:\n%s", test.given, stderr)
		}
	}
}

func TestADumpThatCannotBeTakenIsAnError(t *testing.T) {
	b := &bare{t: t, noNodes: true}
	stdout, stderr, err := b.run("explain", "pod", "ml/big")
	if err == nil || !strings.Contains(err.Error(), "list nodes: ") || stdout != "" {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
}

// TestTheExitCodeOfADumpIsTheCommands asks for a pod that is not there, with a flag that is not, and where a scheduler
// was named. Only the last one does not ask a dump.
func TestTheExitCodeOfADumpIsTheCommands(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"explain", "pod", "ml/nobody"}, 1},
		{[]string{"explain", "pod", "ml/big", "--colour"}, 2},
	} {
		b := &bare{t: t}
		_, stderr, err := b.run(test.args...)
		var code exitError
		if !errors.As(err, &code) || int(code) != test.code {
			t.Errorf("%q: %v\n%s", test.args, err, stderr)
		}
	}
	b := &bare{t: t}
	_, stderr, err := b.run("-n", "rollcall-system", "get", "pending")
	if err == nil || strings.Contains(stderr, "dump") {
		t.Errorf("a namespace was named: %v\n%s", err, stderr)
	}
}
