package boltlog

import (
	"fmt"
	"runtime/debug"
)

// A faultError is a panic of bbolt, or a memory fault, on the pages of a damaged file.
type faultError struct{ value any }

// Error implements error.
func (e *faultError) Error() string {
	return fmt.Sprintf("the file is cut short or its pages are damaged: %v", e.value)
}

// guard runs f, which reads pages that may be damaged. bbolt trusts its pages: it panics on a wrong one,
// and touching one behind the file's end is a memory fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = &faultError{value: v}
		}
	}()
	return f()
}
