package dump

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/internal/regular"
)

// errStopped ends the reading of a file after an error that is reported elsewhere.
var errStopped = errors.New("stopped")

// Stdin is the name of the standard input.
const Stdin = "-"

// sniffed is the number of bytes of a file that say what it is.
const sniffed = 4096

// Is reports whether path names a dump: the standard input, a file that begins as one, or a folder with such files
// that is no log.
func Is(path string) bool {
	if path == Stdin {
		return true
	}
	entries, err := os.ReadDir(path)
	if err == nil {
		return !slices.ContainsFunc(entries, isOfLog) && hasDump(path)
	}
	return beginsAsDump(path)
}

// isOfLog reports whether a file in a directory says that the directory is a log.
func isOfLog(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".seg" || e.Name() == "snapshots" }

// hasDump reports whether a folder has a file that begins as a dump.
func hasDump(path string) bool {
	found := false
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && mayBeDump(path) && beginsAsDump(path) {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// mayBeDump reports whether a file in a folder has the name of a dump.
func mayBeDump(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	switch filepath.Ext(name) {
	case ".json", ".yaml", ".yml", ".jsonl", ".ndjson":
		return true
	}
	return strings.Contains(name, "audit") && (strings.Contains(name, ".log") || filepath.Ext(name) == "")
}

// beginsAsDump reports whether the file at path begins as a dump.
func beginsAsDump(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	in, err := unzipped(f)
	if err != nil {
		return false
	}
	head, _ := in.Peek(sniffed)
	return formatOf(head) != unknown
}

// format is the form of a file.
type format int

const (
	unknown format = iota
	isJSON
	isYAML
)

// formatOf says by the beginning of a file what it is.
func formatOf(head []byte) format {
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#' || bytes.Equal(line, []byte("---")):
			continue
		case line[0] == '{' || line[0] == '[':
			return isJSON
		}
		key, _, ok := bytes.Cut(line, []byte(":"))
		if ok && slices.Contains([]string{"apiVersion", "kind", "items", "metadata", "spec", "status"}, string(key)) {
			return isYAML
		}
		return unknown
	}
	return unknown
}

// unzipped returns a reader of the content of a stream, which may be compressed by gzip.
func unzipped(in io.Reader) (*bufio.Reader, error) {
	plain := bufio.NewReaderSize(in, 64<<10)
	if head, _ := plain.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return plain, nil
	}
	z, err := gzip.NewReader(plain)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(z, 64<<10), nil
}

// source is a file to read.
type source struct {
	path string
	time time.Time // when it was written
}

// sources lists the files of a dump, and counts the files of a must-gather that hold nothing for scheduling.
func sources(path string) (files []source, others int, err error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return []source{{path, info.ModTime()}}, 0, nil
	}
	root := path
	err = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() || !e.Type().IsRegular():
			return nil
		case !mayBeDump(path) || !isWanted(below(root, path)):
			others++
			return nil
		}
		info, err := e.Info()
		if err == nil {
			files = append(files, source{path, info.ModTime()})
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no file of it holds objects of Kubernetes: want .json or .yaml", path)
	}
	return files, others, err
}

// below returns a path relative to the dump's folder: the names of the folders above mean nothing.
func below(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return path
	}
	return rel
}

// isWanted reports whether a file of a must-gather may hold objects that scheduling reads. Other files are wanted.
func isWanted(path string) bool {
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i, part := range parts {
		var rest []string
		switch {
		case part == "cluster-scoped-resources":
			rest = parts[i+1:]
		case part == "namespaces" && len(parts) > i+2:
			rest = parts[i+2:]
		default:
			continue
		}
		if len(rest) < 2 || rest[0] == "pods" { // the namespace itself, and the folder of a pod
			return true
		}
		resource := strings.TrimSuffix(rest[1], ".gz")
		return folders[rest[0]+"/"+strings.TrimSuffix(strings.TrimSuffix(resource, ".yaml"), ".json")]
	}
	return true
}

// split cuts a stream into items.
func split(in io.Reader, file string, emit func(*item) error) error {
	plain, err := unzipped(in)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	head, err := plain.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch formatOf(head) {
	case isJSON:
		return (&jsonSplitter{in: plain, file: file, emit: emit}).run()
	case isYAML:
		return (&yamlSplitter{in: plain, file: file, emit: emit}).run()
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return fmt.Errorf("%s is empty", file)
	}
	return fmt.Errorf("%s: want objects of Kubernetes as JSON or YAML, such as kubectl get -o json prints", file)
}
