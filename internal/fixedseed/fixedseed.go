// Package fixedseed is for tests: it sets the number of cases that they try, the same ones in every run. It owns
// nothing else.
//
// It is imported for its effect: properties are checked with the same generated cases in every run, so that whether a
// change passes is no matter of luck. With ROLLCALL_SOAK set, as "make soak" does, or with -rapid.seed, cases are drawn
// again. Generated cases are small and make much garbage, so the collector lets the heap grow to four times its size.
// That saves a sixth of the time. Checks and Of limit the long tests of "make test"; their comments say how to run all
// of them.
package fixedseed

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	_ "pgregory.net/rapid" // has the flag
)

func init() {
	if os.Getenv("GOGC") == "" && strings.HasSuffix(os.Args[0], ".test") { // not in a test that is run as the product
		debug.SetGCPercent(300)
	}
	if os.Getenv("ROLLCALL_SOAK") == "" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
}

// Whole reports whether everything is to be tried. That is so with ROLLCALL_SOAK, or with ROLLCALL_WHOLE: then a test
// tries as much as docs/RELIABILITY.md says without becoming a soak run.
func Whole() bool { return os.Getenv("ROLLCALL_SOAK") != "" || os.Getenv("ROLLCALL_WHOLE") != "" }

// Of returns the number of tries to make: all if Whole, and else few.
func Of(all, few int) int {
	if Whole() {
		return all
	}
	return few
}

// Checks has the properties of a test checked few times, unless Whole, or -rapid.checks says how often. The test must
// not run beside others of its package.
func Checks(t *testing.T, few int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if Whole() || checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set(strconv.Itoa(few)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(checks.DefValue); err != nil {
			t.Fatal(err)
		}
	})
}
