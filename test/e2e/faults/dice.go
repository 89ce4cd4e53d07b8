package faults

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"sync"
	"time"
)

// Dice choose the requests that meet a fault.
type Dice struct {
	seed uint64

	mu    sync.Mutex
	rules []Rule
	// asked is the number of times that each request was asked for.
	asked  map[string]uint64
	counts map[Fault]int
}

// NewDice makes the dice of a proxy.
func NewDice(seed uint64, rules []Rule) *Dice {
	return &Dice{seed: seed, rules: rules, asked: map[string]uint64{}, counts: map[Fault]int{}}
}

// Roll returns the rule that a request meets; what identifies the request. ok is false if it meets none.
func (d *Dice) Roll(kind Kind, what string) (_ Rule, ok bool) {
	if kind == "" {
		return Rule{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[what]++
	for i, rule := range d.rules {
		if rule.Kind != kind || rule.Most > 0 && d.counts[rule.Fault] >= rule.Most {
			continue
		}
		h := fnv.New64a()
		fmt.Fprintln(h, d.seed, i, what, d.asked[what])
		if share(h.Sum64()) < rule.Probability {
			d.counts[rule.Fault]++
			if rule.Delay == 0 {
				rule.Delay = time.Second
			}
			return rule, true
		}
	}
	return Rule{}, false
}

// share turns a hash into a number from 0 to 1. The mixing, from the end of MurmurHash3, makes each bit depend on all:
// FNV's first bits depend little on the last bytes that were hashed.
func share(h uint64) float64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return float64(h>>11) / math.Exp2(53)
}

func (d *Dice) setRules(rules []Rule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules = rules
}

func (d *Dice) counted() map[Fault]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}
