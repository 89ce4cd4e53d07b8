package app

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plantedFaults are faults, each with the test that must catch it: with old, which occurs once in file, replaced by
// new, the test must fail and say so. The product's code has no branch for it: the go command compiles the changed file
// in place of the real one.
var plantedFaults = []struct {
	name, file, old, new string
	pkg, test, says      string
}{
	{
		"an append's error is passed over, and the effects are released",
		"engine/writer.go",
		"\tif err != nil {\n\t\tw.failed = &AppendError{First: first, Last: last, Err: err}\n\t\tw.queue, w.parts = " +
			"nil, nil\n\t} else {\n\t\tw.durable = last\n",
		"\t_, _, w.durable = err, first, last\n\tif err == nil {\n",
		"./cmd/rollcall/app",
		"TestAtTheLimitOfAFilesSizeNothingIsReleasedAndWithoutItGoesOn",
		"was carried out, and entry",
	},
	{
		"entries count as durable before they are appended",
		"engine/writer.go",
		"\t\tw.note(w.log.Append(context.Background(), w.batch[0].Seq-1, w.batch))\n",
		"\t\tbatch := slices.Clone(w.batch)\n\t\tw.note(nil)\n\t\t_ = w.log.Append(context.Background(), " +
			"batch[0].Seq-1, batch)\n",
		"./cmd/rollcall/app",
		"TestKilledAtAnyMomentASimulationLosesNothing",
		"was carried out, and entry",
	},
	{
		"recovery does not ask again for what has no result", "engine/engine.go",
		"\treturn e, e.writer.await(e.machine.Seq())\n",
		"\te.releases.released = e.machine.Seq()\n\treturn e, e.writer.await(e.machine.Seq())\n",
		"./cmd/rollcall/app", "TestKilledAtAnyMomentASimulationLosesNothing", "kill_test.go",
	},
	{
		"what is handed over to be made durable counts as durable",
		"engine/writer.go",
		"w.queue = append(w.queue, entries...)",
		"w.queue, w.durable = append(w.queue, entries...), entries[len(entries)-1].Seq",
		"./engine",
		"TestWhileABatchBecomesDurableTheNextIsDecidedAndEachIsReleasedWhenItIs",
		"of what is not durable",
	},
	{
		"what is handed over is observed before it is durable", "engine/writer.go",
		"w.queue = append(w.queue, entries...)",
		"w.queue, w.commits = append(w.queue, entries...), append(w.commits, Commit{Entries: slices.Clone(entries)})",
		"./engine", "TestNothingIsObservedBeforeItIsDurable", "is observed while its append is under way",
	},
	{
		"what failed to be appended is observed", "engine/writer.go",
		"\tif err != nil {\n\t\tw.failed = &AppendError{",
		"\tif err != nil {\n\t\tw.commits = append(w.commits, Commit{Entries: slices.Clone(w.batch)})\n" +
			"\t\tw.failed = &AppendError{",
		"./engine", "TestNothingOfAFailedAppendIsObserved", "the last one before the append that failed",
	},
	{
		"the feed has a gap where one call finds two commits", "engine/engine.go",
		"r := Ready{Commits: commits,", "r := Ready{Commits: commits[:min(1, len(commits))],",
		"./engine", "TestTheFeedHasEveryEntryOfTheEpochOnceAndInOrder", "is observed after entry",
	},
	{
		"a snapshot does not wait until its entry is durable", "engine/engine.go",
		"\tif err := e.writer.await(seq); err != nil {\n\t\treturn err\n\t}\n", "",
		"./engine", "TestASnapshotWaitsUntilItsEntryIsDurable", "there is no snapshot of entry",
	},
	{
		"what is in flight has no bound", "engine/writer.go",
		"w.flying.plus(part).isTooMuch() {", "w.flying.entries < 0 {",
		"./engine", "TestAdvanceWaitsWhileTooManyEntriesAreInFlight", "nobody waits",
	},
	{
		"a simulation does not wait for the disk before it says that it has ended",
		"sim/simulate/simulate.go",
		"if _, err := r.engine.Sync(); err != nil {",
		"if err := r.engine.Machine().Apply(eventlog.Entry{}); err == nil {",
		"./sim/simulate",
		"TestASimulationHasNotEndedBeforeItsLogIsOnTheDisk",
		"has ended well",
	},
	{
		"nothing is synced", "eventlog/boltlog/segment.go",
		"&bolt.Options{Timeout: lockTimeout,", "&bolt.Options{NoSync: true, Timeout: lockTimeout,",
		"./cmd/rollcall/app", "TestAfterAFailedSyncNothingIsReleasedAndLaterItGoesOn", "the disk hardly ever stops it",
	},
	{
		"a full disk stops nothing",
		"engine/writer.go",
		"\tif err != nil {\n\t\tw.failed = &AppendError{First: first, Last: last, Err: err}\n\t\tw.queue, w.parts = " +
			"nil, nil\n\t} else {\n\t\tw.durable = last\n",
		"\t_, _, w.durable = err, first, last\n\tif err == nil {\n",
		"./cmd/rollcall/app",
		"TestOnAFullDiskNothingIsReleasedAndWithRoomItGoesOn",
		"was carried out, and entry",
	},
	{
		"time is the clock's, wherever that stands", "engine/engine.go",
		"e.next(max(now, e.machine.Now()), input)", "e.next(now, input)",
		"./engine", "TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical", "before",
	},
	{
		"a new epoch begins when the clock says", "engine/engine.go",
		"max(eventlog.TimeOf(now), e.machine.Now())", "eventlog.TimeOf(now)",
		"./engine", "TestWhateverTheClockSaysTimeNeverGoesBackAndTheReplayIsIdentical", "before",
	},
	{
		"a resumed simulation does not compare its inputs with the log", "sim/resume.go",
		"if bytes.Equal(got, want) {", "if bytes.Equal(got, got) {",
		"./sim", "TestALogOfAnotherSimulationIsNotResumed", "the error is",
	},
	{
		"a resumed simulation forgets the rest of the step that was cut", "sim/resume.go",
		"ready, err := r.live.Step(ctx, now, left)", "ready, err := r.live.Step(ctx, now, left[len(left):])",
		"./sim", "TestASimulationResumedAfterAnyEntryEndsAsIfItHadNeverStopped", "differs",
	},
	{
		"a snapshot of an entry that the log has not is passed over when it is opened", "engine/recover.go",
		"if lost != nil {", "if lost != nil && last > 1<<60 {",
		"./engine", "TestALogThatHasLostItsEndIsNotOpened", "is whole: <nil>",
	},
	{
		"and by whoever reads it", "snapshot/series.go",
		"case rerr == nil || errors.As(rerr, &newer):", "case rerr != nil && errors.As(rerr, &newer):",
		"./cmd/rollcall/app", "TestALogThatLostItsNewestSegmentsIsDamagedAndNotWrittenOver", "exit code 0, want 4",
	},
	{
		"a snapshot that cannot be read is taken for none", "snapshot/series.go",
		"case errors.Is(rerr, ErrUnreadable) && apart == nil:", "case errors.Is(rerr, ErrUnreadable) && seq == 0:",
		"./cmd/rollcall/app", "TestWhatCannotBeReadOfSnapshotsIsNotTakenForNothing", "exit code 0, want 1",
	},
	{
		"log snapshot does not sync what it has read",
		"eventlog/boltlog/log.go",
		"for _, path := range paths {\n\t\tif err := durable.Sync",
		"for _, path := range paths[len(paths):] {\n\t\tif err := durable.Sync",
		"./cmd/rollcall/app",
		"TestASnapshotThatIsAskedForComesAfterItsEntry",
		"is not synced before there is a snapshot",
	},
	{
		"a snapshot's checksum is not compared", "snapshot/snapshot.go",
		"!bytes.Equal(sum[:], data[len(body):])", "bytes.Equal(sum[:], nil)",
		"./snapshot", "TestRefusalsAreByName", "flipped",
	},
	{
		"when a pod was placed is left out of the restore", "cluster/restore.go",
		"p.Since = eventlog.Time(r.Varint(\"since\"))", "_ = r.Varint(\"since\")",
		"./engine", "TestEverySnapshotAndItsTailAreTheWholeLog", "what was restored is not what was written down",
	},
	{
		"a restored state is another one, and Restore does not see it", "scheduler/restore.go",
		"\tif !bytes.Equal(again, state) {", "\tm.at.cycle++\n\tif !bytes.Equal(again, state) {",
		"./snapshot", "TestASnapshotIsTheMachine", "the restored Machine has another hash",
	},
	{
		"and the tail goes on from it", "scheduler/restore.go",
		"\tif !bytes.Equal(again, state) {", "\tm.at.cycle++\n\tif !bytes.Equal(again, state) {",
		"./engine", "TestEverySnapshotAndItsTailAreTheWholeLog", "recover: apply entry",
	},
	{
		"what a snapshot has not, since it follows from the rest, is not made again", "queue/restore.go",
		"\te.priority = q.priorityOf(e)\n", "",
		"./scheduler", "TestMachinesRestoredAfterEveryEntryGoOnAsTheOriginal", "restore_test.go",
	},
	{
		"where the next cycle begins is left out of a state", "scheduler/state.go",
		"binary.AppendUvarint(dst, uint64(m.at.start))", "binary.AppendUvarint(dst, 0)",
		"./scheduler", "TestARestoredMachineLooksAtNodesFromWhereTheLastCycleEnded", "differs (- original, + restored)",
	},
	{
		"whom of a gang an attempt refused is left out of it", "queue/encode.go",
		"m.gate != nil, m.tried, m.refused, m.asking))", "m.gate != nil, m.tried, false, m.asking))",
		"./queue", "TestEachFieldOfTheStateDecidesWhatComesAfterARestore", "refused_in_the_last_attempt",
	},
	{
		"that something happened during an attempt is left out of it", "queue/encode.go",
		"e.notedAll, e.notedAny, e.keptOff", "e.notedAll, false, e.keptOff",
		"./queue", "TestEachFieldOfTheStateDecidesWhatComesAfterARestore", "notedAny",
	},
	{
		"which plugins answered Pending is left out of it", "queue/encode.go",
		"{e.plugins, e.pendingPlugins, e.noted}", "{e.plugins, nil, e.noted}",
		"./queue", "TestEachFieldOfTheStateDecidesWhatComesAfterARestore", "pendingPlugins_of_the_last_attempt",
	},
	{
		"a snapshot of another log is taken for one of this", "snapshot/series.go",
		"if position != snap.Position {", "if position != snap.Position && seq == 0 {",
		"./cmd/rollcall/app", "TestVerifyFindsEachBadSnapshotAndSaysThatTheLogIsWhole",
		"is another one here: exit code 0",
	},
	{
		"replay does not compare states", "replay/verify.go",
		"if v.machine.Hash() != want {", "if v.machine.Hash() != want && seq == 0 {",
		"./cmd/rollcall/app", "TestAForgedSnapshotIsFoundByEveryCommandThatReadsPastIt", "rollcall replay",
	},
	{
		"an export does not compare the state that it begins with", "logs/state.go",
		"if made.Hash() != m.Hash() {", "if made.Hash() != m.Hash() && at == 0 {",
		"./cmd/rollcall/app", "TestAForgedSnapshotIsFoundByEveryCommandThatReadsPastIt", "a bundle was made",
	},
	{
		"it takes the snapshot before that for granted", "logs/state.go",
		"made := scheduler.New(s.opts.Registry)", "made, _ := s.snapshots.Newest(base+1, at-1)",
		"./cmd/rollcall/app", "TestAForgedSnapshotIsFoundByEveryCommandThatReadsPastIt", "exit code 0, want 4",
	},
	{
		"a bundle's records need not follow one another", "eventlog/chain.go",
		"case prev != c.Hash:", "case prev != c.Hash && seq == 0:",
		"./logs/bundle", "TestALieWithRightChecksumsIsFound", "want its records: entry",
	},
	{
		"a bundle's digest is not compared",
		"logs/bundle/open.go",
		"if hex.EncodeToString(digest.Sum(nil)) != b.manifest.Digest {",
		"if hex.EncodeToString(digest.Sum(nil)) == \"\" {",
		"./logs/bundle",
		"TestALieWithRightChecksumsIsFound",
		"error <nil>",
	},
	{
		"an entry's proof is not computed",
		"eventlog/proof/proof.go",
		"int64(i.Seq)-1, merkle.LeafHash(hash)) != nil {",
		"int64(i.Seq)-1, merkle.LeafHash(hash)) != nil && i.Size == 0 {",
		"./eventlog/proof",
		"TestEveryAlteredByteIsRefused",
		"proof_test.go",
	},
	{
		"the proof of growth is not computed", "eventlog/proof/proof.go",
		"int64(c.From), c.FromRoot) != nil {", "int64(c.From), c.FromRoot) != nil && c.To == 0 {",
		"./eventlog/proof", "TestEveryAlteredByteIsRefused", "proof_test.go",
	},
	{
		"a damaged log is signed as it stands", "logs/audit/checkpoint.go",
		"f(p, logEnd{log, last, log.DamageBehind(last)})", "f(p, logEnd{log, last, nil})",
		"./cmd/rollcall/app", "TestADamagedLogIsNotSignedAsIfItWereWhole", "exit code 0, want 4",
	},
	{
		"a checkpoint's chain is not compared with the log", "logs/audit/signed.go",
		"case at.Hash != s.Chain:", "case at.Hash != s.Chain && s.Size == 0:",
		"./cmd/rollcall/app", "TestVerifyComparesEverythingThatIsSigned", "exit code 0, want 4",
	},
	{
		"segments are archived where those of another log are", "eventlog/boltlog/archive.go",
		"if err != nil || !slices.ContainsFunc(known, ours) {", "if err != nil && !slices.ContainsFunc(known, ours) {",
		"./eventlog/boltlog", "TestArchivingIsRefused", "another log's segment",
	},
	{
		"a segment of another log in the archive ends the search",
		"eventlog/boltlog/archived.go",
		"\t\tif ferr == nil {\n\t\t\tferr = facts.Sound()",
		"\t\tif ferr == nil && facts.Last > 0 {\n\t\t\tbreak\n\t\t}\n\t\tif ferr == nil {\n\t\t\tferr = facts.Sound()",
		"./eventlog/boltlog",
		"TestArchivesOfTwoLogsDoNotHideEachOther",
		"the first entry is",
	},
	{
		"a log is archived into itself", "eventlog/boltlog/archive.go",
		"os.SameFile(info, log) {", "os.SameFile(info, log) && at == \"\" {",
		"./eventlog/boltlog", "TestALogIsNotArchivedIntoItself", "want it is the log's own directory",
	},
	{
		"and its segments are removed", "eventlog/boltlog/archive.go",
		"os.SameFile(infos[0], infos[1])", "os.SameFile(infos[0], nil)",
		"./eventlog/boltlog", "TestALogIsNotArchivedIntoItself", "a segment was removed that stands nowhere else",
	},
	{
		"the names of archived segments are not synced", "eventlog/boltlog/archive.go",
		"return total, durable.Sync(dir)", "return total, nil",
		"./eventlog/boltlog", "TestEveryCrashOfArchivingIsRepaired", "state",
	},
	{
		"where a log begins is asked once",
		"logs/write.go",
		"dir.Base = func() (uint64, error) {\n\t\tfirst, err := k.stored.OwnFirst()",
		"first, err := k.stored.OwnFirst()\n\tdir.Base = func() (uint64, error) {",
		"./logs",
		"TestAWriterKeepsTheSnapshotThatAnArchiveMadeMeanwhileDependsOn",
		"there is no snapshot, but of",
	},
	{
		"a scheduler leaves an entry out of what it tells", "internal/localapi/server.go",
		"\t\tif rec.Seq > to {", "\t\tif rec.Seq%100 == 99 {\n\t\t\tcontinue\n\t\t}\n\t\tif rec.Seq > to {",
		"./internal/localapi", "TestALogIsReadWhileItIsWrittenTo", "its record is that of entry",
	},
	{
		"a scheduler ends its answer where it cannot read its log, without a word", "internal/localapi/server.go",
		"errors.Is(err, eventlog.ErrClosed) {\n\t\t\tbreak", "err != nil {\n\t\t\tbreak",
		"./internal/localapi", "TestWhatKeepsASchedulerFromReadingItsLogIsSaidOnBothSides", "the scheduler is not told",
	},
	{
		"a reader takes the end of a connection for the end of the log", "internal/localapi/client.go",
		"\t\t\t\t\terr = why\n\t\t\t\t}\n\t\t\t\tyield(eventlog.Record{}, err)", "\t\t\t\t\terr = why\n\t\t\t\t}",
		"./internal/localapi", "TestAReaderWhoseSchedulerEndsReadsOn", "want 8000",
	},
	{
		"a reader does not check the chain of what it is told", "eventlog/chain.go",
		"case prev != c.Hash:", "case prev != c.Hash && seq == 0:",
		"./internal/localapi", "TestAnEntryThatWasMadeAnewIsRefused", "want damage at entry 996",
	},
	{
		"a reader goes on in a log without asking if it is the same", "internal/localapi/read.go",
		"if err == nil && hash != r.hash {", "if err == nil && hash != r.hash && false {",
		"./internal/localapi", "TestAReaderDoesNotGoOnInAnotherLog", "want \"it is another entry",
	},
	{
		"a bucket in the page of buckets is not looked at",
		"eventlog/boltlog/branches.go",
		"else if err := checkInline(value[16:]); err != nil {",
		"else if err := checkInline(value[16:]); err != nil && i > 2 {",
		"./eventlog/boltlog",
		"TestEveryBitOfABucketInThePageOfBucketsIsFoundOrUnused",
		"zero-length inode key",
	},
	{
		"a reader that is interrupted waits for its scheduler", "internal/localapi/client.go",
		"context.WithCancelCause(ctx)", "context.WithCancelCause(context.Background())",
		"./internal/localapi", "TestAReaderThatIsInterruptedWaitsNoMore", "tells no more",
	},
	{
		"a writer is known by LOCK alone", "eventlog/boltlog/lock.go",
		"if !errors.Is(flock(f, false), errLocked) {", "if f != nil {",
		"./eventlog/boltlog", "TestAWriterWhoseLockIsTakenAwayStillHasTheLog", "the log is in use",
	},
	{
		"a reader holds the lock as long as it reads", "eventlog/boltlog/open.go",
		"free = !alone && allClosed(", "free = alone && allClosed(",
		"./eventlog/boltlog", "TestAWriterComesAndAppendsWhileALogIsRead", "it is being read",
	},
	{
		"a reader lets go of the lock and goes on in the file that a writer appends to", "eventlog/boltlog/open.go",
		"copied = copyOf(end.Path)\n\t\t\t\tfree = copied != nil", "free = true",
		"./eventlog/boltlog", "TestAWriterComesAndAppendsWhileALogIsRead", "the log is in use",
	},
	{
		"log verify does not read what the writer tells", "logs/verify/verify.go",
		"if err == nil && files.Live {", "if err != nil && files.Live {",
		"./logs/verify", "TestVerifyReadsOnInWhatTheWriterTells", "it ends whole",
	},
	{
		"log verify calls whole what it could not read", "logs/verify/report.go",
		"damage == nil && r.Unread == \"\"", "damage == nil",
		"./logs/verify", "TestVerifyDoesNotCallWholeWhatItCannotRead", "Whole:true",
	},
	{
		"a node whose devices change is as it was for memos", "cluster/devices/pools.go",
		"\t\tif node != \"\" {\n\t\t\tc.Nodes", "\t\tif false {\n\t\t\tc.Nodes",
		"./scheduler", "TestPodsWithClaimsAreDecidedTheSameWithoutMemos", "without memos, + with",
	},
	{
		"a DeviceTaintRule changes nothing for memos", "cluster/changes.go",
		"\t\teventlog.ResourceSlices: // see", "\t\teventlog.ResourceSlices, eventlog.DeviceTaintRules: // see",
		"./scheduler", "TestPodsWithClaimsAreDecidedTheSameWithoutMemos", "without memos, + with",
	},
	{
		"an answer to another question of extenders counts", "scheduler/extenders.go",
		"if q == nil || q.seq != r.Decision {", "if q == nil {",
		"./scheduler", "TestAnAnswerCountsOnce", "after an answer to another question it is",
	},
	{
		"what extenders have answered leaves the entity waiting", "scheduler/extenders.go",
		"\tm.queue.Answered(r.UID)\n", "",
		"./scheduler", "TestAnAnswerCountsOnce", `decided is "", want "a Scheduled n2"`,
	},
	{
		"a pod that was asked about once is never waited for again", "queue/asking.go",
		"\t\tm.asking = false\n\t\te.asking--\n", "\t\te.asking--\n",
		"./scheduler", "TestPreemptionIsAQuestion", "the Machine that was restored before it has another state",
	},
	{
		"a node that extenders were not asked about is used", "framework/extenders.go",
		"\tif !v.Asked[node] {\n", "\tif false {\n",
		"./scheduler", "TestANodeThatNobodyWasAskedAboutIsNotUsed", "a Scheduled n2",
	},
	{
		"a node that extenders refused is used", "framework/extenders.go",
		"\treturn v.Refused[node]\n", "\treturn nil\n",
		"./scheduler", "TestInvariantsHoldInGeneratedHistories", "and the extenders said",
	},
	{
		"an answer of extenders is used by more than one cycle", "scheduler/apply_decision.go",
		"\tm.forgetQuestion(d.UID) // an answer is for one cycle\n", "",
		"./scheduler", "TestInvariantsHoldInGeneratedHistories", "and the extenders said",
	},
	{
		"an open question about preemption is forgotten by a restart", "scheduler/effects.go",
		"e.slots[i].Nodes, e.slots[i].Candidates = q.nodes, q.candidates", "e.slots[i].Nodes = q.nodes",
		"./scheduler", "TestPreemptionIsAQuestion", "the restored one asks",
	},
	{
		"pods are evicted that extenders were not asked about", "plugins/preemption/extenders.go",
		"if i < 0 || !wasAsked(verdict.Asked, found[i]) {", "if i < 0 {",
		"./scheduler", "TestCandidatesThatHaveChangedAreLeftOut", "decided is",
	},
	{
		"extenders may have any pod evicted", "plugins/preemption/node.go",
		"stays := func(u *target) bool { return !policy.MayPreempt(by, &u.Victim) || p.spared(u) }",
		"stays := func(u *target) bool { return false && !policy.MayPreempt(by, &u.Victim) || p.spared(u) }",
		"./kube/extender", "TestAVictimThatMayNotBeEvictedIsNone", "preempt_test.go",
	},
	{
		"pods are evicted again from a node that extenders refuse", "plugins/preemption/node.go",
		"if vain, _ := p.view.InVain(pod.UID); len(vain) > 0 {", "if vain, _ := p.view.InVain(pod.UID); false {",
		"./kube/extender", "TestAPodPreemptsNoNodeAgainThatAnExtenderRefuses", "were evicted in vain",
	},
	{
		"a resumed simulation asks extenders again", "sim/effect.go",
		"\t\tif recorded != nil {\n", "\t\tif false {\n",
		"./kube/extender", "TestAResumedSimulationTakesAnswersFromItsLog", "the extender is asked",
	},
	{
		"a volume's node affinity is not logged", "eventlog/trim_fields.go",
		"volumeAttributesClassName,nodeAffinity}", "volumeAttributesClassName}",
		"./internal/kubesched", "TestVolumesAreUpstreams", "-kubesched.seed",
	},
	{
		"whether a driver tells its capacity is not logged", "eventlog/trim_fields.go",
		"spec.{storageCapacity,preventPodSchedulingIfMissing}", "spec.preventPodSchedulingIfMissing",
		"./internal/kubesched", "TestVolumesAreUpstreams", "-kubesched.seed",
	},
	{
		"a volume that a decision gave away is free", "cluster/volumes/volumes.go",
		"return s.lay(pod.UID, k, pv, bound)", "_, _ = bound, k\n\treturn nil",
		"./internal/kubesched", "TestVolumesAreUpstreams", "-kubesched.seed",
	},
	{
		"a device is allocated twice", "cluster/devices/inuse.go",
		"a.devices[id]++", "_ = a.devices[id]",
		"./internal/kubesched", "TestDevicesAreUpstreams", "-kubesched.seed",
	},
	{
		"a claim gives its devices back while a pod uses it", "cluster/devices/freeing.go",
		"\t\treturn !stays(uid)\n", "\t\treturn true\n",
		"./scheduler", "TestPodsThatHaveOthersEvictedForDevicesGetThem", "evicted for",
	},
	{
		"devices are not kept for nominated pods", "plugins/devicesfreed.go",
		"\tkeepers := o.keepers(ctx, trial)\n", "\tkeepers := o.keepers(ctx, trial)[:0]\n",
		"./scheduler", "TestPodsThatHaveOthersEvictedForDevicesGetThem", "evicted for",
	},
	{
		"a pod has others evicted while devices come free for it", "plugins/preemption/node.go",
		"\treturn p.newTrial(ctx, state, pod, node).fits()\n", "\treturn false\n",
		"./scheduler", "TestPodsThatHaveOthersEvictedForDevicesGetThem", "times pods are evicted for",
	},
	{
		"the most important victims go first", "plugins/preemption/by_priority.go",
		"cmp.Compare(b.Priority, a.Priority),\n\t\tcmp.Compare(b.Kind",
		"cmp.Compare(a.Priority, b.Priority),\n\t\tcmp.Compare(b.Kind",
		"./internal/kubesched", "TestVictimsAreUpstreams", "-kubesched.seed",
	},
	{
		"a publish does not say behind which message it goes", "eventlog/jetstream/append.go",
		"\t\t\tm.Header.Set(headerExpected, strconv.FormatUint(expected, 10))\n", "",
		"./test/histories", "TestWrittenHistories", "a log was called damaged",
	},
	{
		"a publish that is refused when it is repeated counts as stored, and nothing is read back",
		"eventlog/jetstream/append.go",
		"\t\tstored, serr := l.settle(ctx, waiting, p)\n",
		"\t\tstored, serr := p.sent && hasCode(err, conflictCodes...), error(nil)\n",
		"./test/histories",
		"TestWrittenHistories",
		"an acknowledged entry is lost",
	},
	{
		"a conflict counts as success",
		"eventlog/jetstream/append.go",
		"\t\tif err == nil {\n\t\t\tp.tail += uint64(len(parts))",
		"\t\tif err == nil || hasCode(err, conflictCodes...) {\n\t\t\tp.tail += uint64(len(parts))",
		"./test/histories",
		"TestWrittenHistories",
		"a sequence number was given twice",
	},
	{
		"whatever stands behind the log's end counts as the append", "eventlog/jetstream/append.go",
		"\t\treturn false, l.taken(ctx, last)\n", "\t\treturn true, nil\n",
		"./test/histories", "TestWrittenHistories", "an acknowledged entry is lost",
	},
	{
		"an append of unknown outcome counts as made", "eventlog/jetstream/append.go",
		"\tl.unknown = &p.attempt\n", "\tl.unknown = &p.attempt\n\tif ctx.Err() == nil {\n\t\treturn nil\n\t}\n",
		"./test/histories", "TestWrittenHistories", "an acknowledged entry is lost",
	},
	{
		"entries count as durable when they are published",
		"engine/writer.go",
		"\t\tw.note(w.log.Append(context.Background(), w.batch[0].Seq-1, w.batch))\n",
		"\t\tbatch := slices.Clone(w.batch)\n\t\tw.note(nil)\n\t\t_ = w.log.Append(context.Background(), " +
			"batch[0].Seq-1, batch)\n",
		"./test/histories",
		"TestWrittenHistories",
		"an effect was released before its decision was durable",
	},
	{
		"a standby that takes over lacks the leader's last decisions",
		"engine/recover.go",
		"\t\tif err := s.machine.Apply(entry); err != nil {",
		"\t\tlast, _ := log.Last()\n\t\tif _, ok := entry.Payload.(*eventlog.Decision); ok && applied != nil && " +
			"entry.Seq+10 > last {\n\t\t\tentry.Payload = &eventlog.Tick{}\n\t\t}\n" +
			"\t\tif err := s.machine.Apply(entry); err != nil {",
		"./test/histories",
		"TestWrittenHistories",
		"the log does not replay",
	},
	{
		"who takes over does not ask again for what has no result", "engine/engine.go",
		"\treturn e, e.writer.await(e.machine.Seq())\n",
		"\te.releases.released = e.machine.Seq()\n\treturn e, e.writer.await(e.machine.Seq())\n",
		"./test/histories", "TestWrittenHistories", "what fits is not placed",
	},
	{
		"a standby's watches do not compare the cluster with what the log told late", "kube/watch/follow.go",
		"\tif l.count[place].Lists == 0 {\n", "\tif l.count[place].Lists >= 0 {\n",
		"./test/histories", "TestWrittenHistories", "the log has a pod that is gone",
	},
}

