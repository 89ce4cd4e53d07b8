package boltlog

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/rollcall-sched/rollcall/eventlog"
	"github.com/rollcall-sched/rollcall/eventlog/logtest"
	"github.com/rollcall-sched/rollcall/internal/fixedseed"
)

// Every byte of a small log is damaged, one after the other, and every file cut at every byte; one byte in four unless
// the test is to be whole (fixedseed.Whole). Each time the log is read, checked, opened for appending and appended to.
// Whatever is not found to be damaged must not matter: every entry is as it was, before and after an Append.
//
// The tries are made in processes of their own (TestTriesOfDamage), because bbolt's check of a file's structure
// may bring one down. Nothing else may.

const (
	// damageLog tells such a process where the log is that it copies, damageShare which tries are its, and
	// damageScratch where it works: if it crashes, someone else must clean up.
	damageLog     = "ROLLCALL_DAMAGE_LOG"
	damageShare   = "ROLLCALL_DAMAGE_SHARE"
	damageScratch = "ROLLCALL_DAMAGE_SCRATCH"
	// The log has damageSegments segments of damageEntries entries.
	damageSegments, damageEntries = 2, 12
	// damageAtOnce is the number of tries of one process: bbolt leaks its mapping of a file that it panics on.
	damageAtOnce = 4000
)

// A damageCount counts the outcomes of one process's tries.
type damageCount struct {
	// Next is the number of the first try that was not made. While one is made it is the try's own.
	Next int
	// Total is the number of tries for all processes.
	Total int
	// Checking says that bbolt's check of the structure is under way.
	Checking bool
	// Opening, Reading and Check count the faults found by opening the log, by reading it, and by checking it.
	Opening, Reading, Check int
	// Harmless counts the faults that were not found: no read uses the damaged bytes.
	Harmless int
	// Crashes counts the calls of Check that crashed the process.
	Crashes int
	// Wrong are the tries with a forbidden outcome.
	Wrong []string
}

func (c *damageCount) add(o damageCount) {
	c.Opening += o.Opening
	c.Reading += o.Reading
	c.Check += o.Check
	c.Harmless += o.Harmless
	c.Crashes += o.Crashes
	c.Total = o.Total
	c.Wrong = append(c.Wrong, o.Wrong...)
}

// A damagedLog is a log in memory that is put on a file system again and again.
type damagedLog struct {
	dir     string
	names   []string
	files   map[string][]byte
	records [][]byte
	// changed says that any file may be another one than it was, bad which one is; "" for none.
	changed bool
	bad     string
}

