package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/logs"
)

// PublicFile returns the file of the public key that belongs to the private key in a file.
func PublicFile(private string) string { return private + ".pub" }

// WriteKey writes the private key to a new file, and the public one to PublicFile of it. It makes both, durably, or
// none. A file that exists already is left alone, and is a *logs.RequestError.
func WriteKey(private string, key proof.Key) error {
	if err := writeNew(private, key.Private, 0o600); err != nil {
		return err
	}
	if err := writeNew(PublicFile(private), key.Public, 0o644); err != nil {
		return errors.Join(err, os.Remove(private))
	}
	return nil
}

// writeNew writes a line to a file that is not there yet, durably.
func writeNew(path, line string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return logs.Refuse("%s is there already, and may be a key that is in use: name another file", path)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = durable.Sync(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
