package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// serversIn lists the postgres processes that work in a data directory, children of the
// postmaster included: each has the directory as its working directory.
func serversIn(data string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// Processes of other users, and processes that end meanwhile, cannot be read; none is ours.
		cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if err != nil || cwd != data {
			continue
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "postgres" {
			continue
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
