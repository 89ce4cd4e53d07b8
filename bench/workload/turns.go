package workload

import "fmt"

// Turns are the rule for the coming and going of pods, the same for every scheduler. Pods come in batches that end
// where gangs do. When there would be more than Stay pods, the oldest bound ones end, or their whole gangs.
type Turns struct {
	// Stay is the largest number of pods at one time.
	Stay int
	// Batch is the largest number of pods that come at once, not counting the rest of a gang.
	Batch int
}

// Turns returns how the pods of s come and go if at most stay exist at one time and batch come at once. A stay of 0
// means as many as fill four fifths of the nodes. beside is the number of further pods that need room. Pods with
// devices come in batches of at most a quarter of stay, so that the nodes are nearly full for all of them. Pods that
// preempt come all at once, and stay.
func (s Spec) Turns(stay, batch, beside int) (Turns, error) {
	if s.Preempt {
		if beside > 0 {
			return Turns{}, fmt.Errorf("%d idle pods: no node has room when gangs preempt", beside)
		}
		return Turns{Stay: s.Pods, Batch: s.Pods}, nil
	}
	room := s.Room() - beside
	if stay == 0 && s.Pods <= room {
		return Turns{Stay: s.Pods, Batch: batch}, nil
	}
	if stay == 0 {
		stay = s.Room() * 4 / 5
	}
	room -= max(s.Gang, s.GangMost) // batches end where gangs do
	if stay = min(stay, room); stay < max(1, s.Gang, s.GangMost) {
		return Turns{}, fmt.Errorf("%d nodes are too few for gangs of %d and %d idle pods", s.Nodes,
			max(s.Gang, s.GangMost), beside)
	}
	batch = min(batch, stay)
	if s.DRA {
		batch = min(batch, max(1, stay/4))
	}
	return Turns{Stay: stay, Batch: batch}, nil
}

// Until returns the number after the last pod that comes in one batch with pod next.
func (s Spec) Until(t Turns, next int) int {
	end := min(next+t.Batch, s.Pods)
	if s.Gang > 0 && end > next {
		_, _, end = s.gangAt(end - 1)
	}
	end = min(end, s.Pods)
	return end
}

// Together returns the pods that end together with pod i: its gang's pods, up to end, or the pod alone.
func (s Spec) Together(i int) (end int) {
	if g, ok := s.groupOf(i); ok {
		_, end = s.Members(g)
		return end
	}
	return i + 1
}
