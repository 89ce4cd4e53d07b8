package logs

import "context"

// Trimmed describes the entries that Trim took out of a stream.
type Trimmed struct {
	// Messages is the number of removed messages, and Bytes the decrease of the stream's size.
	Messages, Bytes uint64
	// First is the log's first entry now.
	First uint64
}

// Trim removes the first entries of a log from its stream, as far as they are before entry before. The caller has
// checked that they are kept elsewhere, and that a snapshot covers them.
func Trim(ctx context.Context, name string, before uint64) (Trimmed, error) {
	at, err := streamAt(name)
	if err != nil {
		return Trimmed{}, err
	}
	done, err := at.Trim(ctx, before)
	return Trimmed(done), err
}
