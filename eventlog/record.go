package eventlog

// A Record is one entry as bytes of a log.
type Record struct {
	// Seq is the entry's number.
	Seq uint64
	// Bytes is the input of DecodeRecord. The reader may use it until it asks for the next record.
	Bytes []byte
	// Hash is the hash of Bytes (HashRecord), which the next record carries.
	Hash [32]byte
}
