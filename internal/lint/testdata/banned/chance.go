package banned

import (
	_ "crypto/rand"  // want chance
	_ "hash/maphash" // want chance
	_ "math/rand"    // want chance
	_ "math/rand/v2" // want chance
	. "sort"         // want dot-import

	"github.com/google/uuid"
	_ "k8s.io/apimachinery/pkg/util/rand" // want chance
	_ "k8s.io/apimachinery/pkg/util/uuid" // want chance
)

var (
	_ = uuid.New                 // want chance
	_ = uuid.NewString           // want chance
	_ = uuid.NewRandom           // want chance
	_ = uuid.NewRandomFromReader // want chance
	_ = uuid.NewUUID             // want chance
	_ = uuid.NewV6               // want chance
	_ = uuid.NewV7               // want chance
	_ = uuid.NewV7FromReader     // want chance
	_ = uuid.NewDCESecurity      // want chance
	_ = uuid.NewDCEGroup         // want chance
	_ = uuid.NewDCEPerson        // want chance
)

// Functions of their arguments are no chance.
var (
	_ = uuid.NewSHA1
	_ = uuid.NewMD5
	_ = uuid.NewHash
	_ = uuid.Parse
	_ = Strings
)
