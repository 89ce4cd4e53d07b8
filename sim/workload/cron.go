package workload

import (
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// mostRuns is the largest number of runs of a CronJob in a simulation.
const mostRuns = 100_000

// runs returns the offsets at which a CronJob makes its Jobs: the first times of its schedule after its arrival, as
// many as the annotation says.
func (o *podOwner) runs(d *document, field string, value any) ([]time.Duration, error) {
	annotation := "metadata.annotations." + RunsAnnotation
	text := o.meta.Annotations[RunsAnnotation]
	n, err := wholeNumber("annotation "+RunsAnnotation, text, 1, mostRuns)
	if err != nil {
		return nil, d.errorf(annotation, "%w", err)
	}
	times, err := d.times("", o.meta.Annotations, []string{RunsAnnotation}, ArrivalAnnotation, DurationAnnotation)
	if err != nil {
		return nil, err
	}
	schedule, _ := value.(string)
	// The API server also refuses a time zone in the schedule.
	if schedule == "" || strings.Contains(schedule, "TZ") {
		return nil, d.errorf(field, "%s: %q is not a schedule such as \"0 3 * * *\"", field, cut(schedule, 40))
	}
	table, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, d.errorf(field, "%s: %q: %w", field, cut(schedule, 40), err)
	}
	var runs []time.Duration
	for at := Start.Add(times[ArrivalAnnotation]); len(runs) < int(n); {
		if at = table.Next(at); at.IsZero() || at.Sub(Start) > MaxOffset {
			return nil, d.errorf(field, "%s: %q comes only %d times", field, cut(schedule, 40), len(runs))
		}
		runs = append(runs, at.Sub(Start))
	}
	return runs, nil
}

// runName is the suffix that the CronJob controller adds to the name of a run's Job: the minutes since 1970.
func runName(run time.Duration) string { return strconv.FormatInt(Start.Add(run).Unix()/60, 10) }
