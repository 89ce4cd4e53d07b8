package dump

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// yamlSplitter cuts a stream of YAML documents into items. It reads lines, and understands only as much of YAML as the
// output of kubectl and must-gather needs. Documents end with "---", and the items of a list begin with a dash below
// "items:".
type yamlSplitter struct {
	in   io.Reader
	file string
	emit func(*item) error

	line int
	at   int64

	rest    *item // the document without its list
	current *item // the item at hand; nil for none
	dash    int   // the column of the dashes of items; -1 before the first
	listed  bool  // the document has "items:"
	inList  bool  // the lines at hand are below it
	nth     int
	named   bool // the items have kinds of their own
	unnamed []*item
	bytes   int
}

// run emits the items of all documents.
func (s *yamlSplitter) run() error {
	in := bufio.NewReaderSize(s.in, 1<<20)
	s.begin()
	for {
		line, err := s.read(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: at line %d: %w", s.file, s.line+1, err)
		}
		if len(line) > 0 {
			s.line++
			if err := s.take(line); err != nil {
				return err
			}
			s.at += int64(len(line))
		}
		if err != nil {
			return s.end()
		}
	}
}

// read returns the next line, with its end.
func (s *yamlSplitter) read(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(long) > maxItem {
			return nil, fmt.Errorf("a line of more than %d MiB", maxItem>>20)
		}
		line, err = in.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// begin begins a document.
func (s *yamlSplitter) begin() {
	*s = yamlSplitter{in: s.in, file: s.file, emit: s.emit, line: s.line, at: s.at, dash: -1}
}

// take takes a line.
func (s *yamlSplitter) take(line []byte) error {
	if bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")) {
		if err := s.end(); err != nil {
			return err
		}
		s.begin()
		return nil
	}
	text := bytes.TrimRight(line, " \r\n")
	if len(text) == 0 && s.current == nil && s.rest == nil {
		return nil
	}
	column := len(text) - len(bytes.TrimLeft(text, " "))
	switch {
	case !s.inList && column == 0 && bytes.Equal(text, []byte("items:")):
		s.inList, s.listed = true, true
		return nil
	case !s.inList || len(text) == 0:
	case s.isDash(text, column):
		return s.nextItem(line, column)
	case column == 0 && text[0] != '#':
		s.inList = false
		if err := s.endItem(); err != nil {
			return err
		}
	}
	return s.keep(line)
}

// isDash reports whether a line below "items:" begins an item.
func (s *yamlSplitter) isDash(text []byte, column int) bool {
	dash := text[column] == '-' && (len(text) == column+1 || text[column+1] == ' ')
	return dash && (s.dash < 0 || s.dash == column)
}

// nextItem ends the item before, and begins one with a line whose dash becomes a space.
func (s *yamlSplitter) nextItem(line []byte, column int) error {
	if err := s.endItem(); err != nil {
		return err
	}
	s.dash = column
	s.current = &item{yaml: true, file: s.file, at: s.at, line: s.line, nth: s.nth}
	s.nth++
	first := bytes.Clone(line)
	first[column] = ' '
	return s.keep(first)
}

// keep adds a line to the item at hand, or to the rest of the document.
func (s *yamlSplitter) keep(line []byte) error {
	to := s.current
	if to == nil {
		if s.rest == nil {
			s.rest = &item{yaml: true, file: s.file, at: s.at, line: s.line, nth: -1}
		}
		to = s.rest
	}
	if len(to.text)+len(line) > maxItem {
		return to.failed(fmt.Errorf("an object of more than %d MiB", maxItem>>20))
	}
	to.text = append(to.text, line...)
	return nil
}

// endItem passes the item at hand on. One without a kind waits for the end of its list.
func (s *yamlSplitter) endItem() error {
	it := s.current
	if s.current = nil; it == nil {
		return nil
	}
	if it.nth == 0 {
		s.named = it.hasKind()
	}
	if s.named {
		return s.emit(it)
	}
	s.unnamed = append(s.unnamed, it)
	if s.bytes += len(it.text); s.bytes > maxUnnamed {
		return it.failed(errors.New("the items of the list have no kind: make the dump with kubectl get -o json"))
	}
	return nil
}

// end ends a document.
func (s *yamlSplitter) end() error {
	if err := s.endItem(); err != nil {
		return err
	}
	if !s.listed {
		if s.rest == nil || onlyComments(s.rest.text) {
			return nil
		}
		return s.emit(s.rest)
	}
	var version, kind string
	if s.rest != nil {
		version, kind = yamlHead(s.rest.text)
	}
	for _, it := range s.unnamed {
		it.version, it.kind = version, strings.TrimSuffix(kind, "List")
		if err := s.emit(it); err != nil {
			return err
		}
	}
	return nil
}

// onlyComments reports whether YAML has nothing but comments and empty lines.
func onlyComments(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// yamlHead returns the apiVersion and the kind of a YAML document, as far as they begin in the column of its first
// line.
func yamlHead(text []byte) (version, kind string) {
	column := -1
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, " \r\n")
		here := len(line) - len(bytes.TrimLeft(line, " "))
		if here == len(line) || line[here] == '#' {
			continue
		}
		if column < 0 {
			column = here
		}
		if here != column {
			continue
		}
		name, value, _ := strings.Cut(string(line[here:]), ":")
		switch value = strings.Trim(strings.TrimSpace(value), `"'`); name {
		case "apiVersion":
			version = value
		case "kind":
			kind = value
		}
	}
	return version, kind
}
