package kafkajars

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports below the range from which kernels choose ports for outgoing
// connections (32768 and up on Linux, 49152 and up elsewhere).
const (
	firstPort = 20000
	lastPort  = 31999
)

// nextPort counts up, from a place of the process's own: a port that a test has chosen and not opened yet is given to no other
// test, and the tests of another package hardly ever come to it.
var nextPort atomic.Int64

func init() { nextPort.Store(rand.Int64N(lastPort - firstPort + 1)) }

// FreePort returns a port of 127.0.0.1 that nothing listens on. It lies below
// the kernel's ephemeral range: a port from that range can be taken by any
// outgoing connection while its broker is down, even by a client that dials
// the dead broker and so connects to itself.
func FreePort() (int, error) {
	var errs []error
	for range 20 {
		port := firstPort + int(nextPort.Add(1)%(lastPort-firstPort+1))
		err := checkFree(port)
		if err == nil {
			return port, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 in twenty tries between %d and %d: %w", firstPort, lastPort, errors.Join(errs...))
}

// checkFree returns why nothing new can listen on the port of 127.0.0.1.
func checkFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is not free: %w", port, err)
	}
	return l.Close()
}
