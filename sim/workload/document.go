package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/rollcall-sched/rollcall/eventlog"
)

// document is one API object in a file: its JSON, and the lines of its fields.
type document struct {
	path string
	// line is the line on which the object's YAML or JSON document begins; offset is added to the tree's lines.
	line, offset int
	body         []byte
	// tree is the object as YAML, for the lines of its fields; nil if they are not known.
	tree *yamlv3.Node
	// base is the path of the part of the object in body, with a dot at the end; "" for the whole object.
	base string
}

// place returns where the document begins.
func (d *document) place() place { return place{d.path, d.line} }

// part returns the part of the object at a path, with this value.
func (d *document) part(path string, value any) (*document, error) {
	part := *d
	part.base = d.base + path + "."
	body, err := json.Marshal(value)
	if err != nil {
		return nil, d.errorf(path, "%s: %w", path, err)
	}
	part.body = body
	return &part, nil
}

// errorf returns an error about the field of that path ("" for the whole object), with the line of the field, or of
// the deepest existing field above it.
func (d *document) errorf(fieldPath, format string, args ...any) error {
	line := d.line
	if d.tree != nil {
		line = d.offset + deepest(d.tree, splitPath(d.base+fieldPath)).Line
	}
	err := fmt.Errorf(format, args...)
	if d.base != "" {
		err = fmt.Errorf("%s: %w", strings.TrimSuffix(d.base, "."), err)
	}
	return &InputError{Path: d.path, Line: line, Err: err}
}

// decode decodes the object strictly.
func (d *document) decode(into any) error {
	if bad, ok := errors.AsType[*eventlog.QuantityError](eventlog.CheckQuantities(d.body)); ok {
		return d.errorf(bad.Path, "%w", bad)
	}
	strict, err := sigsjson.UnmarshalStrict(d.body, into)
	if err != nil {
		if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return d.errorf(t.Field, "%s where %s is expected", strings.TrimPrefix(t.Field+": "+t.Value, ": "), t.Type)
		}
		if bad, reason := badQuantity(d.tree); bad != nil {
			return &InputError{d.path, d.offset + bad.Line, fmt.Errorf("quantity %q: %w", cut(bad.Value, 40), reason)}
		}
		return d.errorf("", "%w", err)
	}
	if len(strict) > 0 {
		path := ""
		if f, ok := errors.AsType[sigsjson.FieldError](strict[0]); ok {
			path = f.FieldPath()
		}
		return d.errorf(path, "%w", strict[0])
	}
	return nil
}

// withoutStatus returns the object without its status, which its Go type does not have.
func (d *document) withoutStatus() (*document, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(d.body, &fields); err != nil {
		return nil, d.errorf("", "%w", err)
	}
	delete(fields, "status")
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, d.errorf("", "%w", err)
	}
	bare := *d
	bare.body = body
	return &bare, nil
}

// named is the object's name for a message about its kind, after a blank; "" if it has none.
func (d *document) named() string {
	var object struct {
		Metadata struct{ Namespace, Name string }
	}
	// Text that cannot be read has no name.
	if err := json.Unmarshal(d.body, &object); err != nil || object.Metadata.Name == "" {
		return ""
	}
	m := object.Metadata
	return " (" + cut(strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"), 80) + ")"
}

// annotated reports whether the object has an annotation of that name.
func (d *document) annotated(name string) bool {
	var object struct {
		Metadata struct{ Annotations map[string]any }
	}
	if err := json.Unmarshal(d.body, &object); err != nil {
		return false
	}
	_, given := object.Metadata.Annotations[name]
	return given
}

// invalid turns the first of the API's own complaints into an error; nil if there is none. prefix is added to the path
// of a complaint about a part of the object.
func (d *document) invalid(list field.ErrorList, prefix string) error {
	if len(list) == 0 {
		return nil
	}
	e := *list[0]
	e.Field = prefix + e.Field
	return d.errorf(e.Field, "%w", &e)
}

// splitPath splits a path such as spec.containers[0].resources.requests[cpu] into its steps.
func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// deepest walks down from a node along the steps as far as possible, and returns the node there. A key with dots takes
// several steps. The key represents the value under it.
func deepest(n *yamlv3.Node, steps []string) *yamlv3.Node {
	at := n
	for len(steps) > 0 {
		if n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		switch n.Kind {
		case yamlv3.MappingNode:
			key, value, taken := lookUp(n, steps)
			if key == nil {
				return at
			}
			at, n, steps = key, value, steps[taken:]
		case yamlv3.SequenceNode:
			i, err := strconv.Atoi(steps[0])
			if err != nil || i < 0 || i >= len(n.Content) {
				return at
			}
			n = n.Content[i]
			at, steps = n, steps[1:]
		default:
			return at
		}
	}
	return at
}

