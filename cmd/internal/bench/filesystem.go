package main

import (
	"os"
	"path/filepath"
	"strings"
)

// filesystem is the kind of filesystem that files of a folder lie on, for example ext4 or tmpfs; if the folder is empty,
// it is the system's place for temporary files.
func filesystem(dir string) string {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	mounts, readErr := os.ReadFile("/proc/self/mounts")
	if err != nil || readErr != nil {
		return "an unknown filesystem"
	}
	return filesystemIn(string(mounts), dir)
}

// filesystemIn finds it in a table of mounts: the longest of the mounts that the folder is under, and the last of equals.
func filesystemIn(mounts, dir string) string {
	kind, longest := "an unknown filesystem", -1
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line) // device, place, kind, …
		if len(fields) < 3 {
			continue
		}
		at := fields[1]
		under := dir == at || strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/")
		if under && len(at) >= longest {
			kind, longest = fields[2], len(at)
		}
	}
	return kind
}
