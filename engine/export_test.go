package engine

// MaxAppend is maxAppend.
const MaxAppend = maxAppend
