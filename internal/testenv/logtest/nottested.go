package logtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// EnvNotTested names the file to which [NotTested] adds a line; scripts/test.sh counts them and prints them at the end,
// because `go test` keeps to itself what a package says that passes. Nothing is written where it is not set.
const EnvNotTested = "POSTRIDER_TEST_LEFT_OUT"

// EnvRequireAll makes a failure of everything that would be left out, unless it is empty or 0. .ci/run sets it.
const EnvRequireAll = "POSTRIDER_TEST_REQUIRE_ALL"

// NotTested skips a test for which this machine lacks something, and says so where it is seen. why says what is missing
// and what to install. No other way of skipping a test is allowed (cmd/internal/archtest).
func NotTested(t testing.TB, why string) {
	t.Helper()
	LeftOut(t, why)
	t.Skip(why)
}

// LeftOut is [NotTested] for a part of a test: the test goes on without it.
func LeftOut(t testing.TB, why string) {
	t.Helper()
	if required := os.Getenv(EnvRequireAll); required != "" && required != "0" {
		t.Fatalf("%s is set, and this machine lacks something: %s", EnvRequireAll, why)
	}
	note(t, why)
}

// NoDocker is [NotTested] for a Docker engine. It alone may be missing where everything is required: not every machine
// that tests can run one.
func NoDocker(t testing.TB, why string) {
	t.Helper()
	note(t, why)
	t.Skip(why)
}

// note adds a line to the file.
func note(t testing.TB, why string) {
	t.Helper()
	path := os.Getenv(EnvNotTested)
	if path == "" {
		return
	}
	first, _, _ := strings.Cut(why, "\n")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("%s: %v", EnvNotTested, err)
	}
	_, err = fmt.Fprintf(f, "%s: %s\n", t.Name(), first)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		t.Fatalf("%s: %v", EnvNotTested, err)
	}
}
