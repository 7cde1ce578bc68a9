package pgtest

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/goleak"
)

// Main is the whole of a TestMain: it runs the tests, stops the server that they started, and
// then fails the package when a goroutine is left. It does not return.
func Main(m interface{ Run() int }, opts ...goleak.Option) {
	os.Exit(finish(m.Run(), shared.stop, func() error { return goleak.Find(append(opts, ofDocker...)...) }, os.Stderr))
}

// Run runs the tests and stops the server that they started. It is for a TestMain with more to do, for example
// one that also needs a broker. It returns the exit code and looks for no left-over goroutines.
func Run(m interface{ Run() int }) int {
	return finish(m.Run(), shared.stop, func() error { return nil }, os.Stderr)
}

// ofDocker is what testcontainers keeps for the connection to its reaper.
var ofDocker = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/testcontainers/testcontainers-go.(*Reaper).connect.func1"),
}

// finish turns the tests' exit code, the end of the server and the left-over goroutines into
// the exit code of the process.
func finish(code int, stop, leaks func() error, report io.Writer) int {
	if err := stop(); err != nil {
		fmt.Fprintln(report, err)
		code = max(code, 1)
	}
	if code != 0 {
		return code // a failed test may well have left something
	}
	if err := leaks(); err != nil {
		fmt.Fprintf(report, "pgtest: the tests passed, but left goroutines behind: %v\n", err)
		return 1
	}
	return 0
}
