package headroom

import (
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
)

// share is the divisor of the machine's memory that gives the headroom. Example: 1 GiB gives 64 MiB.
const share = 16

// within returns the headroom for this machine: Bytes, or less if it or its control group has little memory.
func within(files fs.FS) uint64 { return min(Bytes, memory(files)/share) }

// memory returns the number of bytes of memory that the process may have, according to the files of a Linux root; a
// very large number if they set no limit.
func memory(files fs.FS) uint64 {
	least := uint64(math.MaxUint64)
	for _, name := range []string{
		"sys/fs/cgroup/memory.max",                   // in a container its own; "max" for none
		"sys/fs/cgroup/memory/memory.limit_in_bytes", // the same of cgroup v1; nearly 2^63 for none
	} {
		if text, err := fs.ReadFile(files, name); err == nil {
			if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				least = min(least, n)
			}
		}
	}
	text, err := fs.ReadFile(files, "proc/meminfo")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if n, err := strconv.ParseUint(f[1], 10, 64); err == nil && n < math.MaxUint64>>10 {
				least = min(least, n<<10)
			}
		}
	}
	return least
}

// root is the root of the file system.
func root() fs.FS { return os.DirFS("/") }
