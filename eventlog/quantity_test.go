package eventlog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// TestTheLimitsOfAQuantitysText looks at texts at both sides of each limit, by themselves and in an object. None of
// them is parsed.
func TestTheLimitsOfAQuantitysText(t *testing.T) {
	for text, good := range map[string]bool{
		"1e999":                         true,
		"1e9999":                        false,
		"1E999":                         true,
		"1E9999":                        false,
		"1e+999":                        true,
		"1e+9999":                       false,
		"1e-999":                        true,
		"1e-9999":                       false,
		"1E-9999":                       false,
		"1e0000":                        false,
		"1e1000":                        false,
		"e9999":                         false,
		"12E":                           true,
		"1e":                            true,
		"9999999999":                    true,
		strings.Repeat("9", 256):        true,
		strings.Repeat("9", 257):        false,
		strings.Repeat("x", 257):        false,
		strings.Repeat("1", 250) + "e9": true,
	} {
		if err := eventlog.CheckQuantityText(text); (err == nil) != good {
			t.Errorf("%.20s (%d bytes): %v, want it to be taken: %t", text, len(text), err, good)
		}
		object := `{"status":{"allocatable":{"cpu":"` + text + `"}}}`
		var bad *eventlog.QuantityError
		if err := eventlog.CheckQuantities([]byte(object)); errors.As(err, &bad) == good {
			t.Errorf("%.60s: %v, want it to be taken: %t", object, err, good)
		}
	}
}

// TestQuantitiesAreFoundWhereverTheyStandInAnObject names the place of the costly one.
func TestQuantitiesAreFoundWhereverTheyStandInAnObject(t *testing.T) {
	const bad = `"1e99999"`
	for object, path := range map[string]string{
		`{"status":{"capacity":{"cpu":"1","x/y":` + bad + `}}}`:                 "status.capacity.x/y",
		`{"status":{"capacity":{"cpu":1e99999}}}`:                               "status.capacity.cpu",
		`{"STATUS":{"CAPACITY":{"cpu":` + bad + `}}}`:                           "STATUS.CAPACITY.cpu",
		`{"spec":{"resources":{"requests":{"storage":` + bad + `}}}}`:           "spec.resources.requests.storage",
		`{"spec":{"minResources":{"cpu":` + bad + `}}}`:                         "spec.minResources.cpu",
		`{"metadata":{"name":"a"},"status":{"capacity":[{"a":[` + bad + `]}]}}`: "status.capacity[0].a[0]",
		`{"spec":{"volumes":[{"name":"v"},{"emptyDir":{"sizeLimit":` + bad + `}}]}}`: "spec.volumes[1].emptyDir." +
			"sizeLimit",
		`{"status":{"capacity":{"cpu":" 1` + strings.Repeat("0", 255) + ` "}}}`:    "",
		`{"status":{"capacity":{"cpu":"1` + strings.Repeat(`\u0030`, 300) + `"}}}`: "status.capacity.cpu",
		`{"metadata":{"annotations":{"x":"` + strings.Repeat("y", 300) + `"}}}`:    "",
		`{"metadata":{"annotations":{"cpu":` + bad + `}}}`:                         "",
		`{"status":{"capacity":{"cpu":"1e999999"`:                                  "status.capacity.cpu",
		`{"status":{"capacity":`:                                                   "",
		`{"status":{"capacity":[x,` + bad + `]}}`:                                  "",
	} {
		err := eventlog.CheckQuantities([]byte(object))
		var found *eventlog.QuantityError
		if errors.As(err, &found) != (path != "") || path != "" && found.Path != path || path == "" && err != nil {
			t.Errorf("%.80s: %v, want an error at %q", object, err, path)
		}
	}
}

// TestTextsThatAreCalledAsQuantitiesAreNotTakenForThem: a container's variables and the values of tolerations may be
// any text of any length.
func TestTextsThatAreCalledAsQuantitiesAreNotTakenForThem(t *testing.T) {
	const costly = `"1e99999"`
	for _, object := range []string{
		`{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"12e45678"}]}]}}`,
		`{"spec":{"containers":[{"env":[{"name":"CONFIG","value":"` + strings.Repeat("x", 300) + `"}]}]}}`,
		`{"spec":{"template":{"spec":{"initContainers":[{"env":[{"value":"echo\nhello 12345"}]}]}}}}`,
		`{"spec":{"tolerations":[{"key":"a","value":` + costly + `}]}}`,
		`{"spec":{"taints":[{"key":"a","value":` + costly + `}]}}`,
		`{"spec":{"devices":{"requests":[{"exactly":{"selectors":[{"cel":{"expression":` + costly + `}}]}}]}}}`,
	} {
		if err := eventlog.CheckQuantities([]byte(object)); err != nil {
			t.Errorf("%.80s: %v", object, err)
		}
	}
	for _, object := range []string{
		`{"spec":{"devices":[{"capacity":{"memory":{"value":` + costly + `}}}]}}`,
		`{"spec":{"devices":{"requests":[{"exactly":{"capacity":{"requests":{"memory":` + costly + `}}}}]}}}`,
		`{"spec":{"devices":[{"capacity":{"env":{"value":` + costly + `}}}]}}`,
		`{"spec":{"sharedCounters":[{"counters":{"a":{"value":` + costly + `}}}]}}`,
		`{"spec":{"containers":[{"env":[{"value":"a"}],"resources":{"requests":{"value":` + costly + `}}}]}}`,
	} {
		var bad *eventlog.QuantityError
		if err := eventlog.CheckQuantities([]byte(object)); !errors.As(err, &bad) {
			t.Errorf("%.80s: %v, want an error", object, err)
		}
	}
}
