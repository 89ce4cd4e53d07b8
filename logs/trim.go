package logs

import "context"

// Trimmed says what was taken out of a stream.
type Trimmed struct {
	// Messages is how many messages went, and Bytes what the stream is smaller by; 0 if nothing did.
	Messages, Bytes uint64
	// First is the entry with which the log begins now.
	First uint64
}

// Trim takes the first entries of a log out of its stream, as far as they are before entry before. The caller has seen
// to it that they are elsewhere, and that a snapshot means them.
func Trim(ctx context.Context, name string, before uint64) (Trimmed, error) {
	at, err := streamAt(name)
	if err != nil {
		return Trimmed{}, err
	}
	done, err := at.Trim(ctx, before)
	return Trimmed(done), err
}
