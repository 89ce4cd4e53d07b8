package throughput

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Apart runs "PROGRAM bench ARGS -o json" in a process of its own, so that no run inherits memory or a heap from
// another, and decodes its output into result. An error has the process's standard error.
func Apart(ctx context.Context, program string, args []string, result any) error {
	cmd := exec.CommandContext(ctx, program, slices.Concat([]string{"bench"}, args, []string{"-o", "json"})...)
	// It removes its log when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(complaint.String())
		return errors.Join(ctx.Err(), fmt.Errorf("%s bench: %w: %s", program, err, said))
	}
	if len(bytes.TrimSpace(out.Bytes())) == 0 {
		return fmt.Errorf("%s bench printed nothing, want its result as JSON: is it a rollcall program?", program)
	}
	if err := json.Unmarshal(out.Bytes(), result); err != nil {
		return fmt.Errorf("the output of %s bench is no result as JSON: is it a rollcall program? %w", program, err)
	}
	return nil
}

// Median returns the middle value, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Ratio compares two series of the same rounds: how many times the other one's value each value is. Rounds in which the
// other has none are left out. All three are 0 if no round is left.
func Ratio(values, other []float64) (median, lowest, highest float64) {
	var ratios []float64
	for i, v := range values[:min(len(values), len(other))] {
		if other[i] > 0 {
			ratios = append(ratios, v/other[i])
		}
	}
	if len(ratios) == 0 {
		return 0, 0, 0
	}
	return Median(ratios), slices.Min(ratios), slices.Max(ratios)
}