func loadForDamage(t *testing.T, from string) *damagedLog {
	t.Helper()
	scratch, err := os.MkdirTemp(os.Getenv(damageScratch), "tries-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(scratch) })
	d := &damagedLog{dir: filepath.Join(scratch, "a.log"), files: map[string][]byte{}, changed: true}
	entries, err := os.ReadDir(from)
	must(t, err)
	must(t, os.Mkdir(d.dir, 0o700))
	for _, e := range entries {
		d.names = append(d.names, e.Name())
		d.files[e.Name()], err = os.ReadFile(filepath.Join(from, e.Name()))
		must(t, err)
	}
	var prev [32]byte
	for _, e := range damageContent(1, damageSegments*damageEntries+1) {
		rec, err := eventlog.AppendRecord(nil, e, prev)
		must(t, err)
		prev = eventlog.HashRecord(rec)
		d.records = append(d.records, rec)
	}
	return d
}

// damageContent returns the log's entries: the entries of a segment fill more than one page, so that there is a page
// above.
func damageContent(first uint64, n int) []eventlog.Entry {
	entries := logtest.Entries(first, n)
	for i := range entries {
		if result, ok := entries[i].Payload.(*eventlog.BindResult); ok {
			result.Message = strings.Repeat("because ", 250)
		}
	}
	return entries
}

// put makes the files what they were, except for one.
func (d *damagedLog) put(t damageTry) error {
	if d.changed {
		if err := os.RemoveAll(d.dir); err != nil {
			return err
		}
		if err := os.Mkdir(d.dir, 0o700); err != nil {
			return err
		}
	}
	for _, n := range d.names {
		if d.changed || n == d.bad {
			if err := os.WriteFile(filepath.Join(d.dir, n), d.files[n], fileMode); err != nil {
				return err
			}
		}
	}
	d.changed, d.bad = false, t.name
	path := filepath.Join(d.dir, t.name)
	if t.bits == 0 {
		return os.Truncate(path, int64(t.at))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{d.files[t.name][t.at] ^ t.bits}, int64(t.at))
	return errors.Join(err, f.Close())
}

// try sees the outcome of one damage, also to an Append if more is asked. say is called before bbolt's check of the
// structure, and after it.
func (d *damagedLog) try(t damageTry, more bool, count *damageCount, say func(checking bool)) error {
	if err := d.put(t); err != nil {
		return err
	}
	opened, err := d.read()
	found := err != nil
	if err != nil && !damageIsNamed(err) {
		return fmt.Errorf("the error does not say that the log is damaged: %w", err)
	}
	switch {
	case !opened:
		count.Opening++
	case found:
		count.Reading++
	default:
		say(true)
		if found = checkStructure(d.dir) != nil; found {
			count.Check++
		} else {
			count.Harmless++
		}
		say(false)
	}
	if !more || opened && err == nil && found {
		return nil // who appends to a file whose structure is damaged may do anything with it: log verify tells
	}
	return d.appendTo(found)
}

// read reads the log, and reports whether it could be opened. An answer other than the whole log's is an error without
// a name.
func (d *damagedLog) read() (opened bool, err error) {
	l, err := OpenReadOnly(d.dir)
	if err != nil {
		return false, err
	}
	defer l.Close()
	n, err := d.compare(l)
	if err == nil && n != damageSegments*damageEntries {
		err = fmt.Errorf("%d entries were read and no error", n)
	}
	return true, err
}

// compare reads a log and compares each entry with the appended one.
func (d *damagedLog) compare(l *Log) (n int, err error) {
	var prev [32]byte
	var rec []byte
	for e, err := range l.Read(context.Background(), 1) {
		if err != nil {
			return n, err
		}
		if rec, err = eventlog.AppendRecord(rec[:0], e, prev); err != nil {
			return n, err
		}
		if n >= len(d.records) || !bytes.Equal(rec, d.records[n]) {
			return n, fmt.Errorf("entry %d was read as another one", n+1)
		}
		prev = eventlog.HashRecord(rec)
		n++
	}
	return n, nil
}

// appendTo opens the log for appending and appends. Only if the damage was found may that go wrong, and then
// not silently.
func (d *damagedLog) appendTo(found bool) error {
	const total = damageSegments * damageEntries
	d.changed = true
	l, err := Open(d.dir)
	if err != nil {
		if !damageIsNamed(err) {
			return fmt.Errorf("open for appending: %w", err)
		}
		return nil // found now, if not before
	}
	defer l.Close()
	if last, err := l.Last(); last != total || err != nil {
		return fmt.Errorf("opened for appending, its last entry is %d, error %v", last, err)
	}
	if err := l.Append(context.Background(), total, damageContent(total+1, 1)); err != nil {
		if !found {
			return fmt.Errorf("append: %w", err)
		}
		return nil
	}
	n, err := d.compare(l)
	switch {
	case err != nil && !damageIsNamed(err):
		return fmt.Errorf("read after an append: %w", err)
	case !found && (err != nil || n != total+1):
		return fmt.Errorf("read after an append: %d entries, error %v, though no damage was found before", n, err)
	}
	return nil
}

// damageIsNamed reports whether an error is one of the errors that a damaged log may return.
func damageIsNamed(err error) bool {
	var damaged *eventlog.DamagedError
	var format *FormatError
	return errors.As(err, &damaged) || errors.As(err, &format) || errors.Is(err, ErrNotALog)
}

// A damageTry is one damage: the bits that are flipped at a byte, or, if there are none, a cut.
type damageTry struct {
	name string
	at   int
	bits byte
}

// tries returns all tries. One bit of each byte is flipped, or every one; always every one where a page describes
// itself and its first element. Elsewhere only one byte in stride has its turn.
func (d *damagedLog) tries(everyBit bool, stride int) []damageTry {
	var all []damageTry
	chance := rand.New(rand.NewPCG(3, 4))
	for _, name := range d.names {
		for at := range d.files[name] {
			one := chance.IntN(8)
			if chance.IntN(stride) != 0 && at%pageSize >= 32 {
				continue
			}
			for bit := range 8 {
				if everyBit || bit == one || at%pageSize < 32 {
					all = append(all, damageTry{name, at, 1 << bit})
				}
			}
			if name != lockName {
				all = append(all, damageTry{name, at, 0})
			}
		}
	}
	return all
}

// TestTriesOfDamage is not a test but what runs in a process of its own: its share of the tries.
func TestTriesOfDamage(t *testing.T) {
	log := os.Getenv(damageLog)
	if log == "" {
		t.Skip("run by the test of damage, in a process of its own")
	}
	var first, step int
	_, err := fmt.Sscan(os.Getenv(damageShare), &first, &step)
	must(t, err)
	d := loadForDamage(t, log)
	soak := os.Getenv("ROLLCALL_SOAK") != ""
	all := d.tries(soak, fixedseed.Of(1, 4))
	out := json.NewEncoder(os.NewFile(3, "out"))
	count := damageCount{Next: first, Total: len(all)}
	for ; count.Next < min(len(all), first+step*damageAtOnce); count.Next += step {
		try := all[count.Next]
		say := func(checking bool) {
			count.Checking = checking
			_ = out.Encode(count)
		}
		more := soak || try.at%7 == count.Next%7
		if err := d.try(try, more, &count, say); err != nil {
			count.Wrong = append(count.Wrong, fmt.Sprintf("%s, byte %d, bits %#x: %v", try.name, try.at, try.bits, err))
		}
		if count.Next/step%64 == 0 {
			say(false)
		}
	}
	must(t, out.Encode(count))
}

// damageWorker makes a share of the tries, in as many processes as it takes.
func damageWorker(log, scratch string, first, step int) (total damageCount, err error) {
	for {
		count, crashed, complaint := damageProcess(log, scratch, first, step)
		total.add(count)
		switch {
		case !crashed && count.Next >= count.Total:
			return total, nil
		case !crashed:
			first = count.Next
			continue
		case !count.Checking:
			return total, fmt.Errorf(
				"the process crashed about try %d, and not in the check of the structure: %s",
				count.Next,
				complaint,
			)
		}
		total.Crashes++
		total.Check++ // it is damage, and log verify says so when its own process crashes
		first = count.Next + step
	}
}

// damageProcess runs one process and returns its last word.
func damageProcess(log, scratch string, first, step int) (count damageCount, crashed bool, complaint string) {
	self, err := os.Executable()
	if err != nil {
		return count, true, err.Error()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return count, true, err.Error()
	}
	cmd := exec.Command(self, "-test.run=^TestTriesOfDamage$", "-test.timeout=3h")
	cmd.Env = append(
		os.Environ(),
		damageLog+"="+log,
		damageScratch+"="+scratch,
		damageShare+"="+strconv.Itoa(first)+" "+strconv.Itoa(step),
		"GOMAXPROCS=1",
	)
	cmd.ExtraFiles = []*os.File{w}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Start()
	w.Close()
	if err == nil {
		lines := json.NewDecoder(bufio.NewReader(r))
		for {
			var c damageCount
			if lines.Decode(&c) != nil {
				break
			}
			count = c
		}
		err = cmd.Wait()
	}
	r.Close()
	return count, err != nil, output.String()
}

// logForDamage makes the small log: sealed segments and a live one.
func logForDamage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.log")
	l, err := everyAppend.Create(path)
	must(t, err)
	for i := range damageSegments {
		must(
			t,
			l.Append(
				context.Background(),
				uint64(i*damageEntries),
				damageContent(uint64(i*damageEntries)+1, damageEntries),
			),
		)
	}
	must(t, l.tail.view(1, func(tx *bolt.Tx) error {
		if tx.Bucket(bucketLog).Stats().BranchPageN == 0 {
			t.Error("the log is so small that it has no branch pages to damage")
		}
		return nil
	}))
	var used int64
	live := l.tail.Path
	must(t, l.tail.view(1, func(tx *bolt.Tx) error {
		used = tx.Size()
		return nil
	}))
	must(t, l.Close())
	// Megabytes of room to grow are not worth a try each: two pages of it stay.
	must(t, os.Truncate(live, used+2*pageSize))
	return path
}

