//go:build unix && !linux && !aix && !solaris

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// serversIn lists the postgres processes that work in a data directory: the postmaster, when
// the process that its pid file names was started for this directory.
func serversIn(data string) ([]int, error) {
	pid := readPIDFile(data).pid
	if pid == 0 {
		return nil, nil
	}
	// ps fails if the process does not exist.
	out, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil || !strings.Contains(string(out), "postgres") || !strings.Contains(string(out), data) {
		return nil, nil //nolint:nilerr // no such process means no server
	}
	return []int{pid}, nil
}
