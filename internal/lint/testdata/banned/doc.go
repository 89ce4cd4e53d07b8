// Package banned holds every ban broken once. A comment "want RULE" at the end of a line says what the
// test expects there; on any other line it expects nothing.
package banned
