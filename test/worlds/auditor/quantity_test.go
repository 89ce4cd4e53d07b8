package auditor

import (
	"encoding/json"
	"math/big"
	"testing"
)

func TestQuantitiesAreReadExactly(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "100m": "1/10", "1500m": "3/2", "0.5": "1/2", ".5": "1/2", "1.": "1", "-2": "-2", "2e3": "2000",
		"2E3":  "2000",
		"5e-1": "1/2", "3k": "3000", "1Ki": "1024", "1.5Gi": "1610612736", "6Gi": "6442450944", "3G": "3000000000",
		"1u": "1/1000000", "7n": "7/1000000000", "1E": "1000000000000000000", "1Ei": "1152921504606846976",
	} {
		got, err := parseQuantity(text)
		if err != nil || got.RatString() != want {
			t.Errorf("%q is read as %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "one", "1Kb", "1..2", "0x10p", "1e"} {
		if got, err := parseQuantity(text); err == nil {
			t.Errorf("%q is read as %s; want an error", text, got.RatString())
		}
	}
}

func TestRequestsCountInitContainersSidecarsAndOverhead(t *testing.T) {
	var spec podSpec
	const text = `{
		"containers": [
			{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
			{"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "example.com/gpu": 1}}}
		],
		"initContainers": [
			{"resources": {"requests": {"cpu": "3"}}},
			{"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
			{"resources": {"requests": {"cpu": "100m", "memory": "4Gi"}}}
		],
		"overhead": {"cpu": "100m"}
	}`
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	got := requestsOf(&spec)
	// cpu: 1 + 0.5 + 0.25 of the sidecar; more at first, 3 of the init container before it; and 0.1 of overhead
	for resource, want := range map[string]*big.Rat{
		"cpu": big.NewRat(31, 10), "memory": big.NewRat(4<<30, 1), "example.com/gpu": big.NewRat(1, 1),
	} {
		if got.of(resource).Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", resource, got.of(resource).RatString(), want.RatString())
		}
	}
}
