package redact

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// ownObject replaces all texts of an object of another API, except numbers and words of the API. Keys of its maps are
// replaced if they are names in the log.
func (w *walker) ownObject(obj *unstructured.Unstructured) {
	for key, value := range obj.Object {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			w.ownMeta(value)
		default:
			obj.Object[key] = w.ownValue(value)
		}
	}
}

func (w *walker) ownMeta(value any) {
	meta, _ := value.(map[string]any)
	for key, value := range meta {
		text, _ := value.(string)
		switch key {
		case "creationTimestamp", "deletionTimestamp":
		case "namespace":
			meta[key] = w.text(Namespace, text)
		case "name":
			meta[key] = w.text(kindOf(w.resource), text)
		case "uid":
			meta[key] = w.text(UID, text)
		default:
			meta[key] = w.ownValue(value)
		}
	}
}

func (w *walker) ownValue(value any) any {
	switch value := value.(type) {
	case string:
		if apiWords[value] || quantity.MatchString(value) && !w.names.Has(value) {
			return value
		}
		return w.text(Object, value)
	case []any:
		for i := range value {
			value[i] = w.ownValue(value[i])
		}
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, inner := range value { // any order: a map is made of a map
			out[w.known(key)] = w.ownValue(inner)
		}
		return out
	}
	return value
}

// known replaces a text that is a name elsewhere in the log, and keeps any other.
func (w *walker) known(text string) string {
	if w.replace && w.names.Has(text) {
		return w.text(Object, text)
	}
	return text
}
