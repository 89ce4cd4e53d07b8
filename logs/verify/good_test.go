package verify

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/boltlog"
	"github.com/rollcall-sched/rollcall/eventlog/proof"
	"github.com/rollcall-sched/rollcall/logs"
	"github.com/rollcall-sched/rollcall/logs/audit"
	"github.com/rollcall-sched/rollcall/logs/logstest"
)

// signedAt returns options with checkpoints that somebody signed of a log when it had so many entries.
func signedAt(t *testing.T, of []eventlog.Entry, sizes ...uint64) Options {
	t.Helper()
	key, err := proof.GenerateKey(rand.Reader, "example.org")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := proof.ReadSigner([]byte(key.Private))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	public := filepath.Join(dir, "k.pub")
	if err := os.WriteFile(public, []byte(key.Public), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := logs.Options{}.Open(t.Context(), logstest.Segmented(t, of, 10))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var files []string
	for _, size := range sizes {
		msg, err := audit.Checkpoint(log, signer, size)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(dir, fmt.Sprint(size)))
		if err := os.WriteFile(files[len(files)-1], msg, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts := optionsOf(new(strings.Builder))
	if opts.Signed, err = audit.ReadSigned([]string{public}, files); err != nil {
		t.Fatal(err)
	}
	return opts
}

// blinded makes a segment one that the system does not open: a link to itself.
func blinded(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Remove(path), os.Symlink(filepath.Base(path), path)); err != nil {
		t.Fatal(err)
	}
}

// TestACheckpointIsComparedAlthoughALaterSegmentCannotBeRead has a segment that the system cannot open. The
// checkpoints of earlier entries are compared, and the later ones are not.
func TestACheckpointIsComparedAlthoughALaterSegmentCannotBeRead(t *testing.T) {
	another := logstest.WellFormed(40)
	another[12].Time++ // and those behind it are at the same time or later
	same := logstest.WellFormed(40)
	for name, tc := range map[string]struct {
		of           []eventlog.Entry // what was signed
		blind        int              // the segment that cannot be read
		agree, wrong []uint64
		good         uint64
		live         bool
	}{
		"the third segment":                  {same, 21, []uint64{7, 10, 20}, nil, 20, false},
		"the last segment":                   {same, 31, []uint64{7, 10, 20, 25, 30}, nil, 30, false},
		"the first segment":                  {same, 1, nil, nil, 0, false},
		"another history":                    {another, 21, []uint64{7, 10}, []uint64{20}, 20, false},
		"the third segment beside a writer":  {same, 21, []uint64{7, 10, 20}, nil, 20, true},
		"another history beside that writer": {another, 21, []uint64{7, 10}, []uint64{20}, 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := logstest.Segmented(t, logstest.WellFormed(40), 10)
			if tc.live {
				log, err := boltlog.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
			}
			blinded(t, logstest.SegmentOf(path, tc.blind))
			report, err := Run(t.Context(), path, signedAt(t, tc.of, 7, 10, 20, 25, 30, 40))
			if err != nil {
				t.Fatal(err)
			}
			var agree, wrong, not []uint64
			for _, c := range report.Checkpoints {
				agree = append(agree, c.Size)
			}
			for _, m := range report.Mismatches {
				wrong = append(wrong, m.Size)
			}
			for _, c := range report.NotCompared {
				not = append(not, c.Size)
				if c.Kind != audit.Unreadable {
					t.Errorf("the checkpoint of %d is not compared: %s", c.Size, c.Kind)
				}
			}
			if !slices.Equal(agree, tc.agree) || !slices.Equal(wrong, tc.wrong) ||
				len(agree)+len(wrong)+len(not) != 6 || report.Entries != tc.good || report.Whole {
				t.Errorf("agree %v, wrong %v, not compared %v; %+v", agree, wrong, not, report)
			}
			var mismatch *audit.MismatchError
			none := strings.Contains(fmt.Sprint(report.Err()), "compared with none")
			if errors.As(report.Err(), &mismatch) != (len(tc.wrong) > 0) ||
				!strings.Contains(fmt.Sprint(report.Err()), logstest.SegmentOf(path, tc.blind)) ||
				none != (len(tc.agree)+len(tc.wrong) == 0) {
				t.Errorf("error %v", report.Err())
			}
		})
	}
}
