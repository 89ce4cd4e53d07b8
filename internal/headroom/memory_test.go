package headroom

import (
	"testing"
	"testing/fstest"
)

func TestSmallMachinesHaveLessHeadroom(t *testing.T) {
	const v2, v1, total = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes", "proc/meminfo"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"nothing known", nil, 256 << 20},
		{"large", map[string]string{v2: "max\n", total: "MemTotal:       24684084 kB\nMemFree: 1 kB\n"}, 256 << 20},
		{"small machine", map[string]string{total: "MemTotal:        1048576 kB\n"}, 64 << 20},
		{"small container", map[string]string{v2: "268435456\n", total: "MemTotal: 24684084 kB\n"}, 16 << 20},
		{"of cgroup v1", map[string]string{v1: "268435456\n", total: "MemTotal: 24684084 kB\n"}, 16 << 20},
		{"no limit in cgroup v1", map[string]string{v1: "9223372036854771712\n"}, 256 << 20},
		{"nonsense", map[string]string{v2: "?", v1: "", total: "MemTotal: -1 kB\nMemTotal:\n"}, 256 << 20},
	} {
		files := fstest.MapFS{}
		for name, text := range c.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := within(files); got != c.want {
			t.Errorf("%s: the heap may grow by %d bytes in any case, want %d", c.name, got, c.want)
		}
	}
}
