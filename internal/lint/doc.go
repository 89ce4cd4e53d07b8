// Package lint holds the project's rules about its own source, as a test. The floors say which package may import
// which. The bans say which names are forbidden on the floors whose state is rebuilt from the log. The rules come from
// the design's sections "Packages and floors" and "Determinism".
//
// It reads source and reports; it never changes a file, and no package imports it. A finding is one line,
//
//	file:line: rule: what to do
//
// and every rule is made to fail at least once by the package's own tests (testdata/banned and the trees
// in floors_test.go).
//
// Most rules look at syntax only, so they hold in files that this machine does not build and while other
// packages do not compile. Only the rules about map order and methods need types: they load floors 0 to 5
// twice, with the build tag invariants and without it.
//
// Test files are free of floors and bans: a test may drive a package from above, and cannot reach a
// decision of the product.
//
// The limits of size (sizes.go) and the rules for prose (phrases.go) came after the code. ratchet.txt has the findings
// that are still allowed, by place, and its numbers only go down. To print all findings of packages or pages:
//
//	ROLLCALL_LINT=cluster,docs/HA.md go test ./internal/lint -run TestRatchet
//
// Start reading at floors.go (the table) and floors_needed.go (rows of it that nothing needs), then bans.go (the
// lists), interfaces.go, logfiles.go, and order.go (map order). exceptions.go has the exceptions, each with its
// reason.
package lint
