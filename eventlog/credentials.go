package eventlog

import "strings"

// pemHeader begins every key and certificate in PEM form.
const pemHeader = "-----BEGIN"

// WithoutCredentials returns the name of a volume, a URL or a path, without parts that may be a credential:
//
//   - everything before the last @ of its authority (user:password@host),
//   - the query (?sig=…) and the fragment of a URL,
//   - the whole text, if it has a key in PEM form.
//
// A name without any of these is returned unchanged. A secret that is the name itself, or a part of its path, cannot be
// distinguished from a name.
func WithoutCredentials(name string) string {
	for {
		shorter := cutCredentials(name, false)
		if shorter == name {
			return name
		}
		name = shorter // the rest of u@https://v@host is a URL again
	}
}

// imageWithoutCredentials is WithoutCredentials for the name of an image. The only @ that belongs to it is the one
// before its digest.
func imageWithoutCredentials(image string) string {
	name, digest := image, ""
	if at := strings.LastIndexByte(image, '@'); at >= 0 && isDigest(image[at+1:]) {
		name, digest = image[:at], image[at:]
	}
	for {
		shorter := cutCredentials(name, true)
		if shorter == name {
			return name + digest
		}
		name = shorter
	}
}

// isDigest reports whether s is a digest: an algorithm, a colon, and at least 32 hexadecimal digits.
func isDigest(s string) bool {
	algorithm, sum, ok := strings.Cut(s, ":")
	return ok && algorithm != "" && len(sum) >= 32 &&
		strings.Trim(algorithm, "abcdefghijklmnopqrstuvwxyz0123456789+._-") == "" &&
		strings.Trim(sum, "0123456789abcdefABCDEF") == ""
}

// cutCredentials removes the credentials that one pass finds. With noAt, no part of the name has an @.
func cutCredentials(name string, noAt bool) string {
	if strings.Contains(name, pemHeader) {
		return ""
	}
	if !strings.ContainsAny(name, "@?#") {
		return name
	}
	scheme, rest := "", name
	if before, after, ok := strings.Cut(name, "://"); ok && !strings.ContainsAny(before, "@?#/") {
		scheme, rest = before+"://", after
	}
	query := "?"
	if scheme != "" || noAt {
		query = "?#" // elsewhere # separates the parts of a volume's handle
	}
	path, asked := rest, ""
	if i := strings.IndexAny(rest, query); i >= 0 {
		path, asked = rest[:i], rest[i+1:]
	}
	slashes := path[:len(path)-len(strings.TrimLeft(path, "/"))]
	path = path[len(slashes):]
	authority, _, hasPath := strings.Cut(path, "/")
	at := strings.LastIndexByte(path, '@')
	switch {
	case at < 0 && !hasPath && strings.Contains(asked, "@"):
		path = "" // as in user:what?ever@host, where path is the beginning of a password
	case at < 0:
	case noAt, scheme != "", at < len(authority), strings.Contains(path[:at], ":"):
		path = path[at+1:]
	}
	return scheme + slashes + path
}

// MessageWithoutCredentials returns a text for people without the credentials of the URLs in it. It ends the text
// before the first key in PEM form.
func MessageWithoutCredentials(text string) string {
	text, _, _ = strings.Cut(text, pemHeader)
	if !strings.Contains(text, "://") {
		return text
	}
	var out strings.Builder
	for text != "" {
		end := strings.IndexAny(text, " \t\r\n\"'<>")
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		if strings.Contains(word, "://") {
			word = WithoutCredentials(word)
		}
		out.WriteString(word)
		if end < len(text) {
			out.WriteByte(text[end])
			end++
		}
		text = text[end:]
	}
	return out.String()
}