// lookUp finds the key that the first steps, joined by dots, name.
func lookUp(mapping *yamlv3.Node, steps []string) (key, value *yamlv3.Node, taken int) {
	for taken := 1; taken <= len(steps); taken++ {
		name := strings.Join(steps[:taken], ".")
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == name {
				return mapping.Content[i], mapping.Content[i+1], taken
			}
		}
	}
	return nil, nil, 0
}

// yamlLine finds a line number in an error of a YAML parser.
var yamlLine = regexp.MustCompile(`line ([0-9]+): `)

// yamlError adds the place in the file to an error of a YAML parser.
func yamlError(path string, first int, err error) error {
	line, text := first, err.Error()
	if m := yamlLine.FindStringSubmatchIndex(text); m != nil {
		if n, convErr := strconv.Atoi(text[m[2]:m[3]]); convErr == nil {
			line = first + n - 1
		}
		text = text[:m[0]] + text[m[1]:]
	}
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:"} {
		text = strings.TrimPrefix(text, prefix)
	}
	return &InputError{path, line, errors.New(strings.Join(strings.Fields(text), " "))}
}

// yamlDocuments splits a file at its lines that begin with --- and calls f with the documents that are not empty.
func yamlDocuments(path string, data []byte, f func(*document) error) error {
	first, next := 1, 1
	var text []byte
	flush := func() error {
		d, err := yamlDocument(path, first, text)
		if d == nil || err != nil {
			return err
		}
		return f(d)
	}
	for line := range bytes.Lines(data) {
		if rest, is := bytes.CutPrefix(line, []byte("---")); is &&
			(len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t') {
			if err := flush(); err != nil {
				return err
			}
			// Text after --- on its line belongs to the document; blanks keep its columns.
			first, text = next, append([]byte("   "), rest...)
		} else {
			text = append(text, line...)
		}
		next++
	}
	return flush()
}

// yamlDocument reads one document that begins at line first; nil if it holds nothing.
func yamlDocument(path string, first int, text []byte) (*document, error) {
	var root yamlv3.Node
	// One parser finds the lines, and another the values: if the first fails, only the lines are missing.
	unknown := yamlv3.Unmarshal(text, &root)
	if size := expandedSize(&root, map[*yamlv3.Node]int64{}); size > 1<<10+maxExpanded*int64(len(text)) {
		return nil, &InputError{path, first, fmt.Errorf("its aliases (*name) make %d bytes of a document of %d: write "+
			"the values where they are used", size, len(text))}
	}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil && onlyMerged(&root) {
		body, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		return nil, yamlError(path, first, err)
	}
	if string(body) == "null" {
		return nil, nil
	}
	d := &document{path: path, line: first, offset: first - 1, body: body}
	if unknown == nil && len(root.Content) == 1 {
		d.tree = root.Content[0]
		d.line = d.offset + d.tree.Line
	}
	return d, nil
}

// onlyMerged reports whether keys stand twice only because a mapping replaces values of another one that it merges
// (<<: *name). The strict parser refuses that, and clients of the API server take it. The merge must come first in the
// mapping: parsers disagree about the precedence of keys before it.
func onlyMerged(root *yamlv3.Node) bool {
	merged := false
	var once func(n *yamlv3.Node) bool
	once = func(n *yamlv3.Node) bool {
		keys := map[string]bool{}
		for i, child := range n.Content {
			if n.Kind == yamlv3.MappingNode && i%2 == 0 {
				isMerge := child.Tag == "!!merge"
				if merged = merged || isMerge; keys[child.Value] || isMerge && i > 0 {
					return false
				}
				keys[child.Value] = true
			}
			if !once(child) {
				return false
			}
		}
		return true
	}
	return once(root) && merged
}

// jsonDocuments calls f with the JSON values of a file, one after the other. Lines --- between them are ignored.
func jsonDocuments(path string, data []byte, f func(*document) error) error {
	data = jsonSeparator.ReplaceAll(data, []byte("   ")) // in no value: strings of JSON have no line breaks
	decoder := json.NewDecoder(bytes.NewReader(data))
	lineAt := func(offset int64) int { return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n")) }
	for {
		before := decoder.InputOffset()
		var body json.RawMessage
		if err := decoder.Decode(&body); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			offset := int64(len(data))
			if s, ok := errors.AsType[*json.SyntaxError](err); ok {
				offset = s.Offset
			}
			return &InputError{path, lineAt(offset), err}
		}
		blank := len(data[before:]) - len(bytes.TrimLeft(data[before:], " \t\r\n"))
		first := lineAt(before + int64(blank))
		d := &document{path: path, line: first, offset: first - 1, body: body}
		var root yamlv3.Node
		if err := yamlv3.Unmarshal(bytes.ReplaceAll(body, []byte("\t"), []byte(" ")), &root); err == nil &&
			len(root.Content) == 1 {
			d.tree = root.Content[0]
		}
		if err := f(d); err != nil {
			return err
		}
	}
}

var jsonSeparator = regexp.MustCompile(`(?m)^---[ \t\r]*$`)

// readAll reads a whole file.
func readAll(path string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, &InputError{Path: path, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return data, nil
}
