package explain

import (
	"slices"

	"github.com/rollcall-sched/rollcall/eventlog/index"
)

// recentNames is how many entries before the point in question are searched for names like the missing one, where the
// log has an index. The names of the state before them are searched too. Reading so many takes a third of a second.
const recentNames = 200_000

// missing returns the error for a name that no entry up to the point in question has, or errWhole. The scanner to was
// handed the entries up to there that may name the key; again is one for the same name that was handed none.
func (s *search) missing(read Reader, key index.Key, to, again scanner) error {
	missing := to.missing()
	if missing.Composite {
		return errWhole
	}
	missing.At, missing.KnownFrom = s.at, s.opts.knownFrom()
	seqs, err := s.opts.Index.Naming(s.ctx, key)
	if err != nil {
		return err
	}
	behind, _ := slices.BinarySearch(seqs, s.at.Seq+1)
	for e, err := range s.opts.Index.Pick(s.ctx, seqs[behind:]) {
		if err == nil {
			err = s.ctx.Err()
		}
		if err != nil {
			return err
		}
		if to.take(e); to.found() {
			first := pointOf(e)
			missing.First = &first
			return missing
		}
	}
	if err := s.lookForNames(read, again); err != nil {
		return err
	}
	missing.Similar = again.missing().Similar
	return missing
}

// lookForNames hands a scanner the newest state that is recentNames entries before the point in question, if there is a
// snapshot of one, and all entries from there on.
func (s *search) lookForNames(read Reader, to scanner) error {
	from, err := startScan(s.opts, to)
	if err != nil {
		return err
	}
	snapshots := s.opts.Snapshots
	if last := s.at.Seq - min(s.at.Seq, s.opts.recentNames()); len(snapshots) > 0 && snapshots[0] <= last {
		m, err := s.opts.state(last)
		if err != nil {
			return err
		}
		to.startFrom(m)
		from.Seq = m.Seq()
	}
	if from.Seq >= s.at.Seq {
		return nil
	}
	for e, err := range read(s.ctx, from.Seq+1) {
		if err == nil {
			err = s.ctx.Err()
		}
		if err != nil {
			return err
		}
		to.take(e)
		if s.opts.progress(e.Seq); e.Seq == s.at.Seq {
			break
		}
	}
	return nil
}
