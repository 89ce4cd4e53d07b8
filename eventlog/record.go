package eventlog

// A Record is one entry as it stands in a log.
type Record struct {
	// Seq is the entry's number.
	Seq uint64
	// Bytes are what DecodeRecord decodes. They are the reader's until it asks for the next record.
	Bytes []byte
	// Hash is theirs (HashRecord): what the next record carries.
	Hash [32]byte
}
