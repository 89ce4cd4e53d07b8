package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
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

// The limits of the readers, in bytes.
const (
	maxFile  = 1 << 30  // of formats that are read as a whole (Kubernetes YAML and JSON)
	maxLine  = 64 << 20 // of formats that are read by line
	sniffLen = 64 << 10 // the bytes from which the format is recognised
)

// ReadNodes reads the nodes of a simulation: from the file at path, or, if path is a count and a shape such as
// 16x16cpu, as ParseNodeSpec does. Files are Kubernetes YAML or JSON (Node objects), an openb node list, or the export
// of a log. Other contents of such a file are checked as far as the format allows, and skipped. own are the resources
// that the configuration declares. An error about the content is an *InputError.
func ReadNodes(path string, own ...eventlog.OwnResource) ([]NodePlan, error) {
	if looksLikeNodeSpec(path) {
		return ParseNodeSpec(path)
	}
	in, err := readFile(path, own)
	if err != nil {
		return nil, err
	}
	if len(in.nodes) == 0 {
		return nil, &InputError{Path: path, Err: fmt.Errorf("%s without a node", in.format)}
	}
	return in.nodes, nil
}

// Read reads the workload of a simulation from the file at path: Kubernetes YAML or JSON, an openb pod list, an SWF
// file, or the export of a log. Nodes in such a file are skipped, with a note. own are the resources that the
// configuration declares: their objects are read too. An error about the content is an *InputError.
func Read(path string, own ...eventlog.OwnResource) (*Workload, error) {
	in, err := readFile(path, own)
	if err != nil {
		return nil, err
	}
	if len(in.workload.Pods) == 0 {
		return nil, &InputError{Path: path, Err: fmt.Errorf("%s without a pod", in.format)}
	}
	if n := len(in.nodes); n > 0 {
		in.note("%s holds %d nodes, which are not part of the workload", path, n)
	}
	return &in.workload, nil
}

// Parse reads nodes and a workload from data, in whatever format it has; either may be empty. path is the name of data
// in messages. own are the resources that the configuration declares. An error about the content is an *InputError.
func Parse(path string, data io.Reader, own ...eventlog.OwnResource) ([]NodePlan, *Workload, error) {
	in, err := read(path, data, own)
	if err != nil {
		return nil, nil, err
	}
	return in.nodes, &in.workload, nil
}

// input is the content of a file.
type input struct {
	format   string
	nodes    []NodePlan
	workload Workload
	own      []eventlog.OwnResource // declared by the configuration
	// lines are the lines of objects, by resource and name; nil if the format has none.
	lines map[string]int
}

// note keeps a remark for people.
func (in *input) note(format string, args ...any) {
	in.workload.Notes = append(in.workload.Notes, fmt.Sprintf(format, args...))
}

// readFile reads the file in whatever format it has.
func readFile(path string, own []eventlog.OwnResource) (*input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	defer f.Close()
	return read(path, f, own)
}

// read reads data in whatever format it has. path is its name in messages.
func read(path string, data io.Reader, own []eventlog.OwnResource) (*input, error) {
	r := bufio.NewReaderSize(data, sniffLen)
	head, err := r.Peek(sniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	format, err := sniff(head)
	if err != nil {
		return nil, &InputError{Path: path, Err: err}
	}
	in := &input{format: format.name, own: own}
	if err := format.read(in, path, r); err != nil {
		return nil, err
	}
	in.workload.noteSchedulers(path, in.lines)
	return in, nil
}

// format is one format that can be read.
type format struct {
	name string
	read func(in *input, path string, r io.Reader) error
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
		return format{"SWF file", readSWF}, nil
	case isHeader(line, openbNodeColumns):
		return format{"openb node list", readOpenbNodes}, nil
	case isHeader(line, openbPodColumns):
		return format{"openb pod list", readOpenbPods}, nil
	case isLog(head):
		return format{"log cat", readLog}, nil
	case strings.HasPrefix(line, "{"):
		return format{"Kubernetes JSON", readJSON}, nil
	case strings.HasPrefix(line, "---") || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "%YAML") ||
		strings.Contains(line, ":"):
		return format{"Kubernetes YAML", readYAML}, nil
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
