package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/internal/durable"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/bundle"
	"github.com/rollcall-sched/rollcall/logs/redact"
)

// redaction holds the arguments of the export command about pseudonyms, and the redaction itself.
type redaction struct {
	wanted       bool
	key, mapping string
	keepLabels   []string
	made         *redact.Redaction
}

// redactionFacts are the facts about a redaction that export prints.
type redactionFacts struct {
	redact.Report
	// Map is the file with the names and their pseudonyms, "" for none.
	Map string `json:"map,omitempty"`
}

func (r *redaction) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&r.wanted, "redact", false, "replace names by pseudonyms that keep their order")
	f.StringVar(&r.key, "key", "", "the `file` with the key of the pseudonyms, at least 16 bytes; default: a random "+
		"key that is thrown away")
	f.StringArrayVar(&r.keepLabels, "keep-label", nil, "keep the values of the label or taint with this `key`, which "+
		"a plugin reads; repeatable")
	f.StringVar(&r.mapping, "map", "", "a new `file` to write the names and their pseudonyms to, for yourself")
}

func (r *redaction) check() error {
	if !r.wanted && (r.key != "" || r.mapping != "" || len(r.keepLabels) > 0) {
		return usageError{errors.New("--key, --map and --keep-label need --redact")}
	}
	if r.mapping == "" {
		return nil
	}
	if _, err := os.Lstat(r.mapping); err == nil {
		return usageError{fmt.Errorf("%s is there already: remove it, or name another file", r.mapping)}
	}
	return nil
}

// maxKey is the largest number of bytes of a key file.
const maxKey = 4096

// readKey returns the key, a random one without a file.
func (r *redaction) readKey() ([]byte, error) {
	if r.key == "" {
		key := make([]byte, 32)
		_, err := rand.Read(key)
		return key, err
	}
	f, err := os.Open(r.key)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return nil, err
	}
	key = bytes.TrimRight(key, "\r\n")
	if len(key) < redact.MinKey || len(key) > maxKey {
		return nil, fmt.Errorf("%s has %d bytes: a key has %d to %d; make one with: head -c 32 /dev/urandom | "+
			"base64 > new.key", r.key, len(key), redact.MinKey, maxKey)
	}
	return key, nil
}

// start returns the function that redacts. out is the file that is exported to.
func (r *redaction) start(out string) func(context.Context, *logs.Source, *bundle.Plan) (eventlog.RecordReader,
	error) {
	return func(ctx context.Context, log *logs.Source, plan *bundle.Plan) (eventlog.RecordReader, error) {
		key, err := r.readKey()
		if err != nil {
			return nil, err
		}
		dir := filepath.Dir(out)
		if out == "-" {
			dir = ""
		}
		r.made, err = redact.Redact(ctx, log, plan, redact.Options{Key: key, Kept: r.key != "", Dir: dir,
			KeepLabels: r.keepLabels, At: time.Now().UTC().Format(time.RFC3339)})
		if err != nil {
			return nil, err
		}
		return r.made.Log(), r.writeMap()
	}
}

// writeMap writes the map, before there is a bundle.
func (r *redaction) writeMap() error {
	if r.mapping == "" {
		return nil
	}
	err := durable.WriteNew(r.mapping, func(w io.Writer) error { // its mode is 0600
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		for _, one := range r.made.Names() {
			if err := enc.Encode(one); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write the map: %w", err)
	}
	return nil
}

// facts returns the facts, nil without a redaction.
func (r *redaction) facts() *redactionFacts {
	if r.made == nil {
		return nil
	}
	return &redactionFacts{Report: r.made.Report, Map: r.mapping}
}

// end removes what the redaction needed.
func (r *redaction) end() error {
	if r.made == nil {
		return nil
	}
	return r.made.Close()
}

// write writes the facts for people.
func (f *redactionFacts) write(w io.Writer) error {
	if f == nil {
		return nil
	}
	plainf(w, "redacted  %d decisions made again, all the same\n", f.Decisions)
	if f.NotCompared > 0 {
		plainf(w, "          %d are not what this program decides, and are not compared\n", f.NotCompared)
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Replaced)) {
		plainf(w, "  %-18s%d replaced\n", kind, f.Replaced[kind])
	}
	plainf(w, "kept      keys of labels and taints, resources, drivers, amounts, times, settings\n")
	for _, kept := range []struct {
		count int
		what  string
	}{
		{f.Numeric, "label keys whose numbers a selector compares"},
		{f.Expressions, "CEL expressions"},
		{f.Attributes, "device attributes that they read"},
	} {
		if kept.count > 0 {
			plainf(w, "  %d %s\n", kept.count, kept.what)
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(f.Arguments)) {
		plainf(w, "  %d texts in the arguments of plugin %s: look at them (log info)\n", f.Arguments[plugin], plugin)
	}
	if f.Map != "" {
		_, err := plainf(w, "map       %s: keep it to yourself\n", f.Map)
		return err
	}
	return nil
}
