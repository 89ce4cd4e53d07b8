//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltlog

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// flock locks f until it is closed, exclusively or shared. It does not wait.
func flock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// lockedBy returns the processes that have the lock of f, in the mode READ (shared) or WRITE, as far as the system
// shows them: Linux does, in /proc/locks (proc_locks(5)).
func lockedBy(f *os.File, mode string) (processes []string) {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	inode := fmt.Sprintf(":%d", stat.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK ADVISORY READ 4711 fe:00:131 0 EOF
		part := strings.Fields(line)
		if len(part) < 6 || part[1] != "FLOCK" || part[3] != mode || !strings.HasSuffix(part[5], inode) {
			continue
		}
		process := "process " + part[4]
		if name, err := os.ReadFile("/proc/" + part[4] + "/comm"); err == nil {
			process += " (" + strings.TrimSpace(string(name)) + ")"
		}
		processes = append(processes, process)
	}
	return processes
}
