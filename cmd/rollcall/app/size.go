package app

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// A size is a number of bytes, 0 for the default, as a flag's value.
type size int64

// String implements pflag.Value.
func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	if n := int64(*s); n%(1<<30) == 0 {
		return strconv.FormatInt(n>>30, 10) + "GiB"
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type implements pflag.Value.
func (s *size) Type() string { return "bytes" }

// Set implements pflag.Value. K, M and G, KiB, MiB and GiB are powers of 1024.
func (s *size) Set(text string) error {
	digits := strings.TrimRight(text, "KMGiB")
	factor := map[string]int64{
		"": 1, "K": 1 << 10, "KiB": 1 << 10, "M": 1 << 20, "MiB": 1 << 20, "G": 1 << 30, "GiB": 1 << 30,
	}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || factor == 0 || n > math.MaxInt64/factor {
		return errors.New("want a number of bytes (0: the default), such as 65536, 64K, 64KiB, 16MiB or 1GiB")
	}
	*s = size(n * factor)
	return nil
}
