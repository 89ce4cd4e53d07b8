//go:build !linux

package localapi

// shorten returns path: a directory with a long name cannot have a socket here.
func shorten(path string) (name string, done func(), err error) { return path, func() {}, nil }
