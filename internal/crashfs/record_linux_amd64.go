package crashfs

import "golang.org/x/sys/unix"

// oldCalls maps calls that newer architectures do not have to their newer equivalents, apart from the directory
// arguments.
var oldCalls = map[uint64]uint64{
	unix.SYS_MKDIR:  unix.SYS_MKDIRAT,
	unix.SYS_UNLINK: unix.SYS_UNLINKAT,
	unix.SYS_RMDIR:  unix.SYS_UNLINKAT,
	unix.SYS_LINK:   unix.SYS_LINKAT,
	unix.SYS_RENAME: unix.SYS_RENAMEAT,
}
