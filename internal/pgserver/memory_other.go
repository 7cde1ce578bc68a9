//go:build !linux

package pgserver

// MemoryDir returns "", the usual place for temporary files: on this system no file system in
// memory is known. See Options.TempDir.
func MemoryDir() string { return "" }
