package throughput

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatioIsOfTheSameRounds(t *testing.T) {
	for _, c := range []struct {
		name                    string
		values, other           []float64
		median, lowest, highest float64
	}{
		{"nothing", nil, nil, 0, 0, 0},
		{"one round", []float64{6}, []float64{3}, 2, 2, 2},
		{"an even number", []float64{2, 8}, []float64{2, 2}, 2.5, 1, 4},
		{"an odd number", []float64{9, 2, 5}, []float64{3, 2, 1}, 3, 1, 5},
		{"a round without the other's", []float64{9, 2, 5}, []float64{3, 0, 1}, 4, 3, 5},
		{"only rounds without", []float64{9}, []float64{0}, 0, 0, 0},
		{"a round that has not come", []float64{9, 2}, []float64{3}, 3, 3, 3},
	} {
		median, lowest, highest := Ratio(c.values, c.other)
		if median != c.median || lowest != c.lowest || highest != c.highest {
			t.Errorf("%s: %g (%g to %g), want %g (%g to %g)", c.name, median, lowest, highest, c.median, c.lowest,
				c.highest)
		}
	}
}

func TestARunApartIsDecodedAndItsComplaintKept(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rollcall")
	script := "#!/bin/sh\n[ \"$2\" = --bad ] && { echo no such flag >&2; exit 2; }\n" +
		"[ \"$2\" = --text ] && { echo rate 5; exit; }\necho \"{\\\"workload\\\": \\\"$*\\\"}\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := Apart(context.Background(), program, []string{"--nodes=7"}, &r); err != nil {
		t.Fatal(err)
	}
	if want := "bench --nodes=7 -o json"; r.Text != want {
		t.Errorf("it was run as %q, want %q", r.Text, want)
	}
	err := Apart(context.Background(), program, []string{"--bad"}, &r)
	if err == nil || !strings.Contains(err.Error(), "exit status 2: no such flag") {
		t.Errorf("a run that fails: %v", err)
	}
	err = Apart(context.Background(), program, []string{"--text"}, &r)
	if err == nil || !strings.Contains(err.Error(), "the output of "+program+" bench is no result as JSON") {
		t.Errorf("a run that prints no JSON: %v", err)
	}
}
