package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// InputError is an error in a file of nodes or of a workload, with its place.
type InputError struct {
	// Path is the file.
	Path string
	// Line counts from 1; 0 is the file as a whole.
	Line int
	// Err has the details.
	Err error
}

// Error implements error.
func (e *InputError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns the details.
func (e *InputError) Unwrap() error { return e.Err }

// stdin is the path of standard input.
const stdin = "-"

// The limits of the readers, in bytes.
const (
	maxFile  = 1 << 30  // of formats that are read as a whole (Kubernetes YAML and JSON)
	maxLine  = 64 << 20 // of formats that are read by line
	sniffLen = 64 << 10 // the bytes from which the format is recognised
)

// Sources are the places from which nodes or a workload are read. Each one adds to those before it.
type Sources struct {
	// Paths are files, directories, and "-" for Stdin. The files of a directory that have one of the known endings are
	// read, by name. Subdirectories are not read. A file may be compressed by gzip. Files are Kubernetes YAML
	// or JSON, openb lists, SWF files, or exports of a log. The objects of all Kubernetes files belong to one cluster.
	Paths []string
	// Stdin is read for the path "-", once.
	Stdin io.Reader
	// Own are the resources that the configuration declares: their objects are read too.
	Own []eventlog.OwnResource
}

// Nodes reads the nodes of a simulation. A path that is no file may be a count and a shape such as 16x16cpu, as
// ParseNodeSpec reads them. Other objects in the files are checked as far as the format allows, and skipped. An error
// about the content is an *InputError.
func (s Sources) Nodes() ([]NodePlan, error) {
	var shapes []string
	files := s
	files.Paths = nil
	for _, path := range s.Paths {
		if _, err := os.Stat(path); err != nil && path != stdin && looksLikeNodeSpec(path) {
			shapes = append(shapes, path)
		} else {
			files.Paths = append(files.Paths, path)
		}
	}
	var in input
	if len(shapes) > 0 {
		nodes, err := ParseNodeSpec(strings.Join(shapes, "+"))
		if err != nil {
			return nil, err
		}
		in.nodes = nodes
	}
	if len(files.Paths) > 0 {
		read, err := files.read()
		if err != nil {
			return nil, err
		}
		if len(read.nodes) == 0 {
			return nil, &InputError{Path: files.String(), Err: fmt.Errorf("%s without a node", read.format)}
		}
		if err := in.add(&read, files.String()); err != nil {
			return nil, err
		}
	}
	return in.nodes, nil
}

// Workload reads the workload of a simulation. Nodes in the files are skipped, with a note. An error about the content
// is an *InputError.
func (s Sources) Workload() (*Workload, error) {
	in, err := s.read()
	if err != nil {
		return nil, err
	}
	if len(in.workload.Pods) == 0 {
		why := strings.Join(append([]string{in.format + " without a pod"}, in.workload.Notes...), ": ")
		return nil, &InputError{Path: s.String(), Err: errors.New(why)}
	}
	if n := len(in.nodes); n > 0 {
		in.note("%s holds %s not part of the workload", s, counted(n, "node, which is", "nodes, which are"))
	}
	return &in.workload, nil
}

// String returns the paths, with commas between them.
func (s Sources) String() string { return strings.Join(s.Paths, ", ") }

// ReadNodes is Sources.Nodes of one path.
func ReadNodes(path string, own ...eventlog.OwnResource) ([]NodePlan, error) {
	return Sources{Paths: []string{path}, Own: own}.Nodes()
}

// Read is Sources.Workload of one path.
func Read(path string, own ...eventlog.OwnResource) (*Workload, error) {
	return Sources{Paths: []string{path}, Own: own}.Workload()
}

// Parse reads nodes and a workload from data, in whatever format it has; either may be empty. path is the name of data
// in messages. own are the resources that the configuration declares. An error about the content is an *InputError.
func Parse(path string, data io.Reader, own ...eventlog.OwnResource) ([]NodePlan, *Workload, error) {
	r := reader{own: own}
	if err := r.read(path, data); err != nil {
		return nil, nil, err
	}
	in, err := r.finish()
	if err != nil {
		return nil, nil, err
	}
	return in.nodes, &in.workload, nil
}

// format is one format that can be read.
type format struct {
	name string
	// documents splits a file of Kubernetes objects; nil for other formats, of which read reads a file.
	documents func(path string, data []byte, f func(*document) error) error
	read      func(in *input, path string, r io.Reader) error
}

// sniff recognises the format from the first bytes of a file.
func sniff(head []byte) (format, error) {
	if bytes.IndexByte(head, 0) >= 0 {
		return format{}, errors.New("binary data; of a log, what `rollcall log cat` prints is read")
	}
	line := firstLine(head)
	fields := strings.Fields(line)
	switch {
	case line == "":
		return format{}, errors.New("nothing but blank lines")
	case strings.HasPrefix(line, ";") || len(fields) == swfFields && isNumber(fields[0]):
		return format{name: "SWF file", read: readSWF}, nil
	case isHeader(line, openbNodeColumns):
		return format{name: "openb node list", read: readOpenbNodes}, nil
	case isHeader(line, openbPodColumns):
		return format{name: "openb pod list", read: readOpenbPods}, nil
	case isLog(head):
		return format{name: "log cat", read: readLog}, nil
	case strings.HasPrefix(line, "{"):
		return format{name: "Kubernetes JSON", documents: jsonDocuments}, nil
	case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "%YAML") ||
		strings.Contains(line, ":"):
		return format{name: "Kubernetes YAML", documents: yamlDocuments}, nil
	}
	return format{},
		fmt.Errorf("not a format that can be read (Kubernetes YAML or JSON, openb CSV, SWF, the output of `rollcall "+
			"log cat`): it begins %q", cut(line, 60))
}

