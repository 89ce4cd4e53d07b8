package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits on JSON. An API server accepts no object above 3 MiB. An audit event holds two of them.
const (
	maxItem    = 16 << 20 // bytes of one item
	maxDepth   = 200      // levels of nesting
	maxUnnamed = 64 << 20 // bytes of items that come before the kind of their list
)

// An item is one object, or one event of an audit log, as text.
type item struct {
	text []byte
	yaml bool
	file string
	at   int64 // the offset of its first byte in the file
	line int   // the line of its first byte, in YAML; 0 in JSON
	nth  int   // its place in the list, from 0; -1 for one that is in no list
	// version and kind are from the list that it is in; "" if the list does not have them.
	version, kind string
}

// place names the item for a person.
func (it *item) place() string {
	text := fmt.Sprintf("%s: at byte %d", it.file, it.at)
	if it.line > 0 {
		text = fmt.Sprintf("%s: at line %d", it.file, it.line)
	}
	if it.nth >= 0 {
		text += fmt.Sprintf(" (item %d of the list)", it.nth)
	}
	return text
}

// failed returns an error about the item.
func (it *item) failed(err error) error { return fmt.Errorf("%s: %w", it.place(), err) }

// jsonSplitter cuts a stream of JSON documents into items. A document is an object, or a list of objects. It checks
// only as much of the syntax as it needs for that: the decoder of an item checks the rest.
type jsonSplitter struct {
	in   io.Reader
	file string
	emit func(*item) error

	buffer []byte
	next   int   // the first byte of buffer that was not read
	before int64 // the bytes before buffer
	ended  bool
	usual  int // the size of the last item
}

// simulatorLists are the lists in an export of kube-scheduler-simulator, with the kinds of their objects.
var simulatorLists = map[string][2]string{
	"pods": {"v1", "Pod"}, "nodes": {"v1", "Node"}, "namespaces": {"v1", "Namespace"},
	"pvs": {"v1", "PersistentVolume"}, "pvcs": {"v1", "PersistentVolumeClaim"},
	"storageClasses":  {"storage.k8s.io/v1", "StorageClass"},
	"priorityClasses": {"scheduling.k8s.io/v1", "PriorityClass"},
}

