//go:build unix

package regular

import "syscall"

// Opening must not wait for the other end of a pipe, nor follow a link.
const (
	nonblock = syscall.O_NONBLOCK
	nofollow = syscall.O_NOFOLLOW
)
