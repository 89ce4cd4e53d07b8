package phrase

import (
	"fmt"
	"strings"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
)

// Entity names an entity of the queue by its kind (group, composite or pod) and its name.
func Entity(kind, name string) string {
	if kind == "group" {
		kind = "gang"
	}
	return kind + " " + name
}

// Ahead names the first entities that have their turn before another one, to follow their number; "" for none.
func Ahead(q *answer.QueuePlace) string {
	const most = 3
	var text strings.Builder
	for i := range q.AheadOf {
		if i == most {
			fmt.Fprintf(&text, ", and %d more", q.Ahead-most)
			break
		}
		x := &q.AheadOf[i]
		mark := ", "
		if i == 0 {
			mark = ": "
		}
		fmt.Fprintf(&text, "%s%s (priority %d: %s)", mark, Entity(x.Kind, x.Name), x.Priority, x.Why)
	}
	return text.String()
}
