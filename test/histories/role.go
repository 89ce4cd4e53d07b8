package histories

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// roleVariable tells a process of the test's own binary which role it has in a history, as JSON.
const roleVariable = "ROLLCALL_HISTORIES_ROLE"

// roles are the possible roles of a process in a history; it has one of them.
type roles struct {
	Server    *serverRole    `json:",omitempty"`
	Scheduler *schedulerRole `json:",omitempty"`
}

// TakeRole lets this process be a server or a scheduler of a history if it was started as that, and ends it. A test's
// main function calls it first: the processes of a history are the test's own binary.
func TakeRole() {
	text := os.Getenv(roleVariable)
	if text == "" {
		return
	}
	if err := takeRole(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCode(err))
	}
	os.Exit(0)
}

func takeRole(text string) error {
	var r roles
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("%s: %w", roleVariable, err)
	}
	if r.Server != nil {
		return r.Server.run()
	}
	if r.Scheduler != nil {
		return r.Scheduler.run()
	}
	return fmt.Errorf("%s names no role", roleVariable)
}

func portOf(a net.Addr) int { return a.(*net.TCPAddr).Port }

// A process is a process of a history. Its standard error goes to a file.
type process struct {
	cmd  *exec.Cmd
	out  *bufio.Reader
	done chan struct{} // closed when it has ended
	err  error         // its error, once it has ended

	mu      sync.Mutex
	stopped int // number of faults that suspend it
}

// startProcess starts this binary in a role. binary is another one to be started instead, if it is not "".
func startProcess(r roles, stderr string) (*process, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{cmd: exec.Command(self), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	p.cmd.Stderr = file
	p.cmd.SysProcAttr = diesWithParent()
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, nil
}

// firstLine reads the first line that the process writes, and has the end of the process noticed.
func (p *process) firstLine() ([]byte, error) {
	line, err := p.out.ReadBytes('\n')
	go func() {
		_, _ = io.Copy(io.Discard, p.out)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return line, err
}

// signal sends a signal; it is no error if the process has ended.
func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to process %d: %w", s, p.cmd.Process.Pid, err)
	}
	return nil
}

// suspend stops the process until as many calls of resume have come.
func (p *process) suspend() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped++
	return p.signal(syscall.SIGSTOP)
}

func (p *process) resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped--; p.stopped > 0 {
		return nil
	}
	p.stopped = 0
	return p.signal(syscall.SIGCONT)
}

// kill ends the process at once, and waits until it is gone.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// end asks the process to end, and kills it if that takes longer than patience.
func (p *process) end(patience time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return p.kill()
	}
}

// ended reports whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
