package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// A Bare is a stream of plain messages, with a log's settings. Benchmarks use it to measure how fast the servers store
// the same bytes.
type Bare struct {
	conn    *conn
	js      jetstream.JetStream
	subject string
	piece   int
}

// CreateBare makes a stream of plain messages at an unused address.
func (a *Address) CreateBare(ctx context.Context) (*Bare, error) {
	c, err := a.dial("bare")
	if err != nil {
		return nil, err
	}
	info, err := c.create(ctx)
	if err != nil {
		c.close()
		return nil, err
	}
	js, err := jetstream.New(c.nc)
	if err != nil {
		c.close()
		return nil, err
	}
	piece := int(min(c.nc.MaxPayload(), mostPiece)) - headerRoom
	return &Bare{conn: c, js: js, subject: info.Config.Subjects[0], piece: piece}, nil
}

// Most returns the largest size of a message in bytes.
func (b *Bare) Most() int { return b.piece }

// Publish publishes one message, and waits until it is acknowledged. It may be called by several goroutines.
func (b *Bare) Publish(ctx context.Context, data []byte) error {
	if _, err := b.js.Publish(ctx, b.subject, data); err != nil {
		return fmt.Errorf("%s: %w", b.conn.at, err)
	}
	return nil
}

// Close ends the connection. The stream stays.
func (b *Bare) Close() error {
	b.conn.close()
	return nil
}

// Remove deletes the stream at an address with all its messages. It is for benchmarks, which have made it.
func (a *Address) Remove(ctx context.Context) error {
	c, err := a.dial("remove")
	if err != nil {
		return err
	}
	defer c.close()
	var answer struct {
		Success bool `json:"success"`
	}
	err = c.ask(ctx, "delete the stream", "STREAM.DELETE."+a.Stream, struct{}{}, &answer)
	if err == nil && !answer.Success {
		err = errors.New("the servers have not deleted the stream")
	}
	return err
}
