// Package smalldisk gives tests a disk that can become full: a file system in memory whose size the test sets.
package smalldisk

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A Disk is a tmpfs in a mount namespace of its own, which ends with the process that holds it.
type Disk struct {
	// Root is the path of the disk's root folder, as every process of the user sees it.
	Root string

	sizes   io.Writer
	answers *bufio.Reader
}

// hold mounts the disk and gives it each size that it reads; "full" means the size of its files.
const hold = `mount -t tmpfs -o size=64m tmpfs "$1" && echo mounted &&
while read size; do
	[ "$size" = full ] && size=$(($(stat -f -c '(%b - %f) * %S' "$1")))
	mount -o "remount,size=$size" "$1" 2>/dev/null && echo resized || echo refused
done`

// New returns a disk of 64 MiB that lives as long as the test. It skips the test where unshare(1) is missing or a user
// may mount nothing.
func New(t testing.TB) *Disk {
	t.Helper()
	at := t.TempDir()
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hold, "sh", at)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Skipf("skipped: a full disk takes unshare(1) of util-linux: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	d := &Disk{
		Root:    filepath.Join(fmt.Sprintf("/proc/%d/root", cmd.Process.Pid), at),
		sizes:   in,
		answers: bufio.NewReader(out),
	}
	if said, _ := d.answers.ReadString('\n'); said != "mounted\n" {
		t.Skip("skipped: a full disk takes the right to mount a tmpfs in a namespace of one's own")
	}
	return d
}

// Resize gives the disk a size in bytes, no less than its files take.
func (d *Disk) Resize(t testing.TB, size int64) {
	t.Helper()
	if !d.is(size) {
		t.Fatalf("the small disk does not take the size %d", size)
	}
}

// Fill leaves no room on the disk: nothing more can be written. Others may write meanwhile.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	for range 100 {
		if d.is("full") {
			return
		}
	}
	t.Fatal("the small disk cannot be filled")
}

// is gives the disk a size, and reports whether it takes it.
func (d *Disk) is(size any) bool {
	fmt.Fprintln(d.sizes, size)
	said, _ := d.answers.ReadString('\n')
	return said == "resized\n"
}
