//go:build !linux

package throughput

func peakRSS() int64 { return 0 }
