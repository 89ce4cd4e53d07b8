package localapi

import (
	"fmt"
	"os"
	"path/filepath"
)

// shorten returns a name of the socket at path that is short enough however long the path is. It is valid until done
// is called.
func shorten(path string) (name string, done func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}
