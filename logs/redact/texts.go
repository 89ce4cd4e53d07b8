package redact

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// texts replaces single texts, each by its kind. In the first visit it adds them to the names instead.
type texts struct {
	names *Names
	// replace says that this is the second visit.
	replace bool
	// numeric has the keys of labels and taints that some selector compares as numbers. Their numbers are kept.
	numeric map[string]bool
	// keptLabels are the keys of labels and taints whose values are kept because the caller asks for that.
	keptLabels map[string]bool
	// err is the first error.
	err error
}

// fail keeps the first error.
func (w *texts) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// text returns the pseudonym of a text. It returns the text itself in the first visit, and adds it.
func (w *texts) text(kind Kind, text string) string {
	switch {
	case text == "" || text == claimInMemory:
		return text
	case !w.replace && kind == Namespace:
		w.names.AddStem(text)
		return text
	case !w.replace:
		w.names.Add(text)
		return text
	}
	pseudonym, ok := w.names.Pseudonym(kind, text)
	if !ok {
		w.fail("a text of the kind %q was not found when the log was read first", kind)
	}
	return pseudonym
}

// uid returns the pseudonym of a UID.
func (w *texts) uid(uid types.UID) types.UID { return types.UID(w.text(UID, string(uid))) }

// parts replaces the parts of a text between separators.
func (w *texts) parts(kind Kind, text, separator string) string {
	list := strings.Split(text, separator)
	for i := range list {
		list[i] = w.text(kind, list[i])
	}
	return strings.Join(list, separator)
}

// gangs replaces names in NAMESPACE/NAME,NAMESPACE/NAME, or one name.
func (w *texts) gangs(text string) string {
	list := strings.Split(text, ",")
	for i, one := range list {
		namespace, name, ok := strings.Cut(one, "/")
		if !ok {
			list[i] = w.text(Gang, one)
			continue
		}
		list[i] = w.text(Namespace, namespace) + "/" + w.text(Gang, name)
	}
	return strings.Join(list, ",")
}

// domain replaces the values of LABEL,LABEL=VALUE, VALUE; LABEL=VALUE.
func (w *texts) domain(text string) string {
	levels := strings.Split(text, "; ")
	for i, level := range levels {
		keys, values, ok := strings.Cut(level, "=")
		if !ok {
			levels[i] = w.text(LabelValue, level)
			continue
		}
		labels, list := strings.Split(keys, ","), strings.Split(values, ", ")
		for k := range list {
			list[k] = w.label(labels[min(k, len(labels)-1)], list[k])
		}
		levels[i] = keys + "=" + strings.Join(list, ", ")
	}
	return strings.Join(levels, "; ")
}

// label replaces a value of a label or a taint.
func (w *texts) label(key, value string) string {
	if w.keptLabels[key] {
		return value
	}
	if w.replace && w.numeric[key] {
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			return value
		}
	}
	kind := LabelValue
	if gangKeys[key] {
		kind = Gang
	}
	if hasZones(key) && strings.Contains(value, zoneSeparator) {
		return w.parts(kind, value, zoneSeparator)
	}
	return w.text(kind, value)
}

// compares notes the operator of a requirement.
func (w *texts) compares(key, operator string) {
	if operator == "Gt" || operator == "Lt" {
		w.numeric[key] = true
	}
}

// request replaces the name of a request for devices.
func (w *texts) request(text string) string {
	list := strings.Split(text, "/")
	for i := range list {
		if !madeRequest.MatchString(list[i]) {
			list[i] = w.text(Part, list[i])
		}
	}
	return strings.Join(list, "/")
}

// resourceName keeps the name of a resource, except the name of the DeviceClass that it may contain.
func (w *texts) resourceName(text string) string {
	if class, ok := strings.CutPrefix(text, resourcev1.ResourceDeviceClassPrefix); ok {
		return resourcev1.ResourceDeviceClassPrefix + w.text(Object, class)
	}
	return text
}

// annotation replaces the value of an annotation.
func (w *texts) annotation(key, value string) string {
	kind, named := namingAnnotations[key]
	switch {
	case key == gangsAnnotation:
		return w.gangsList(value)
	case gangKeys[key]:
		return w.text(Gang, value)
	case named:
		return w.text(kind, value)
	case keptAnnotations[key] || annotationWords[key][value] || plainValue.MatchString(value):
		return value
	}
	return w.text(Annotation, value)
}

// gangsList replaces the names in a JSON list of gangs.
func (w *texts) gangsList(value string) string {
	var list []string
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return w.text(Annotation, value)
	}
	for i := range list {
		list[i] = w.gangs(list[i])
	}
	text, err := json.Marshal(list)
	if err != nil {
		w.fail("annotation %s: %w", gangsAnnotation, err)
	}
	return string(text)
}

func (w *texts) uids(list []types.UID) []types.UID { return mapped(list, w.uid) }

func (w *texts) nodes(list []string) []string {
	return mapped(list, func(name string) string { return w.text(Node, name) })
}

// url replaces a URL except its scheme.
func (w *texts) url(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return w.text(Free, url)
	}
	return scheme + "://" + w.text(Free, rest)
}
