package framework

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The keys of memos have a bounded length and still differ between pods.
func TestKeysOfMemosAreShortAndDiffer(t *testing.T) {
	m, seen := &classes{}, map[string]string{}
	long := strings.Repeat("x", 300<<10)
	for _, namespace := range []string{"a", "b"} {
		for _, claims := range []string{"", "gpu", long, long + "y", "y" + long} {
			for _, host := range []string{"", "h", long} {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: v1.PodSpec{Hostname: host}}
				key, err := m.encode(pod, &pod.Spec, []byte(claims))
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("namespace %s, %d bytes of claims, a name of %d", namespace, len(claims), len(host))
				if len(key) > maxKey {
					t.Errorf("%s: the key has %d bytes", what, len(key))
				}
				if other, ok := seen[string(key)]; ok && other != what {
					t.Errorf("%s: the key is that of %s", what, other)
				}
				seen[string(key)] = what
			}
		}
	}
	if len(seen) != 2*5*3 {
		t.Errorf("%d keys of 30 pods", len(seen))
	}
}
