package report

import (
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/rollcall-sched/rollcall/internal/fixedseed"
	"pgregory.net/rapid"
)

func TestWaitsAreNearestRankQuantiles(t *testing.T) {
	var waits []time.Duration
	for i := 200; i > 0; i-- {
		waits = append(waits, time.Duration(i)*time.Second)
	}
	if got := waitsOf(waits); got != (Waits{200, 100, 198, 200}) {
		t.Errorf("%+v", got)
	}
	if got := waitsOf([]time.Duration{time.Second}); got != (Waits{1, 1, 1, 1}) {
		t.Errorf("%+v", got)
	}
}

// TestAThinnedLineKeepsLeastGreatestAndLast compares with looking at each part by itself.
func TestAThinnedLineKeepsLeastGreatestAndLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole line
		at := time.Duration(0)
		for range rapid.IntRange(0, 400).Draw(t, "points") {
			at += time.Duration(rapid.Int64Range(0, 1<<52).Draw(t, "gap"))
			whole.add(at, float64(rapid.IntRange(0, 9).Draw(t, "value")))
		}
		most := rapid.IntRange(3, 60).Draw(t, "most")
		thinned := whole.thinned(most)
		if len(thinned) > most && len(thinned) > len(whole.points) || len(thinned) > max(most, 3) {
			t.Fatalf("%d points are left, of %d allowed", len(thinned), most)
		}
		if len(whole.points) <= most {
			if len(thinned) != len(whole.points) {
				t.Fatal("points are lost that needed not be")
			}
			return
		}
		// Between two neighbours that are left nothing is lost that is below or above all of its surroundings.
		width := (whole.points[len(whole.points)-1].At-whole.points[0].At)/time.Duration(most/3) + 1
		part := func(p LinePoint) time.Duration { return (p.At - whole.points[0].At) / width }
		type bounds struct{ least, greatest, last float64 }
		boundsOf := func(points []LinePoint) map[time.Duration]bounds {
			all := map[time.Duration]bounds{}
			for _, p := range points {
				b, seen := all[part(p)]
				if !seen {
					b = bounds{p.Value, p.Value, p.Value}
				}
				all[part(p)] = bounds{min(b.least, p.Value), max(b.greatest, p.Value), p.Value}
			}
			return all
		}
		if got, want := boundsOf(thinned), boundsOf(whole.points); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		last := time.Duration(-1)
		for _, p := range thinned {
			if p.At <= last {
				t.Fatalf("%v is not behind %s", p, last)
			}
			last = p.At
		}
	})
}

func TestALineStaysBoundedWhileItIsMade(t *testing.T) {
	var l line
	for i := range 5 * rawLinePoints {
		v := float64(i % 100)
		if i == 12345 {
			v = 1e6
		}
		l.add(time.Duration(i), v)
	}
	if len(l.points) > rawLinePoints {
		t.Errorf("%d points", len(l.points))
	}
	peak := 0.0
	thinned := l.thinned(MaxLinePoints)
	for _, p := range thinned {
		peak = max(peak, p.Value)
	}
	if peak != 1e6 || len(thinned) > MaxLinePoints || len(thinned) < MaxLinePoints/4 {
		t.Errorf("%d points, the greatest is %g", len(thinned), peak)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAReportThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := WriteRows(fullDisk{}, []Row{{Name: "ml/a"}}); err == nil {
		t.Error("no error")
	}
}
