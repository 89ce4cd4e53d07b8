package topologycount

// Rescaler puts the scores of many nodes on another scale. The nodes of a domain mostly have the same score, so it asks
// for each score between the least and the highest once, if there are fewer of these than nodes.
type Rescaler struct {
	memory []int64
}

// Rescale replaces each score by scale(score). Scores below least are rescaled one by one.
func (r *Rescaler) Rescale(scores []int64, least, most int64, scale func(int64) int64) {
	span := most - least
	if span < 0 || span >= int64(len(scores)) {
		for i, score := range scores {
			scores[i] = scale(score)
		}
		return
	}
	r.memory = resized(r.memory, int(span)+1)
	for i := range r.memory {
		r.memory[i] = scale(least + int64(i))
	}
	for i, score := range scores {
		if score < least {
			scores[i] = scale(score)
		} else {
			scores[i] = r.memory[score-least]
		}
	}
}
