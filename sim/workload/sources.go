package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// endings are the endings of the files that are read of a directory, before .gz if they are compressed.
var endings = []string{".yaml", ".yml", ".json", ".jsonl", ".csv", ".swf"}

// read reads all sources.
func (s Sources) read() (in input, err error) {
	r := reader{own: s.Own}
	for i, path := range s.Paths {
		switch {
		case path != stdin:
			err = r.readPath(path)
		case slices.Contains(s.Paths[:i], stdin):
			err = &InputError{Path: path, Err: errors.New("standard input can be read once")}
		case s.Stdin == nil:
			err = &InputError{Path: path, Err: errors.New("there is no standard input to read")}
		default:
			err = r.read("standard input", s.Stdin)
		}
		if err != nil {
			return in, err
		}
	}
	return r.finish()
}

// input is the content of files.
type input struct {
	format   string
	nodes    []NodePlan
	workload Workload
	own      []eventlog.OwnResource // declared by the configuration
	// places are the places of objects, by resource and name; nil if the format has none.
	places map[string]place
}

// place is the place of an object in a file.
type place struct {
	path string
	line int
}

// note keeps a remark for people.
func (in *input) note(format string, args ...any) {
	in.workload.Notes = append(in.workload.Notes, fmt.Sprintf(format, args...))
}

// add adds the content of another file. path is its name in messages.
func (in *input) add(other *input, path string) error {
	nodes := map[string]bool{}
	for _, n := range in.nodes {
		nodes[n.Node.Name] = true
	}
	for _, n := range other.nodes {
		if nodes[n.Node.Name] {
			return other.twice(path, eventlog.Nodes, n.Node.Name)
		}
	}
	pods := make(map[string]bool, len(in.workload.Pods))
	for i := range in.workload.Pods {
		pods[in.workload.Pods[i].Namespace+"/"+in.workload.Pods[i].Name] = true
	}
	for i := range other.workload.Pods {
		p := &other.workload.Pods[i]
		if name := p.Namespace + "/" + p.Name; pods[name] {
			return other.twice(path, eventlog.Pods, name)
		}
	}
	key := func(o ObjectPlan) string { return string(o.Resource) + " " + ObjectName(o.Object) }
	objects := map[string]bool{}
	for _, o := range in.workload.Objects {
		objects[key(o)] = true
	}
	for _, o := range other.workload.Objects {
		if objects[key(o)] {
			return other.twice(path, o.Resource, ObjectName(o.Object))
		}
	}
	in.nodes = append(in.nodes, other.nodes...)
	in.workload.add(&other.workload)
	if in.format == "" {
		in.format = other.format
	} else if in.format != other.format {
		in.format = "files"
	}
	return nil
}

// twice returns the error that an object is in an earlier file as well.
func (in *input) twice(path string, res eventlog.Resource, name string) error {
	at := in.places[string(res)+" "+name]
	if at.path != "" {
		path = at.path
	}
	return &InputError{path, at.line, fmt.Errorf("%s %s is in an earlier file too: rename one of them", res, name)}
}

// reader reads files one after the other. The objects of all Kubernetes files belong to one manifest: the pods of one
// file may be of a class or a gang of another one.
type reader struct {
	own      []eventlog.OwnResource
	parts    []part
	manifest *manifest
	notes    []string
}

// part is the content of the files of one format, and its name in messages.
type part struct {
	*input
	path string
}

// finish returns the content of all files.
func (r *reader) finish() (in input, err error) {
	if m := r.manifest; m != nil {
		if err := m.finish(); err != nil {
			return in, err
		}
	}
	for _, each := range r.parts {
		each.workload.noteSchedulers(each.path, each.places)
		if err := in.add(each.input, each.path); err != nil {
			return in, err
		}
	}
	in.workload.Notes = append(in.workload.Notes, r.notes...)
	return in, nil
}

// readPath reads a file or a directory.
func (r *reader) readPath(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read workload: %w", err)
	}
	if info.IsDir() {
		return r.readDirectory(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read workload: %w", err)
	}
	defer f.Close()
	return r.read(path, f)
}

// readDirectory reads the files of a directory that have a known ending, by name.
func (r *reader) readDirectory(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read workload: %w", err)
	}
	var skipped []string
	found := false
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows symbolic links
		if err != nil {
			return fmt.Errorf("read workload: %w", err)
		}
		ending := filepath.Ext(strings.TrimSuffix(e.Name(), ".gz"))
		if info.IsDir() || !slices.Contains(endings, ending) {
			skipped = append(skipped, e.Name())
			continue
		}
		found = true
		if err := r.readPath(path); err != nil {
			return err
		}
	}
	if !found {
		return &InputError{Path: dir, Err: fmt.Errorf("a directory without a file that ends in %s: name the files, or "+
			"the directory that has them", strings.Join(endings, ", "))}
	}
	if n := len(skipped); n > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%s: %d of its entries are not read, %s first: files end in %s, and "+
			"subdirectories are named on their own", dir, n, skipped[0], strings.Join(endings, ", ")))
	}
	return nil
}

// read reads data in whatever format it has. path is its name in messages.
func (r *reader) read(path string, data io.Reader) error {
	buffered := bufio.NewReaderSize(data, sniffLen)
	if head, _ := buffered.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return &InputError{Path: path, Err: err}
		}
		buffered = bufio.NewReaderSize(unzipped, sniffLen)
	}
	head, err := buffered.Peek(sniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	format, err := sniff(head)
	if err != nil {
		return &InputError{Path: path, Err: err}
	}
	if format.documents == nil {
		in := &input{format: format.name, own: r.own}
		r.parts = append(r.parts, part{in, path})
		return format.read(in, path, buffered)
	}
	if r.manifest == nil {
		in := &input{format: format.name, own: r.own}
		r.manifest = newManifest(in)
		r.parts = append(r.parts, part{in, path})
	}
	all, err := readAll(path, buffered)
	if err != nil {
		return err
	}
	return format.documents(path, all, r.manifest.add)
}

// counted returns a number and its words, for one or for several.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + several
}
