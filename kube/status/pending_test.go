package status

import (
	"context"
	"testing"
)

// Two workers that write for one key could reach the API server in the other order: the older value would remain.
func TestOneKeyIsWrittenByOneWorkerAtATime(t *testing.T) {
	p := newPending[string, int](0)
	want := func(key string, value int) (it *item[int]) {
		t.Helper()
		got, it := p.next()
		if value == 0 && it != nil || value != 0 && (it == nil || got != key || it.value != value) {
			t.Fatalf("next is %q, %+v, want %q, %d", got, it, key, value)
		}
		return it
	}
	p.put("a", 1)
	first := want("a", 1)
	p.put("a", 2)
	p.put("b", 3)
	want("b", 3)
	want("", 0)
	p.put("a", 4) // in the place of 2
	want("", 0)
	p.ended(context.Background(), "a", first, wrote)
	second := want("a", 4)
	want("", 0)
	p.ended(context.Background(), "a", second, wrote)
	want("", 0)
	if len(p.writing) != 1 || len(p.held) != 0 || p.len() != 0 {
		t.Errorf("left are %+v", p)
	}
}

// A value that waits for the end of a write and is dropped meanwhile is not written.
func TestWhatIsDroppedWhileItWaitsForAWorkerIsNotWritten(t *testing.T) {
	p := newPending[string, int](0)
	p.put("a", 1)
	_, first := p.next()
	p.put("a", 2)
	p.next()
	p.drop("a")
	p.ended(context.Background(), "a", first, wrote)
	if key, it := p.next(); it != nil {
		t.Errorf("next is %q, %+v", key, it)
	}
}
