package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// isLog reports whether the beginning of a file in JSON is an entry of a log, or a list of entries: an object with the
// keys of an entry, in any order.
func isLog(head []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(head))
	depth := 0
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('['):
			if depth++; depth > 1 {
				return false
			}
		case json.Delim('{'):
			return hasEntryKeys(dec)
		default:
			return false
		}
	}
}

// hasEntryKeys reports whether the object that the decoder is in has the key seq, or epoch, among the keys that the
// text has.
func hasEntryKeys(dec *json.Decoder) bool {
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return false
		}
		if key == "seq" || key == "epoch" {
			return true
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return false
		}
	}
	return false
}

// jsonValues calls f with each of the JSON objects that follow one another, on lines of their own or not, or are in one
// list. An error names the line on which the object begins.
func jsonValues(path string, rd io.Reader, f func(value []byte) error) error {
	s := &jsonSplitter{line: 1}
	return s.each(path, rd, f)
}

// jsonSplitter finds the objects in a text. The parser of an object finds the errors within it.
type jsonSplitter struct {
	line  int // of the next byte
	begin int // the line on which the object begins
	value []byte
	depth int
	text  bool // within a string
	quote bool // the byte before was a backslash in a string
}

func (s *jsonSplitter) each(path string, rd io.Reader, f func([]byte) error) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := rd.Read(buffer)
		for _, b := range buffer[:n] {
			done, failed := s.add(b)
			if failed == nil && done {
				failed = f(s.value)
				s.value = s.value[:0]
			}
			if failed != nil {
				return &InputError{Path: path, Line: max(s.begin, 1), Err: failed}
			}
			if b == '\n' {
				s.line++
			}
		}
		switch {
		case errors.Is(err, io.EOF) && s.depth > 0:
			return &InputError{Path: path, Line: s.begin, Err: errors.New("the entry that begins here does not end")}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &InputError{Path: path, Line: s.line, Err: err}
		}
	}
}

// add adds a byte, and reports whether it ends an object.
func (s *jsonSplitter) add(b byte) (done bool, err error) {
	if s.depth == 0 {
		switch b {
		case ' ', '\t', '\r', '\n', ',', '[', ']':
			return false, nil
		case '{':
			s.begin = s.line
		default:
			s.begin = s.line
			return false, fmt.Errorf("%q where an entry, a JSON object, should begin", b)
		}
	}
	if s.value = append(s.value, b); len(s.value) > maxLine {
		return false, fmt.Errorf("an entry of more than %d bytes", maxLine)
	}
	switch {
	case s.quote:
		s.quote = false
	case s.text:
		s.quote, s.text = b == '\\', b != '"'
	case b == '"':
		s.text = true
	case b == '{':
		s.depth++
	case b == '}':
		s.depth--
		return s.depth == 0, nil
	}
	return false, nil
}
