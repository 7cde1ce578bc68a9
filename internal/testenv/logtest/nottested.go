package logtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// EnvNotTested names the file to which [NotTested] adds a line; scripts/test.sh prints it at the end, because `go test`
// keeps to itself what a package says that passes. Nothing is written where it is not set.
const EnvNotTested = "POSTRIDER_TEST_LEFT_OUT"

// NotTested skips a test for which this machine lacks something, and says so where it is seen. why says what is missing
// and what to install. No other way of skipping a test is allowed (cmd/internal/archtest).
func NotTested(t testing.TB, why string) {
	t.Helper()
	if path := os.Getenv(EnvNotTested); path != "" {
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
	t.Skip(why)
}
