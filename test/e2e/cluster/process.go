package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that is started, killed, suspended and started again with the same arguments. Its methods may
// be called by several goroutines.
type Process struct {
	// Name is its name in messages.
	Name string
	// Output is the file that its standard output and standard error go to. Later starts append.
	Output string

	command []string
	env     []string
	// ready returns nil once the process does its work; nil if nothing is waited for.
	ready func(context.Context) error

	mu      sync.Mutex
	running *run
	last    *run // the run that was started last, which may have ended
	// spent is the processor time of the runs that ended.
	spent time.Duration
}

// run is one life of a process.
type run struct {
	cmd *exec.Cmd
	// ended is closed when the process has ended; err is set before.
	ended chan struct{}
	err   error
}

// NewProcess prepares a process; Start starts it. The command's first word is the program. env is added to the
// environment of this process.
func NewProcess(name, output string, command, env []string, ready func(context.Context) error) *Process {
	return &Process{Name: name, Output: output, command: command, env: env, ready: ready}
}

// Command returns the words of the command line.
func (p *Process) Command() []string { return p.command }

// Start starts the process and waits until it does its work, at most until ctx ends. An error has the last lines of
// its output.
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return err
	}
	for p.ready != nil {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := p.ready(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended before it was ready: %w; %s", p.Name, orExit0(r.err), p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); %s", p.Name, err, ctx.Err(), p.lastLines())
		case <-time.After(25 * time.Millisecond):
		}
	}
	return nil
}

// errExit0 means the end of a process that should have continued.
var errExit0 = errors.New("exit status 0")

func orExit0(err error) error {
	if err == nil {
		return errExit0
	}
	return err
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return nil, fmt.Errorf("%s runs already as process %d", p.Name, p.running.cmd.Process.Pid)
	}
	out, err := os.OpenFile(p.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer out.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	// A group of its own keeps ^C at the terminal from it; it dies with this process, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	r := &run{cmd: cmd, ended: make(chan struct{})}
	p.running, p.last = r, r
	go func() {
		r.err = cmd.Wait()
		p.mu.Lock()
		p.spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if p.running == r {
			p.running = nil
		}
		p.mu.Unlock()
		close(r.ended)
	}()
	return r, nil
}

// Running reports whether the process runs, which one that is suspended does.
func (p *Process) Running() bool { return p.current() != nil }

// PID is the number of the running process, 0 if there is none.
func (p *Process) PID() int {
	if r := p.current(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// Kill ends the process with signal 9 and waits for its end. It does nothing if the process does not run.
func (p *Process) Kill() {
	r := p.current()
	if r == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGKILL)
	<-r.ended
}

// Terminate asks the process to end (SIGTERM) and waits. If ctx ends first, the process is killed, which is an error.
// A process that ends returns the error of exec.Cmd.Wait.
func (p *Process) Terminate(ctx context.Context) error {
	r := p.current()
	if r == nil {
		return nil
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("%s did not end after SIGTERM: %w; %s", p.Name, ctx.Err(), p.lastLines())
	}
}

// Wait waits until the process has ended, and returns the error of exec.Cmd.Wait.
func (p *Process) Wait(ctx context.Context) error {
	p.mu.Lock()
	r := p.last
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", p.Name, ctx.Err())
	}
}

// Suspend stops the process from running (SIGSTOP) until Resume or Kill.
func (p *Process) Suspend() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a suspended process continue (SIGCONT).
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	r := p.current()
	if r == nil {
		return fmt.Errorf("send %v: %s does not run", s, p.Name)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// Restart kills the process if it runs, and starts it.
func (p *Process) Restart(ctx context.Context) error {
	p.Kill()
	return p.Start(ctx)
}

func (p *Process) lastLines() string {
	return fmt.Sprintf("the end of %s:\n%s", p.Output, p.Tail(20))
}

// Tail returns the last lines of the output.
func (p *Process) Tail(lines int) string {
	f, err := os.Open(p.Output)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 64 << 10
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-most), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// Usage is a process's use of the machine.
type Usage struct {
	// CPU is its processor time, of all its runs.
	CPU time.Duration
	// Memory and PeakMemory are its resident memory, now and at most, in bytes; 0 if it does not run.
	Memory, PeakMemory int64
}

// Usage reads what the process has used so far from /proc.
func (p *Process) Usage() (Usage, error) {
	p.mu.Lock()
	u, pid := Usage{CPU: p.spent}, 0
	if p.running != nil {
		pid = p.running.cmd.Process.Pid
	}
	p.mu.Unlock()
	if pid == 0 {
		return u, nil
	}
	cpu, err := processorTime(pid)
	if err != nil {
		return u, fmt.Errorf("read what %s uses: %w", p.Name, err)
	}
	u.CPU += cpu
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read what %s uses: %w", p.Name, err)
	}
	u.Memory, u.PeakMemory = kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:")
	return u, nil
}

// processorTime is the user and system time in /proc/PID/stat, which counts in hundredths of a second.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// kilobytes is the value of a line of /proc/PID/status, in bytes.
func kilobytes(status []byte, key string) int64 {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
