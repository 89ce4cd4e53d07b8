// Package pty gives tests a terminal of any width.
package pty

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo terminal. It keeps all output.
type Terminal struct {
	*os.File // the side of the program

	screen *os.File // the other side
	shown  chan string
}

// New returns a terminal with so many columns, from 0 to 65535, where 0 means that it does not tell. It skips the test
// where the system has no pseudo terminals.
func New(t testing.TB, columns int) *Terminal {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no pseudo terminals here: %v", err)
	}
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &Terminal{File: side, screen: screen, shown: make(chan string, 1)}
	p.Resize(t, columns)
	t.Cleanup(func() {
		side.Close()
		screen.Close()
	})
	go func() { // a terminal that nobody reads holds up who writes
		var all bytes.Buffer
		_, _ = io.Copy(&all, screen) // it ends with EIO when the last writer has gone
		p.shown <- all.String()
	}()
	return p
}

// Resize sets the number of columns.
func (p *Terminal) Resize(t testing.TB, columns int) {
	t.Helper()
	size := &unix.Winsize{Row: 24, Col: uint16(columns)}
	if err := unix.IoctlSetWinsize(int(p.screen.Fd()), unix.TIOCSWINSZ, size); err != nil {
		t.Fatal(err)
	}
}

// Shown closes the terminal and returns the output. Lines end with \r\n.
func (p *Terminal) Shown() string {
	p.File.Close()
	return <-p.shown
}
