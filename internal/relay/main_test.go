package relay

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil { // the properties here are cheap
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
