package crashfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notes is the number of the file to which a recorded program writes its notes, one with each write.
const Notes = 3

// Record runs cmd to its end and returns its operations below root. root is an empty directory, and all paths that cmd
// uses begin with it. cmd is a program of many threads, but not of many processes. Record returns ErrUnsupported if
// this system does not allow processes to be traced. It returns other errors if cmd did something that a Recording
// cannot express, or if cmd failed.
//
// It traces system calls as strace does, and needs no tool for it.
func Record(cmd *exec.Cmd, root string) (Recording, error) {
	runtime.LockOSThread() // a thread traces, not a process
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd.ExtraFiles = []*os.File{null}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
			return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		return nil, err
	}
	t := &tracer{pid: cmd.Process.Pid, calls: map[int]call{}, recorder: newRecorder(root)}
	if err := t.run(); err != nil {
		_ = cmd.Process.Kill()
		return nil, err
	}
	return t.ops, cmd.Process.Release()
}

// A tracer follows the threads of one process.
type tracer struct {
	*recorder
	pid   int
	calls map[int]call // what each thread is in
}

// A call is a system call.
type call struct {
	number uint64
	args   [6]uint64
}

// run lets the process run from one system call to the next until it ends.
func (t *tracer) run() error {
	var status syscall.WaitStatus
	_, err := syscall.Wait4(t.pid, &status, syscall.WALL, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(t.pid, &status, syscall.WALL, nil)
	}
	if err != nil {
		return fmt.Errorf("wait for the program to begin: %w", err)
	}
	const options = syscall.PTRACE_O_TRACECLONE | syscall.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := syscall.PtraceSetOptions(t.pid, options); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err := syscall.PtraceSyscall(t.pid, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	for {
		// Wait for the process's own group, and for nobody else's children.
		tid, err := syscall.Wait4(-t.pid, &status, syscall.WALL, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the program: %w", err)
		}
		if done, err := t.stopped(tid, status); done || err != nil {
			return err
		}
	}
}

// stopped deals with a thread that has stopped or ended, and says whether the process has ended.
func (t *tracer) stopped(tid int, status syscall.WaitStatus) (done bool, err error) {
	switch {
	case status.Exited() || status.Signaled():
		if tid != t.pid {
			return false, nil
		}
		if status.Exited() && status.ExitStatus() == 0 {
			return true, nil
		}
		return true, fmt.Errorf("the program failed: exit status %d, signal %v", status.ExitStatus(), status.Signal())
	case !status.Stopped():
		return false, nil
	}
	pass := 0
	switch signal := status.StopSignal(); {
	case signal == syscall.SIGTRAP|0x80:
		if err := t.atCall(tid); err != nil {
			return false, err
		}
	case signal == syscall.SIGTRAP, signal == syscall.SIGSTOP: // a thread began
	default:
		pass = int(signal)
	}
	if err := syscall.PtraceSyscall(tid, pass); err != nil && !errors.Is(err, syscall.ESRCH) {
		return false, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return false, nil
}

// callInfo is struct ptrace_syscall_info: the same on every architecture.
type callInfo struct {
	op     uint8
	_      [3]uint8
	arch   uint32
	ip, sp uint64
	// At an entry the number and the arguments, at an exit the result and whether it is an error.
	data [8]uint64
}

// atCall notes that a thread enters or leaves a system call. A failed call has done nothing.
func (t *tracer) atCall(tid int) error {
	var info callInfo
	_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid),
		unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("%w: %w", ErrUnsupported, errno)
	}
	switch info.op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		c := call{number: info.data[0]}
		copy(c.args[:], info.data[1:])
		t.calls[tid] = c
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		c := t.calls[tid]
		delete(t.calls, tid)
		if failed := uint8(info.data[1]) != 0; failed {
			return nil
		}
		if err := t.did(c, int64(info.data[0])); err != nil {
			return fmt.Errorf("system call %d: %w", c.number, err)
		}
	}
	return nil
}

