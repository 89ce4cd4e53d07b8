package queue

// entityHeap is a binary heap of entities that know their place in it (Entity.slot), so that removing one
// costs O(log n). The order must be total.
type entityHeap struct {
	items []*Entity
	less  func(a, b *Entity) bool
}

// top returns the first entity, nil if there is none.
func (h *entityHeap) top() *Entity {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

func (h *entityHeap) push(e *Entity) {
	e.slot = len(h.items)
	h.items = append(h.items, e)
	h.up(e.slot)
}

func (h *entityHeap) remove(e *Entity) {
	i, last := e.slot, len(h.items)-1
	if h.items[i] != e {
		panic("queue: " + e.key.String() + " is not where its heap has it")
	}
	h.swap(i, last)
	h.items[last] = nil
	h.items = h.items[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *entityHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *entityHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.items); child++ {
			if h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *entityHeap) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].slot, h.items[j].slot = i, j
}
