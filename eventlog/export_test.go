package eventlog

// Memory returns how much memory an Encoding keeps alive at the most, and how much the Encoder goes on to share.
func (c *Encoder) Memory(e Encoding) (own, shared int) { return cap(e.bytes), cap(c.chunk) }

// EncoderChunk is encoderChunk.
const EncoderChunk = encoderChunk
