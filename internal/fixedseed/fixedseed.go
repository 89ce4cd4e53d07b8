// Package fixedseed is imported by tests for its effect: their properties are checked with the same generated cases in
// every run, so that whether a change passes is no matter of luck. With ROLLCALL_SOAK set, as "make soak" does, or
// with -rapid.seed, cases are drawn anew.
//
// It is for tests only and owns nothing else.
package fixedseed

import (
	"flag"
	"os"

	_ "pgregory.net/rapid" // has the flag
)

func init() {
	if os.Getenv("ROLLCALL_SOAK") == "" {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
}
