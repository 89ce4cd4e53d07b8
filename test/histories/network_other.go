//go:build !linux

package histories

import (
	"errors"
	"net"
)

// A network is a network of real hosts, which is possible on Linux only.
type network struct{}

var errNoNetwork = errors.New("a network of real hosts needs the namespaces of Linux")

func newNetwork([]string, func(error)) (*network, error) { return nil, errNoNetwork }

func (*network) addrOf(string) string { return "" }

func (*network) listen(string, string) (net.Listener, error) { return nil, errNoNetwork }

func (*network) at(string, func() error) error { return errNoNetwork }

func (*network) cut(string, string) {}

func (*network) repair(string, string) {}

func (*network) close() {}

// InNetwork says what the machine lacks.
func InNetwork(...string) (run bool, out []byte, missing string, err error) {
	return true, nil, errNoNetwork.Error(), nil
}
