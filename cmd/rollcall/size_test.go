package main

import "testing"

func TestASizeIsInBytesOrPowersOf1024(t *testing.T) {
	for text, want := range map[string]size{
		"1": 1, "65536": 65536, "64K": 65536, "64KiB": 65536, "3M": 3 << 20, "3MiB": 3 << 20, "2G": 2 << 30, "2GiB": 2 << 30, "8388607GiB": 8388607 << 30, "9223372036854775807": 1<<63 - 1,
		"": 0, "0": 0, "0K": 0, "-1": 0, "-1K": 0, "K": 0, "64KB": 0, "64k": 0, "64Ki": 0, "64KM": 0, "1.5M": 0, "64 K": 0, "8589934592GiB": 0, "9223372036854775808": 0, "9223372036854775807K": 0,
	} {
		var got size
		if err := got.Set(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %d, error %v, want %d", text, got, err, want)
		}
	}
}
