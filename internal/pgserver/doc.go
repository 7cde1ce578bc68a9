// Package pgserver runs a PostgreSQL server from binaries on this machine, for development and
// for tests: no installation as a service, no container, one directory with everything in it.
//
// The server listens on 127.0.0.1 alone, on no Unix socket, with a generated password. It ends
// with this process, also when that is killed (on Linux at once, elsewhere at the next Start on
// the directory). Find says which binaries there are, Obtain fetches some if
// there are none, Start runs them.
package pgserver
