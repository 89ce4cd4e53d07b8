// Package engine is the one writer of a log. It stamps inputs with the next sequence numbers and a time that never goes
// back, and applies them to the Machine. It lets the Machine decide until nothing is left, and makes all of that
// durable. Only then it gives out the effects of the decisions.
//
// The package never talks to a cluster and reads no clock. A driver does: package engine/live for a cluster, package
// sim for a virtual one. Start reading at Ready and Engine.Step.
//
// # The driving loop
//
// The driver calls the engine, and each call returns a Ready: one value with everything that has become due. The
// smallest driver waits for the disk in each turn:
//
//	e, err := engine.Open(ctx, log, time.Now(), options)
//	...
//	for err == nil {
//		var ready engine.Ready
//		ready, err = e.Step(ctx, time.Now(), append(results(), changes()...))
//		for _, c := range ready.Commits {
//			show(c.Entries, ready.State)
//		}
//		carryOut(ready.Effects)
//		takeBack(ready.Withdrawals)
//		if err == nil && !ready.Busy {
//			sleepUntil(ready.Wake) // or until there is a change or a result
//		}
//	}
//	err = errors.Join(err, e.Close())
//
// With Advance in place of Step the loop does not wait for the disk. It then also wakes when something is received from
// Engine.Appended, and the next call returns the durable entries.
//
// Callers must call the engine from one goroutine at a time, except for Appended.
//
// Callers must give it the changes of the world as inputs, in their order: objects that came or changed, deletions, and
// the results of effects. An input must not be changed afterwards.
//
// Callers must read Commits before the next call of the engine. The payloads of entries belong to the Machine, which
// may change them in that call. Data that is needed longer, or by another goroutine, must be copied or encoded. No
// decision may be shown to anybody before its entry has come in a Commit.
//
// Callers must hand on every effect of Effects once. The next call need not wait until they are carried out: the
// engine decides meanwhile. Effects on one pod must be carried out in
// their order. Those on different pods may be carried out in any order, and at the same time. An effect whose Earlier
// is set may have been carried out already by another process: the caller must look before it acts.
//
// Callers must give back one final result of every effect as an input: a BindResult, an EvictResult, an ExtenderResult,
// or the changed object where EffectKind says so. While the result is not known there is no input, and the
// effect's resources stay reserved. Effects that have no result when the process ends come again in the first Ready
// of the next epoch.
//
// Callers must not send an eviction of Withdrawals that they have not sent yet. They give back that it was withdrawn.
// Withdrawals are handled after the Effects of the same Ready, because they may name evictions of these, and before
// anything of these is sent.
//
// Callers must call the engine again, with or without inputs: at once if Busy is set; when Wake has come; and, if they
// use Advance, when something is received from Appended.
//
// Callers must stop at the first error. The engine is of no more use then, and whether the entries of an append that
// failed are in the log may be unknown. The Ready that comes with an error has no effects, but it has the Commits that
// have succeeded. Open reads the log again and gives out what is outstanding.
//
// A scheduler that is about to end decides nothing more: its last results are taken in with Note, and Sync waits until
// all of it is durable. Effects that come with these two are left to the next epoch.
//
// # Order
//
// Commits have every entry of the epoch once, in order and without a gap, beginning with the EpochStarted of Open.
// Earlier entries are in the log. Where one Commit ends and the next begins depends on the speed of the disk.
//
// An effect is given out only after its decision is durable, with the Commit of its decision or with a later call. The
// one exception is the option WhenDecided. It is for a simulation, whose world exists in that log alone.
//
// # Inside
//
// The engine is a pipeline of two. The caller's goroutine takes inputs in and decides. Beside it a writer (writer.go)
// appends what it was handed, with everything that has come meanwhile in one append. The decisions depend on neither:
// the same inputs at the same times are the same log, byte for byte, and the log does not show where one append ends
// and the next begins.
//
// The writer reads the header of an entry, and its payload's encoding, which was made when the entry was taken in.
// Neither changes after that. The payload belongs to the Machine from then on.
//
// Recovery is Open. It restores the newest trusted snapshot, and applies the entries after it, or the whole log if
// there is no snapshot, with the same Apply. Then a new epoch begins.
package engine
