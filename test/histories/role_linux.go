package histories

import "syscall"

// diesWithParent lets a process end with the test, whatever ends that.
func diesWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
