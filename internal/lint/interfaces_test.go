package lint

import (
	"slices"
	"testing"
)

func TestAnAssertionToAnInterfaceWithoutANameIsReported(t *testing.T) {
	module := parseModule(t, `
-- queue/a.go --
package queue
type named interface{ M() }
func f(x any) {
	_, _ = x.(interface{ M() })
	_, _ = x.(named)
	_, _ = x.(interface{})
	_, _ = x.(*int)
	switch x.(type) {
	case named:
	case string, interface{ N() }:
	}
}
-- queue/a_test.go --
package queue
func g(x any) { _, _ = x.(interface{ M() }) }
`)
	got := places(checkInterfaces(module))
	if want := []string{"queue/a.go:4: unnamed-interface", "queue/a.go:10: unnamed-interface"}; !slices.Equal(got,
		want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
