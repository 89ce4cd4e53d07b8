package proof

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Key is a pair of keys, each one line of text: one that signs, and one that checks signatures.
type Key struct{ Private, Public string }

// GenerateKey makes the keys that sign and check the checkpoints of the log with the given name, which has no
// spaces and no plus sign. rand is crypto/rand.Reader.
func GenerateKey(rand io.Reader, name string) (Key, error) {
	private, public, err := note.GenerateKey(rand, name)
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	_, errPrivate := note.NewSigner(private)
	_, errPublic := note.NewVerifier(public)
	if errPrivate != nil || errPublic != nil || strings.ContainsAny(name, "\r\n") {
		return Key{}, fmt.Errorf(
			"make a key: the name %q does not do: it must not be empty, nor have spaces or a plus sign",
			name,
		)
	}
	return Key{Private: private, Public: public}, nil
}

// errNoKey gives no details, because the text may be a key after all.
var errNoKey = errors.New("it is not a key that rollcall log keygen has made, or it was changed")

// ReadSigner reads the private key in a file's content.
func ReadSigner(content []byte) (note.Signer, error) {
	line, err := keyLine(content)
	if err != nil {
		return nil, err
	}
	s, err := note.NewSigner(line)
	if err != nil {
		if _, public := note.NewVerifier(line); public == nil {
			return nil, errors.New("it is a public key: signing takes the private one")
		}
		return nil, errNoKey
	}
	return s, asWritten(line, "PRIVATE+KEY+"+s.Name(), s.KeyHash())
}

// ReadVerifier reads the public key in a file's content.
func ReadVerifier(content []byte) (note.Verifier, error) {
	line, err := keyLine(content)
	if err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(line)
	if err != nil {
		if _, private := note.NewSigner(line); private == nil {
			return nil, errors.New(
				"it is a private key: checking takes the public one, and the private one should not leave its place",
			)
		}
		return nil, errNoKey
	}
	return v, asWritten(line, v.Name(), v.KeyHash())
}

// asWritten refuses a key that package note reads but would not write: with capital letters in its hash.
func asWritten(line, name string, hash uint32) error {
	if !strings.HasPrefix(line, fmt.Sprintf("%s+%08x+", name, hash)) {
		return errNoKey
	}
	return nil
}

// keyLine returns the one line that a key's file has.
func keyLine(content []byte) (string, error) {
	line := strings.TrimSuffix(string(content), "\n")
	if line == "" || len(line) > 1<<10 || strings.ContainsAny(line, "\r\n\t\v\f") {
		return "", errNoKey
	}
	return line, nil
}
