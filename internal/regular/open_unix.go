//go:build unix

package regular

import "syscall"

// What opening must not do: wait for the other end of a pipe, and follow a link.
const (
	nonblock = syscall.O_NONBLOCK
	nofollow = syscall.O_NOFOLLOW
)
