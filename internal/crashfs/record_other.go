//go:build !linux

package crashfs

import "os/exec"

// Notes is the number of the file to which a recorded program writes its notes.
const Notes = 3

// Record runs only on Linux: elsewhere it returns ErrUnsupported.
func Record(*exec.Cmd, string) (Recording, error) { return nil, ErrUnsupported }
