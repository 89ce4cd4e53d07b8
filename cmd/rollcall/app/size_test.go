package app

import "testing"

func TestASizeIsInBytesOrPowersOf1024(t *testing.T) {
	const refused = size(-1)
	for text, want := range map[string]size{
		"0": 0, "0K": 0, // the default
		"1": 1, "65536": 65536, "64K": 65536, "64KiB": 65536, "3M": 3 << 20, "3MiB": 3 << 20, "2G": 2 << 30,
		"2GiB": 2 << 30, "8388607GiB": 8388607 << 30, "9223372036854775807": 1<<63 - 1,
		"": refused, "-1": refused, "-1K": refused, "K": refused, "64KB": refused, "64k": refused, "64Ki": refused,
		"64KM": refused, "1.5M": refused, "64 K": refused,
		"8589934592GiB": refused, "9223372036854775808": refused, "9223372036854775807K": refused,
	} {
		got := refused
		if err := got.Set(text); got != want || (err == nil) != (want != refused) {
			t.Errorf("%q is %d, error %v, want %d", text, got, err, want)
		}
	}
}