// did records a system call that returned result. It knows the calls made by Go's own packages and bbolt that may
// change a directory, and refuses the others by name (refusedCalls).
func (t *tracer) did(c call, result int64) error {
	a := c.args
	switch c.number {
	case unix.SYS_OPENAT:
		path, err := t.path(a[0], a[1])
		if err != nil {
			return err
		}
		return t.opened(path, int(a[2]), int(result))
	case unix.SYS_CLOSE:
		delete(t.open, int(a[0]))
	case unix.SYS_READ:
		t.moved(int(a[0]), result)
	case unix.SYS_WRITE:
		data, err := t.bytes(a[1], result)
		if err != nil {
			return err
		}
		return t.wrote(t.pid, int(a[0]), data, -1)
	case unix.SYS_PWRITE64:
		data, err := t.bytes(a[1], result)
		if err != nil {
			return err
		}
		return t.wrote(t.pid, int(a[0]), data, int64(a[3]))
	case unix.SYS_COPY_FILE_RANGE:
		return t.copied(t.pid, int(a[0]), int(a[2]), a[1] != 0 || a[3] != 0, result)
	case unix.SYS_FTRUNCATE:
		return t.truncated(t.pid, int(a[0]), int64(a[1]))
	case unix.SYS_TRUNCATE:
		path, err := t.text(a[0])
		if err != nil {
			return err
		}
		return t.truncatedPath(path, int64(a[1]))
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return t.synced(t.pid, int(a[0]))
	case unix.SYS_LSEEK:
		return t.sought(int(a[0]), result)
	case unix.SYS_MMAP:
		return t.mapped(int(int32(a[4])), a[2]&unix.PROT_WRITE != 0 && a[3]&unix.MAP_SHARED != 0)
	default:
		return t.didInDirectory(c)
	}
	return nil
}

// didInDirectory records a system call that makes, removes or renames an entry of a directory.
func (t *tracer) didInDirectory(c call) error {
	a := c.args
	switch c.number {
	case unix.SYS_MKDIRAT:
		path, err := t.path(a[0], a[1])
		return errors.Join(err, t.named(Mkdir, path, ""))
	case unix.SYS_UNLINKAT:
		path, err := t.path(a[0], a[1])
		return errors.Join(err, t.named(Unlink, path, ""))
	case unix.SYS_LINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		from, err := t.path(a[0], a[1])
		if err != nil {
			return err
		}
		to, err := t.path(a[2], a[3])
		kind := Rename
		if c.number == unix.SYS_LINKAT {
			kind = Link
		}
		return errors.Join(err, t.named(kind, to, from))
	}
	return t.other(c)
}

// other handles calls that have another number on some architectures. It refuses calls that change a directory in ways
// that are not recorded.
func (t *tracer) other(c call) error {
	if like, ok := oldCalls[c.number]; ok {
		at := uint64(0xffffff9c) // AT_FDCWD: the older call has no directory argument
		a := c.args
		switch like {
		case unix.SYS_LINKAT, unix.SYS_RENAMEAT:
			return t.did(call{like, [6]uint64{at, a[0], at, a[1]}}, 0)
		}
		return t.did(call{like, [6]uint64{at, a[0], a[1]}}, 0)
	}
	switch c.number {
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_FALLOCATE, unix.SYS_SENDFILE, unix.SYS_SPLICE:
		fd := int(c.args[0])
		if c.number == unix.SYS_SPLICE {
			fd = int(c.args[2])
		}
		if t.open[fd] != nil || t.underRoot(t.pid, fd) {
			return fmt.Errorf("it is not known how to record it")
		}
	case unix.SYS_SYMLINKAT, unix.SYS_MKNODAT, unix.SYS_IO_URING_SETUP, unix.SYS_OPENAT2:
		return fmt.Errorf("it is not known how to record it")
	}
	return nil
}

// bytes reads the process's memory.
func (t *tracer) bytes(at uint64, n int64) ([]byte, error) {
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	got, err := unix.ProcessVMReadv(t.pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err != nil || got != len(b) {
		return nil, fmt.Errorf("%w: read the program's memory: %d bytes of %d: %w", ErrUnsupported, got, len(b), err)
	}
	return b, nil
}

// text reads text that ends in a zero byte.
func (t *tracer) text(at uint64) (string, error) {
	var text []byte
	for len(text) < syscall.PathMax {
		// Read up to the end of the page: the next page may not exist.
		b, err := t.bytes(at, int64(256-at%256))
		if err != nil {
			return "", err
		}
		for i := range b {
			if b[i] == 0 {
				return string(append(text, b[:i]...)), nil
			}
		}
		text, at = append(text, b...), at+uint64(len(b))
	}
	return "", errors.New("a path without an end")
}

// path reads the path of a call with a directory argument. Go passes open directories only to remove their contents.
func (t *tracer) path(dir, at uint64) (string, error) {
	path, err := t.text(at)
	if err != nil || filepath.IsAbs(path) {
		return path, err
	}
	if fd := int(int32(dir)); fd >= 0 {
		base, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
		return filepath.Join(base, path), err
	}
	base, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", t.pid))
	return filepath.Join(base, path), err
}

// underRoot reports whether an open file, whose opening was not traced, is below the root.
func (r *recorder) underRoot(pid, fd int) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	return err == nil && strings.HasPrefix(path, r.root+"/")
}

// readBack reads the present content of an open file of the process.
func readBack(pid, fd int, offset, n int64) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = f.ReadAt(b, offset)
	return b, errors.Join(err, f.Close())
}
