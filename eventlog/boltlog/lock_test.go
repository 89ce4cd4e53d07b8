package boltlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
)

// writerOf, in the environment, makes a process of these tests the writer of the log it names.
const writerOf = "BOLTLOG_TEST_WRITER_OF"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerOf); path != "" {
		writeOnDemand(path)
		return
	}
	os.Exit(m.Run())
}

// writeOnDemand appends ten entries in a segment of their own for every line of standard input, and prints
// the number of the last one.
func writeOnDemand(path string) {
	l, err := everyAppend.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("open")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := l.Append(context.Background(), l.last, logtest.Entries(l.last+1, 10)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(l.last)
	}
}

// writer is another process that has a log open for appending.
type writer struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startWriter(t *testing.T, path string) *writer {
	t.Helper()
	w := &writer{cmd: exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), writerOf+"="+path)
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	must(t, err)
	out, err := w.cmd.StdoutPipe()
	must(t, err)
	must(t, w.cmd.Start())
	t.Cleanup(w.kill)
	w.in, w.out = in, bufio.NewScanner(out)
	w.wantLine(t, "open")
	return w
}

func (w *writer) wantLine(t *testing.T, want string) {
	t.Helper()
	if !w.out.Scan() || w.out.Text() != want {
		t.Fatalf("the writer says %q, want %q", w.out.Text(), want)
	}
}

func (w *writer) append(t *testing.T, want uint64) {
	t.Helper()
	_, err := fmt.Fprintln(w.in)
	must(t, err)
	w.wantLine(t, fmt.Sprint(want))
}

func (w *writer) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

func TestAnotherProcessIsWriting(t *testing.T) {
	path := newSegments(t, 3, 10)
	w := startWriter(t, path)
	_, err := Open(path)
	if !errors.Is(err, eventlog.ErrInUse) {
		t.Fatalf("second writer: error %v, want ErrInUse", err)
	}
	for _, want := range []string{path, fmt.Sprintf("process %d (", w.cmd.Process.Pid), "on host ",
		"has been writing to it since 20"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("second writer: error %q does not say %q", err, want)
		}
	}
	for sealed := uint64(20); sealed < 60; sealed += 10 {
		l, err := OpenReadOnly(path)
		must(t, err)
		if last, err := l.Last(); !l.Live() || last != sealed || err != nil {
			t.Errorf("live is %t, last is %d, error %v, want the sealed entries up to %d", l.Live(), last, err, sealed)
		}
		w.append(t, sealed+20) // the reader is in nobody's way
		n := uint64(0)
		for _, err := range l.Read(context.Background(), 1) {
			must(t, err)
			n++
		}
		if n != sealed {
			t.Errorf("%d entries read, want %d", n, sealed)
		}
		must(t, l.Close())
	}
	w.kill()
	l, err := OpenReadOnly(path)
	must(t, err)
	if last, err := l.Last(); l.Live() || last != 70 || err != nil {
		t.Errorf("after the writer was killed: live is %t, last is %d, error %v", l.Live(), last, err)
	}
	must(t, l.Close())
	l, err = Open(path)
	must(t, err)
	must(t, l.Append(context.Background(), 70, logtest.Entries(71, 1)))
	must(t, l.Close())
	wantWhole(t, path)
}

func TestALogWithoutASealedSegmentIsReadBesideItsWriter(t *testing.T) {
	path := newLog(t, 3)
	w, err := Open(path)
	must(t, err)
	defer w.Close()
	l, err := OpenReadOnly(path)
	must(t, err)
	if last, err := l.Last(); !l.Live() || last != 0 || err != nil {
		t.Errorf("live is %t, last is %d, error %v", l.Live(), last, err)
	}
	for e, err := range l.Read(context.Background(), 1) {
		t.Errorf("entry %d, error %v", e.Seq, err)
	}
	must(t, l.Close())
}

// A log without LOCK, as a copy may be, is read, and gets one when it is written to.
func TestLogWithoutLockFile(t *testing.T) {
	path := newLog(t, 3)
	must(t, os.Remove(path+"/"+lockName))
	if n, err := readUntil(t, path, 1); n != 3 || err != nil {
		t.Errorf("%d entries, error %v", n, err)
	}
	w, err := Open(path)
	must(t, err)
	defer w.Close()
	if _, err := Open(path); !errors.Is(err, eventlog.ErrInUse) {
		t.Errorf("second writer: error %v, want ErrInUse", err)
	}
}

// TestAWriterWhoseLockIsTakenAwayStillHasTheLog removes LOCK beside a writer, or puts another file in its place.
func TestAWriterWhoseLockIsTakenAwayStillHasTheLog(t *testing.T) {
	path := newSegments(t, 3, 10)
	w := startWriter(t, path)
	making := segment(path, 71) + ".1" + tmpSuffix
	must(t, os.WriteFile(making, nil, fileMode))
	look := func(how string, sealed uint64) {
		t.Helper()
		l, err := OpenReadOnly(path)
		must(t, err)
		if last, err := l.Last(); !l.Live() || last != sealed || err != nil {
			t.Errorf(
				"%s: a reader's log is live: %t, last is %d, error %v, want the sealed entries up to %d",
				how,
				l.Live(),
				last,
				err,
				sealed,
			)
		}
		must(t, l.Close())
		files, err := List(path)
		must(t, err)
		if !files.Live {
			t.Errorf("%s: the log is not listed as live", how)
		}
		must(t, files.Close())
	}
	refuse := func(how string) {
		t.Helper()
		l, err := Open(path)
		if !errors.Is(err, eventlog.ErrInUse) || errors.Is(err, eventlog.ErrBeingRead) ||
			!strings.Contains(fmt.Sprint(err), fmt.Sprintf("process %d (", w.cmd.Process.Pid)) {
			t.Errorf("%s: a second writer: error %v, want ErrInUse and who it is", how, err)
		}
		if err == nil {
			must(t, l.Close())
		}
		if _, err := os.Stat(making); err != nil {
			t.Errorf("%s: what the writer is making was removed: %v", how, err)
		}
	}
	must(t, os.Remove(path+"/"+lockName))
	look("removed", 20)
	refuse("removed")
	look("made anew", 20)
	w.append(t, 40)
	look("made anew", 30)
	refuse("made anew")
	w.kill()
	l, err := Open(path)
	must(t, err)
	must(t, l.Append(context.Background(), 40, logtest.Entries(41, 1)))
	must(t, l.Close())
	wantWhole(t, path)
}
