package render

import (
	"io"

	"github.com/rollcall-sched/rollcall/replay/explain/answer"
	"github.com/rollcall-sched/rollcall/replay/explain/phrase"
)

// Overview writes what is wrong, each with the command that tells more.
func Overview(w io.Writer, x *answer.Overview) error {
	out := page{at: x.At}
	out.printf("At %s (entry %d): %s, %s, %s; %s.\n", x.At.Time, x.At.Seq,
		phrase.Count(int64(x.Nodes), "node", "nodes"), phrase.Count(int64(x.Pods), "pod", "pods"),
		phrase.Count(int64(x.Gangs), "gang", "gangs"),
		phrase.Count(int64(x.PendingEntities), "entity is pending", "entities are pending"))
	if x.KnownFrom > 0 {
		out.printf("What came before entry %d is not in this log.\n", x.KnownFrom)
	}
	if len(x.Findings) == 0 {
		out.printf("\nNothing is wrong.\n")
	}
	kind := ""
	for i := range x.Findings {
		f := &x.Findings[i]
		if f.Kind != kind {
			out.printf("\n")
			kind = f.Kind
		}
		out.printf("%s.\n", f.Message)
		if f.Command != "" {
			out.printf("    %s\n", f.Command)
		}
	}
	return out.writeTo(w)
}
