//go:build !linux

package crashfs

import "os/exec"

// Notes is the number of the file in which a recorded program leaves its notes.
const Notes = 3

// Record runs only on Linux: elsewhere it returns ErrUnsupported.
func Record(*exec.Cmd, string) (Recording, error) { return nil, ErrUnsupported }