func TestEveryDamagedByteIsFoundOrUnused(t *testing.T) {
	log, scratch := logForDamage(t), scratchDir(t)
	workers := runtime.GOMAXPROCS(0)
	var (
		mu    sync.Mutex
		total damageCount
		wait  sync.WaitGroup
	)
	for w := range workers {
		wait.Go(func() {
			count, err := damageWorker(log, scratch, w, workers)
			mu.Lock()
			defer mu.Unlock()
			total.add(count)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	t.Logf(
		"found by opening %d, by reading %d, by checking the structure %d; not found because nothing reads it %d; %d "+
			"checks of the structure crashed",
		total.Opening,
		total.Reading,
		total.Check,
		total.Harmless,
		total.Crashes,
	)
	if n := len(total.Wrong); n > 0 {
		t.Errorf("%d went wrong:\n%s", n, strings.Join(total.Wrong[:min(n, 20)], "\n"))
	}
	if got := total.Opening + total.Reading + total.Check + total.Harmless; !t.Failed() && got != total.Total {
		t.Errorf("%d tries were made, want %d", got, total.Total)
	}
}

// TestEveryBitOfABucketInThePageOfBucketsIsFoundOrUnused flips every bit, and not one of each byte, where that page has
// the bucket meta: its header, its page's and its elements'.
func TestEveryBitOfABucketInThePageOfBucketsIsFoundOrUnused(t *testing.T) {
	t.Setenv(damageScratch, scratchDir(t))
	d := loadForDamage(t, logForDamage(t))
	tried := 0
	for _, try := range d.tries(true, 1) {
		at := try.at % pageSize
		page := d.files[try.name][try.at-at:]
		const names, key, headers = pageHeaderSize + 3*elementSize, pageHeaderSize + 3*elementSize + 3 + 16, 4 + 16 +
			pageHeaderSize + 7*elementSize
		if len(page) < pageSize || string(page[names:names+3]) != "log" || at < key || at >= key+headers ||
			try.bits == 0 {
			continue
		}
		var count damageCount
		if err := d.try(try, true, &count, func(bool) {}); err != nil {
			t.Errorf("%s, byte %d, bits %#x: %v", try.name, try.at, try.bits, err)
		}
		tried++
	}
	if tried < 1000 {
		t.Errorf("only %d bits were flipped", tried)
	}
}