// run emits the items of all documents.
func (s *jsonSplitter) run() error {
	s.buffer = make([]byte, 0, 1<<20)
	for {
		c, err := s.space()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			switch c {
			case '{':
				err = s.document()
			case '[':
				s.next++
				err = s.list(&listHead{})
			default:
				err = s.errorf("want the beginning of an object, found %q", c)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *jsonSplitter) at() int64 { return s.before + int64(s.next) }

func (s *jsonSplitter) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: at byte %d: %w", s.file, s.at(), fmt.Errorf(format, args...))
}

// cut is the error for a file that ends too early.
func (s *jsonSplitter) cut(err error, within string) error {
	if errors.Is(err, io.EOF) {
		return s.errorf("the file ends within %s: it is not complete; make the dump again", within)
	}
	return err
}

// fill reads more. It returns io.EOF at the end, and other errors with the file's name.
func (s *jsonSplitter) fill() error {
	if s.ended {
		return io.EOF
	}
	s.before += int64(len(s.buffer))
	s.buffer, s.next = s.buffer[:0], 0
	n, err := s.in.Read(s.buffer[:cap(s.buffer)])
	s.buffer = s.buffer[:n]
	if errors.Is(err, io.EOF) {
		s.ended, err = true, nil
	}
	if err != nil {
		return fmt.Errorf("%s: at byte %d: %w", s.file, s.at(), err)
	}
	return nil
}

// peek returns the next byte.
func (s *jsonSplitter) peek() (byte, error) {
	for s.next == len(s.buffer) {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return s.buffer[s.next], nil
}

// space skips white space, and returns the byte after it, which is not read yet.
func (s *jsonSplitter) space() (byte, error) {
	for {
		c, err := s.peek()
		if err != nil || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, err
		}
		s.next++
	}
}

// listHead has the facts of a document about its lists.
type listHead struct {
	version, kind string
	named         bool    // the items have kinds of their own
	unnamed       []*item // items that wait for the kind
	bytes         int
}

// document reads an object: a list, an export of the simulator, or one item.
func (s *jsonSplitter) document() error {
	own := &item{file: s.file, at: s.at(), nth: -1, text: []byte{'{'}}
	head, lists := &listHead{}, 0
	s.next++
	for {
		c, err := s.space()
		if err != nil {
			return s.cut(err, "an object")
		}
		if c == '}' {
			s.next++
			break
		}
		if c == ',' {
			s.next++
			continue
		}
		streamed, err := s.member(own, head)
		if err != nil {
			return err
		}
		if streamed {
			lists++
		}
	}
	own.text = append(own.text, '}')
	if lists > 0 {
		return s.close(head, own)
	}
	return s.emit(own)
}

// member reads one member of a document. It emits the items of a list, and keeps everything else in own.
func (s *jsonSplitter) member(own *item, head *listHead) (streamed bool, err error) {
	key, err := s.value(nil, true)
	if err != nil {
		return false, err
	}
	c, err := s.space()
	if err == nil && c != ':' {
		return false, s.errorf("want a colon after the name of a member, found %q", c)
	}
	if err == nil {
		s.next++
		c, err = s.space()
	}
	if err != nil {
		return false, s.cut(err, "an object")
	}
	name := string(bytes.Trim(key, `"`))
	kind, ofSimulator := simulatorLists[name]
	if c == '[' && (name == "items" || ofSimulator) {
		s.next++
		if ofSimulator {
			return true, s.list(&listHead{version: kind[0], kind: kind[1]})
		}
		return true, s.list(head)
	}
	if len(own.text) > 1 {
		own.text = append(own.text, ',')
	}
	own.text = append(append(own.text, key...), ':')
	start := len(own.text)
	if own.text, err = s.value(own.text, false); err != nil {
		return false, err
	}
	switch name {
	case "kind":
		head.kind = string(bytes.TrimSuffix(bytes.Trim(own.text[start:], `"`), []byte("List")))
	case "apiVersion":
		head.version = string(bytes.Trim(own.text[start:], `"`))
	}
	return false, nil
}

// list emits the items of a list behind its bracket.
func (s *jsonSplitter) list(head *listHead) error {
	for nth := 0; ; {
		c, err := s.space()
		if err != nil {
			return s.cut(err, "a list")
		}
		switch c {
		case ']':
			s.next++
			return nil
		case ',':
			s.next++
			continue
		case '{':
		case 'n': // null
			if _, err := s.value(nil, false); err != nil {
				return err
			}
			nth++
			continue
		default:
			return s.errorf("want an object in the list (item %d), found %q", nth, c)
		}
		it := &item{file: s.file, at: s.at(), nth: nth, version: head.version, kind: head.kind}
		if it.text, err = s.value(newText(s.usual+s.usual/8+512), false); err != nil {
			return fmt.Errorf("%w (item %d of the list)", err, nth)
		}
		s.usual = len(it.text)
		if err := s.pass(head, it); err != nil {
			return err
		}
		nth++
	}
}

// pass emits an item of a list. An item without a kind waits for the kind of its list, if that is to come.
func (s *jsonSplitter) pass(head *listHead, it *item) error {
	if it.nth == 0 {
		head.named = it.hasKind()
	}
	if head.named || head.kind != "" && head.version != "" {
		return s.emit(it)
	}
	head.unnamed = append(head.unnamed, it)
	if head.bytes += len(it.text); head.bytes > maxUnnamed {
		return it.failed(errors.New("the items of the list have no kind, and the list names it only behind them: " +
			"make the dump with kubectl get -o json"))
	}
	return nil
}

// close emits the items that have waited for the end of their document, and the rest of an export of the simulator.
func (s *jsonSplitter) close(head *listHead, own *item) error {
	for _, it := range head.unnamed {
		it.version, it.kind = head.version, head.kind
		if err := s.emit(it); err != nil {
			return err
		}
	}
	if bytes.Contains(own.text, []byte(`"`+schedulerConfig+`"`)) {
		own.kind = schedulerConfig
		return s.emit(own)
	}
	return nil
}

// value appends the next value to dst. Its nesting and its size are limited.
func (s *jsonSplitter) value(dst []byte, isKey bool) ([]byte, error) {
	if c, err := s.space(); err != nil {
		return dst, s.cut(err, "an object")
	} else if isKey && c != '"' {
		return dst, s.errorf("want the name of a member in quotes, found %q", c)
	}
	scan := valueScan{limit: maxItem}
	for {
		n, over, err := scan.take(s.buffer[s.next:])
		if len(dst)+n > scan.limit {
			return dst, s.errorf("an object of more than %d MiB", maxItem>>20)
		}
		dst = append(dst, s.buffer[s.next:s.next+n]...)
		if s.next += n; err != nil {
			return dst, s.errorf("%w", err)
		}
		if over {
			return dst, nil
		}
		if _, err := s.peek(); errors.Is(err, io.EOF) && scan.isPlain() {
			return dst, nil
		} else if err != nil {
			return dst, s.cut(err, "an object")
		}
	}
}

// valueScan finds the end of a JSON value that comes in parts.
type valueScan struct {
	limit   int
	depth   int
	quoted  bool // within a string
	escaped bool // behind a backslash
	began   bool // a number or a word has begun
}

func (v *valueScan) isPlain() bool { return v.began && v.depth == 0 && !v.quoted }

var errTooDeep = fmt.Errorf("objects are nested more than %d deep", maxDepth)

// marks are the bytes that end or nest something: outside of strings, and within them.
var (
	outside = table(`"{}[]`)
	within  = table(`"\`)
)

func table(marks string) (t [256]bool) {
	for i := range len(marks) {
		t[marks[i]] = true
	}
	return t
}

// take returns the number of bytes of text that belong to the value, and whether the value ends with them.
func (v *valueScan) take(text []byte) (n int, over bool, err error) {
	for i := 0; i < len(text); i++ {
		if v.quoted {
			if i = v.inString(text, i); i == len(text) {
				break
			}
			if !v.quoted && v.depth == 0 {
				return i + 1, true, nil
			}
			continue
		}
		if v.depth > 0 { // white space, commas, numbers and words mean nothing
			for i < len(text) && !outside[text[i]] {
				i++
			}
			if i == len(text) {
				break
			}
		}
		switch c := text[i]; c {
		case '"':
			v.quoted = true
		case '{', '[':
			if v.depth++; v.depth > maxDepth {
				return i, false, errTooDeep
			}
		case '}', ']', ',', ' ', '\n', '\t', '\r':
			if v.depth == 0 {
				return i, true, nil
			}
			if v.depth--; v.depth == 0 {
				return i + 1, true, nil
			}
		default:
			v.began = true
		}
	}
	return len(text), false, nil
}

// inString skips a part of a string. It returns the place of its quote, or of an escaped byte.
func (v *valueScan) inString(text []byte, i int) int {
	if v.escaped {
		v.escaped = false
		return i
	}
	for i < len(text) && !within[text[i]] {
		i++
	}
	if i < len(text) {
		v.escaped, v.quoted = text[i] == '\\', text[i] != '"'
	}
	return i
}
