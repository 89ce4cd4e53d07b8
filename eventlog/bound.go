package eventlog

// Input from elsewhere may not take more memory than its size accounts for: decoding n bytes allocates at most
// DecodeMemory(n), garbage included. Input that would take more is refused before it is decoded. Real clusters are far
// below the limit. A pod of 168 KB with a thousand containers and ten thousand affinity terms takes 28 bytes for each
// byte. The largest ResourceSlice that an API server accepts, with names of two letters, takes 47.
const (
	// decodeFactor is the number of bytes that each byte of input may take.
	decodeFactor = 64
	// decodeFloor is the number of bytes that any input may take beside that, so that the rule does not affect objects
	// of the usual size.
	decodeFloor = 1 << 20
	// decodeMost is the number of bytes that an object may take, whatever its size: an API server has none over 3 MiB.
	decodeMost = 64 << 20
	// plainFactor is the number of bytes that each byte of other input may take. JSON takes as many beside the object,
	// because it is read more than once. Protobuf takes besideFactor, because it is encoded again and compared.
	plainFactor  = 20
	besideFactor = 4
)

// DecodeMemory returns the number of bytes that decoding an entry or an object of so many bytes allocates at most, in
// total. It holds for DecodeRecord, DecodeObject and ParseJSON.
func DecodeMemory(size int) uint64 {
	n := uint64(size)
	return min(decodeFloor+decodeFactor*n, decodeMost+plainFactor*n)
}

// objectMemory returns the number of bytes that the object itself may take. Its encoding has size bytes, and each of
// them takes beside more.
func objectMemory(size, beside int) int {
	const rest = 128 << 10 // for everything around it
	return min(decodeFloor+(decodeFactor-beside)*size, decodeMost) - rest
}
