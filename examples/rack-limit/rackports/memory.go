package rackports

import "encoding/json"

// AppendState appends the memory: JSON, whose keys are sorted, so that the same memory is always the same bytes.
func (p *RackPorts) AppendState(dst []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	data, err := json.Marshal(p.ports)
	if err != nil {
		panic(err) // texts and numbers
	}
	return append(dst, data...)
}

// RestoreState has a new instance remember what AppendState has appended.
func (p *RackPorts) RestoreState(state []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return json.Unmarshal(state, &p.ports)
}
