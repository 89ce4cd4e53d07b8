package eventlog

// Memory returns the largest amount of memory that an Encoding keeps alive, and the amount that the Encoder still
// shares.
func (c *Encoder) Memory(e Encoding) (own, shared int) { return cap(e.bytes), cap(c.chunk) }

// EncoderChunk is encoderChunk.
const EncoderChunk = encoderChunk

// KeptAnnotations returns the annotations that are kept of the resource's objects.
func KeptAnnotations(res Resource) []string { return keptAnnotations[res] }

// ImageWithoutCredentials is imageWithoutCredentials.
var ImageWithoutCredentials = imageWithoutCredentials

// Remembered returns how many specs a Decoder remembers.
func (d *Decoder) Remembered() int { return len(d.specs) }

// MaxShared is maxShared.
const MaxShared = maxShared
