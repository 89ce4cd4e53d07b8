package app

import (
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profileCPU gives every command the hidden flag --cpuprofile, for developers who work on the speed.
func profileCPU(root *cobra.Command) {
	var path string
	root.PersistentFlags().StringVar(&path, "cpuprofile", "", "write a CPU profile to this file")
	_ = root.PersistentFlags().MarkHidden("cpuprofile")
	var file *os.File
	root.PersistentPreRunE = func(*cobra.Command, []string) (err error) {
		if path == "" {
			return nil
		}
		if file, err = os.Create(path); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return pprof.StartCPUProfile(file)
	}
	root.PersistentPostRunE = func(*cobra.Command, []string) error {
		if file == nil {
			return nil
		}
		pprof.StopCPUProfile()
		return file.Close()
	}
}
