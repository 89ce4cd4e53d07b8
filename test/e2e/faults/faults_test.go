package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rollcall-sched/rollcall/test/e2e/cluster"
	"github.com/rollcall-sched/rollcall/test/e2e/faults"
)

// clients are one that goes through a proxy and one that does not.
func clients(t *testing.T, c *cluster.Cluster, rules ...faults.Rule) (broken, whole kubernetes.Interface) {
	t.Helper()
	p := faults.ForTest(t, c, faults.Options{Rules: rules})
	file, err := c.KubeconfigFor(p.URL(), "anybody")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(c.Config())
}

// TestAFaultOfABindIsWhatItsNameSays binds a pod for each fault, and looks at the error and at the pod.
func TestAFaultOfABindIsWhatItsNameSays(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{})
	for i, f := range append(faults.BindFaults(), faults.FalseSuccess) {
		t.Run(string(f), func(t *testing.T) {
			rule := faults.Rule{Kind: faults.Binds, Fault: f, Probability: 1, Delay: time.Millisecond, Most: 1}
			broken, whole := clients(t, c, rule)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			name := fmt.Sprintf("p%d", i)
			p, err := whole.CoreV1().Pods("default").Create(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = broken.CoreV1().Pods("default").Bind(ctx, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: p.UID},
				Target:     v1.ObjectReference{Kind: "Node", Name: "n"},
			}, metav1.CreateOptions{})
			code := 0
			if s := apierrors.APIStatus(nil); err == nil {
				code = 201
			} else if s, _ = err.(apierrors.APIStatus); s != nil {
				code = int(s.Status().Code)
			}
			want, done := 0, strings.HasPrefix(string(f), "done")
			if _, err := fmt.Sscanf(string(f)[strings.Index(string(f), ",")+1:], " answered %d", &want); err != nil &&
				(f == faults.Late || f == faults.Slow) {
				want = 201
			}
			// client-go itself asks again after 429, and the second one is no fault.
			if f == faults.Lost429 {
				want, done = 201, true
			}
			if code != want {
				t.Errorf("the bind was answered with %d: %v", code, err)
			}
			p, err = whole.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil || (p.Spec.NodeName == "n") != done {
				t.Errorf("the pod is on node %q: %v", p.Spec.NodeName, err)
			}
		})
	}
}

// TestFaultsOfWatches watches through the proxy.
func TestFaultsOfWatches(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{})
	whole := kubernetes.NewForConfigOrDie(c.Config())
	watchAll := func(t *testing.T, f faults.Fault, d time.Duration) (watch.Interface, error) {
		broken, _ := clients(t, c, faults.Rule{
			Kind: faults.Watches, Fault: f, Probability: 1, Delay: d, Life: 2 * time.Second,
		})
		return broken.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	}
	t.Run("closed", func(t *testing.T) {
		w, err := watchAll(t, faults.WatchClosed, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		for range w.ResultChan() {
		}
	})
	t.Run("expired", func(t *testing.T) {
		if _, err := watchAll(t, faults.Watch410, 0); !apierrors.IsResourceExpired(err) {
			t.Errorf("the watch was answered %v", err)
		}
	})
	t.Run("late", func(t *testing.T) {
		const delay = 500 * time.Millisecond
		w, err := watchAll(t, faults.WatchLate, delay)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		made := time.Now()
		for _, name := range []string{"one", "two"} {
			if _, err := whole.CoreV1().ConfigMaps("default").Create(t.Context(),
				&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for e := range w.ResultChan() {
			m := e.Object.(*v1.ConfigMap)
			if m.Name == "one" && time.Since(made) < delay {
				t.Errorf("it came after %v", time.Since(made))
			}
			names = append(names, m.Name)
		} // until its life ends
		if got := strings.Join(names, " "); !strings.HasSuffix(got, "one two") {
			t.Errorf("the watch has told of %s", got)
		}
	})
}

// TestFaultsDependOnTheSeedAndNotOnTheOrder has the same requests asked for in two orders.
func TestFaultsDependOnTheSeedAndNotOnTheOrder(t *testing.T) {
	const n = 200
	chosen := func(seed uint64, backwards bool) string {
		d := faults.NewDice(seed, []faults.Rule{{Kind: faults.Binds, Fault: faults.Lost409, Probability: 0.2}})
		hit := make([]byte, n)
		for k := range n {
			i := k
			if backwards {
				i = n - 1 - k
			}
			hit[i] = '.'
			if _, ok := d.Roll(faults.Binds, fmt.Sprintf("POST /api/v1/namespaces/d/pods/p%d/binding", i)); ok {
				hit[i] = 'x'
			}
		}
		return string(hit)
	}
	one := chosen(1, false)
	if hits := strings.Count(one, "x"); hits < n/10 || hits > n*3/10 {
		t.Errorf("of %d requests %d met a fault of probability 0.2: %s", n, hits, one)
	}
	if chosen(1, true) != one {
		t.Error("another order chose other requests")
	}
	if chosen(2, false) == one {
		t.Error("another seed chose the same requests")
	}
}
