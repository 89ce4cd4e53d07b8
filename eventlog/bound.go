package eventlog

// What comes from elsewhere may not take more memory than its size accounts for: decoding n bytes allocates
// DecodeMemory(n) at the most, garbage included. What would take more is refused before it is decoded. That is far from
// what clusters have: 168 KB of a pod with a thousand containers and ten thousand terms of affinity take 28 bytes for
// each, and the largest ResourceSlice that an API server accepts, with names of two letters, 47.
const (
	// decodeFactor is how many bytes each byte of input may take.
	decodeFactor = 64
	// decodeFloor is how many more any input may take, so that the rule says nothing of objects of the usual size.
	decodeFloor = 1 << 20
	// decodeMost is how many bytes an object may take, whatever its size: an API server has none of more than 3 MiB.
	decodeMost = 64 << 20
	// plainFactor is how many bytes each byte of input may take that is no object. JSON takes as many beside the
	// object: it is read more than once; protobuf takes besideFactor, for it is encoded again, to be compared.
	plainFactor  = 20
	besideFactor = 4
)

// DecodeMemory returns how many bytes decoding an entry, or an object, allocates at the most, in total, for so many
// bytes of input. It holds for DecodeRecord, DecodeObject and ParseJSON.
func DecodeMemory(size int) uint64 {
	n := uint64(size)
	return min(decodeFloor+decodeFactor*n, decodeMost+plainFactor*n)
}

// objectMemory returns how many bytes the object itself may take whose encoding has so many bytes, each of which takes
// beside more.
func objectMemory(size, beside int) int {
	const rest = 128 << 10 // for what is around it
	return min(decodeFloor+(decodeFactor-beside)*size, decodeMost) - rest
}
