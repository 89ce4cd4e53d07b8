package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// A cluster answers as an API server does whose only pod is a scheduler's: its list, and commands in it.
type cluster struct {
	t *testing.T
	// ran are the commands that were run in the pod.
	ran [][]string
	// stdout, stderr and code are a command's output and exit code.
	stdout, stderr string
	code           int
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/v1/pods", "/api/v1/namespaces/rollcall-system/pods":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{schedulerPod()}})
	case "/api/v1/namespaces/rollcall-system/pods/rollcall-0/exec":
		c.exec(w, r)
	default:
		http.NotFound(w, r)
	}
}

func schedulerPod() corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rollcall-system", Name: "rollcall-0"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "rollcall", Args: []string{"run", "--log=/var/lib/rollcall/log"}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "rollcall", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

// exec speaks the protocol of commands in containers: a web socket with a channel each for the command's outputs, and
// one for how it ended.
func (c *cluster) exec(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("container") != "rollcall" || q.Get("stdout") != "true" || q.Get("stderr") != "true" {
		c.t.Errorf("exec with %v", q)
	}
	c.ran = append(c.ran, q["command"])
	channels := []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel,
		wsstream.WriteChannel, wsstream.ReadChannel}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		"v5.channel.k8s.io": {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(streams[1], c.stdout)
	_, _ = io.WriteString(streams[2], c.stderr)
	status := metav1.Status{Status: metav1.StatusSuccess}
	if c.code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: "ExitCode", Message: fmt.Sprint(c.code)}}}}
	}
	_ = json.NewEncoder(streams[3]).Encode(status)
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the server's side says that clients have gone
	os.Exit(m.Run())
}

// run runs the plugin against the cluster.
func (c *cluster) run(args ...string) (stdout, stderr string, err error) {
	return runAgainst(c.t, c, args...)
}

// runAgainst runs the plugin against an API server.
func runAgainst(t *testing.T, api http.Handler, args ...string) (stdout, stderr string, err error) {
	server := httptest.NewServer(api)
	defer server.Close()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"--server", server.URL}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestCommandsRunOnTheSchedulersLog(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, test := range []struct{ given, want string }{
		{"explain pod default/a --at 14:03 -o json", "explain LOG pod default/a --at 14:03 -o json"},
		{"explain --help", "explain LOG --help"},
		{"events --from 12", "events LOG --from 12"},
		{"get pending -o json", "get LOG pending -o json"},
		{"report --by node", "report LOG --by node"},
		{"plot --from -2h", "plot LOG --from -2h"},
		{"log cat", "log cat LOG"},
		{"log info -o json", "log info LOG -o json"},
		{"log verify", "log verify LOG"},
		{"-n rollcall-system log verify", "log verify LOG"},
		{"log export --help", "log export LOG --help"},
		{"log export --out - --from -2h", "log export LOG --from -2h --out -"},
	} {
		c := &cluster{t: t, stdout: "an answer\n", stderr: "a note\n"}
		stdout, stderr, err := c.run(strings.Fields(test.given)...)
		said := "kubectl rollcall: asking rollcall-system/rollcall-0\n" + c.stderr
		if strings.HasPrefix(test.given, "-n ") {
			said = c.stderr // where it is was given
		}
		if err != nil || stdout != c.stdout || stderr != said {
			t.Errorf("%s: %q, %q, %v", test.given, stdout, stderr, err)
		}
		want := append([]string{"rollcall"},
			strings.Fields(strings.ReplaceAll(test.want, "LOG", "/var/lib/rollcall/log"))...)
		if len(c.ran) != 1 || !slices.Equal(c.ran[0], want) {
			t.Errorf("%s ran %q: want %q", test.given, c.ran, want)
		}
	}
}

func TestTheExitCodeIsThatOfTheCommand(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	c := &cluster{t: t, stderr: "rollcall: the log is damaged\n", code: 4}
	_, stderr, err := c.run("-n", "rollcall-system", "log", "verify")
	var code exitError
	if !errors.As(err, &code) || code != 4 || stderr != c.stderr {
		t.Fatalf("%q, %v", stderr, err)
	}
}

func TestAnExportIsAFileOnThisSideWhenItIsWhole(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	file := filepath.Join(dir, "incident.bundle")
	content := strings.Repeat("\x00\x01 bytes of a bundle", 10_000)
	c := &cluster{t: t, stdout: content[:70], stderr: "rollcall: damaged\n", code: 4}
	var code exitError
	if _, _, err := c.run("log", "export", "--out", file); !errors.As(err, &code) || code != 4 {
		t.Fatalf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Fatalf("an export that failed left %v, %v", left, err)
	}
	c = &cluster{t: t, stdout: content, stderr: "file      standard output, 9 bytes\n"}
	stdout, _, err := c.run("log", "export", "--from=14:03", "--out="+file)
	if err != nil || stdout != "written to "+file+"\n" {
		t.Fatalf("%q, %v", stdout, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != content {
		t.Fatalf("the file has %d bytes, %v: want %d", len(got), err, len(content))
	}
	if _, _, err := c.run("log", "export", "--out", file); err == nil || !strings.Contains(err.Error(), "already") {
		t.Fatalf("a file that is there: %v", err)
	}
}

func TestBadUsageNamesWhatIsWrong(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for given, want := range map[string]string{
		"explian pod a/b":      `unknown command "explian"`,
		"log archive":          `unknown command "archive" of log`,
		"log export --from 12": "--out is needed",
		"--pods x explain":     "unknown flag: --pods",
	} {
		c := &cluster{t: t}
		_, _, err := c.run(strings.Fields(given)...)
		if !isUsage(err) || !strings.Contains(err.Error(), want) || len(c.ran) > 0 {
			t.Errorf("%s: %v, ran %q", given, err, c.ran)
		}
	}
}

func TestTheHelpIsThatOfAPlugin(t *testing.T) {
	c := &cluster{t: t}
	stdout, _, err := c.run("--help")
	if err != nil || !strings.Contains(stdout, "\n  kubectl rollcall [command]\n") ||
		strings.Contains(stdout, "rollcall rollcall") {
		t.Fatalf("%v: %s", err, stdout)
	}
}

func TestWithoutAClusterItIsSaidHowToNameOne(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	root := newRoot()
	root.SetArgs([]string{"explain", "pod", "default/a"})
	err := root.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "name a kubeconfig file with --kubeconfig") {
		t.Fatalf("error %v", err)
	}
}

func TestTheHelpFitsEightyColumns(t *testing.T) {
	for _, words := range [][]string{{"--help"}, {"log", "--help"}} {
		c := &cluster{t: t}
		stdout, _, err := c.run(words...)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(stdout, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%v has a line of %d columns: %q", words, n, line)
			}
		}
	}
}