// usesRapid are the packages whose tests know -rapid.nofailfile.
var usesRapid = []string{"./engine", "./scheduler", "./sim"}

// TestSoakPlantedFaults plants each fault and wants its test to fail. It compiles the program again for each.
func TestSoakPlantedFaults(t *testing.T) {
	if os.Getenv("ROLLCALL_SOAK") != "1" {
		t.Skip("skipped: it takes minutes; set ROLLCALL_SOAK=1, or run make soak")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			file := filepath.Join(root, filepath.FromSlash(f.file))
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), f.old); n != 1 {
				t.Fatalf("what is to be changed stands %d times in %s: plant the fault anew", n, f.file)
			}
			changed := filepath.Join(t.TempDir(), filepath.Base(file))
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
			if err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string]string{ // any order: two files
				changed: strings.Replace(string(source), f.old, f.new, 1), overlay: string(replace),
			} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(
				"go",
				"test",
				"-tags",
				"invariants,grpcnotrace",
				"-overlay",
				overlay,
				"-count",
				"1",
				"-run",
				"^"+f.test+"$",
				f.pkg,
			)
			if slices.Contains(usesRapid, f.pkg) {
				cmd.Args = append(cmd.Args, "-rapid.nofailfile") // it is to leave nothing behind
			}
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "ROLLCALL_SOAK=", "ROLLCALL_WHOLE=1")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+f.test) ||
				!strings.Contains(string(out), f.says) {
				t.Fatalf("%s does not catch it: %v\n%s", f.test, err, out)
			}
			t.Logf("%s:\n%s", f.test, firstLines(string(out), 6))
		})
	}
}

// TestEachPlantedFaultHasItsPlaceAndItsTest checks, between two soak runs, that each text to be changed still occurs
// once, and that the test which has to find the fault still has that name.
func TestEachPlantedFaultHasItsPlaceAndItsTest(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, f := range plantedFaults {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.file)))
		if err != nil {
			t.Error(err)
		}
		if n := strings.Count(string(source), f.old); n != 1 {
			t.Errorf("%s: what is to be changed stands %d times in %s: plant the fault anew", f.name, n, f.file)
		}
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(f.pkg), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+f.test+"(")
		}) {
			t.Errorf("%s: there is no %s in %s", f.name, f.test, f.pkg)
		}
	}
}

func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "")
}