// firstLine returns the first line that is not blank, trimmed.
func firstLine(head []byte) string {
	for line := range bytes.Lines(head) {
		if line := bytes.TrimSpace(line); len(line) > 0 {
			return string(line)
		}
	}
	return ""
}

// isHeader reports whether a line is the header of a CSV file with the given first column.
func isHeader(line string, columns []string) bool {
	return strings.HasPrefix(line, columns[0]+",")
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// cut shortens s to n bytes or a little more.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// lines reads r by line and calls f with each line and its number from 1, without its end. An error about a line
// becomes an *InputError.
func lines(path string, r io.Reader, f func(n int, line []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for s.Scan() {
		n++
		if err := f(n, s.Bytes()); err != nil {
			return &InputError{Path: path, Line: n, Err: err}
		}
	}
	if err := s.Err(); err != nil {
		return &InputError{Path: path, Line: n + 1, Err: err}
	}
	return nil
}

// maxDays is the number of days of the longest duration.
const maxDays = 106_751

// ParseDuration is time.ParseDuration with days before the hours, as in 1d, 1.5d and 2d12h. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(math.Abs(n) <= maxDays) {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 1h30m or 2d", cut(text, 40))
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || n < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 1h30m or 2d", cut(text, 40))
	}
	return d + more, nil
}

// maxSeconds is MaxOffset in seconds.
const maxSeconds = int64(MaxOffset / time.Second)

// wholeNumber parses a whole number that lies between low and high.
func wholeNumber(name, text string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a whole number", name, cut(text, 40))
	}
	if n < low || n > high {
		return 0, fmt.Errorf("%s: %d lies outside %d and %d", name, n, low, high)
	}
	return n, nil
}

// wholeSeconds returns s seconds, the run time according to a source with a clock of seconds. A run time below one
// counts as one, since a plan's zero means for ever.
func wholeSeconds(s int64) time.Duration { return time.Duration(max(1, s)) * time.Second }
