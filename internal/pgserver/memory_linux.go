package pgserver

import "syscall"

// enoughMemory is what a file system in memory must have free: a server begins with 40 MB, each
// database takes 10 MB, and as many exist at a time as tests run.
const enoughMemory = 4 << 30

// MemoryDir returns a file system in memory with ample room, as Options.TempDir for servers of
// tests, which are then not slowed down by what else is written to the disk; or "", which is
// the usual place, where there is none. (In containers it is often tiny.)
func MemoryDir() string {
	const dir = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enoughMemory {
		return ""
	}
	return dir
}
