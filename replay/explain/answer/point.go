package answer

import (
	"fmt"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// Instant is a time of the log; in JSON it looks as log cat prints it.
type Instant eventlog.Time

// MarshalText implements encoding.TextMarshaler.
func (t Instant) MarshalText() ([]byte, error) { return []byte(eventlog.Time(t).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Instant) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err == nil {
		*t = Instant(eventlog.TimeOf(at))
	}
	return err
}

// String is RFC 3339 in UTC, with no more decimals than the time has.
func (t Instant) String() string {
	return eventlog.Time(t).Std().Format("2006-01-02T15:04:05.999999999Z07:00")
}

// Point is an entry's place in the log.
type Point struct {
	Seq  uint64  `json:"seq"`
	Time Instant `json:"time,omitzero"`
}

// String names the entry and its time.
func (p Point) String() string {
	if p.Seq == 0 {
		return "the log's beginning"
	}
	return fmt.Sprintf("entry %d, %s", p.Seq, p.Time)
}
