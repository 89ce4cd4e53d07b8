package lint

import "fmt"

// exception lets one file break one rule.
type exception struct {
	file, rule, reason string
}

// exceptions are all there are. One that has become needless is reported.
var exceptions = []exception{
	{"plugins/coscheduling/standalone_feed.go", "unsorted-store",
		"the gang plugin in a stock kube-scheduler, which has no log to be fed from; " +
			"a handle of ours never comes here"},
	{"plugins/coscheduling/standalone_feed.go", "clock",
		"the gang plugin in a stock kube-scheduler, where no entry says that podGroupBackoffSeconds are over"},
	{"eventlog/boltlog/lock_flock.go", "log-files", "the system's own files below /proc"},
	{"eventlog/boltlog/holes_other.go", "unchecked-file", "systems that do not tell where a file has holes"},
	{"eventlog/boltlog/create.go", "log-files", "in a directory that it has just made, with a name by chance"},
	{"eventlog/jetstream/wait.go", "clock",
		"how long servers are waited for that do not answer: what is in the log does not depend on it"},
	{"logs/audit/key.go", "log-files", "a new file only (os.O_EXCL), where its user has said"},
}

// except removes the findings that are excepted and adds one for each exception that excuses nothing, be it because the
// file keeps the rule or because there is no such file.
func except(list []exception, found []finding) []finding {
	used := make([]bool, len(list))
	var out []finding
	for _, f := range found {
		excused := false
		for i, e := range list {
			if e.file == f.file && e.rule == f.rule && e.reason != "" {
				used[i], excused = true, true
			}
		}
		if !excused {
			out = append(out, f)
		}
	}
	for i, e := range list {
		switch {
		case e.reason == "":
			out = append(out, finding{e.file, 1, "exception",
				fmt.Sprintf("the exception from %s gives no reason: say why in internal/lint/exceptions.go", e.rule)})
		case !used[i]:
			out = append(out, finding{e.file, 1, "exception",
				fmt.Sprintf("the exception from %s is not needed: remove it from internal/lint/exceptions.go", e.rule)})
		}
	}
	return out
}
