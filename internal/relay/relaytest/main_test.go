package relaytest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(childMain(text))
	}
	flag.Parse()
	// Faults are told from slowness by timeouts of seconds, so no more tests run at once than the machine has cores.
	if asked, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && asked > runtime.GOMAXPROCS(0) {
		_ = flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)))
	}
	pgtest.Main(m)
}
