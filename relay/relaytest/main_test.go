package relaytest

import (
	"os"
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childEnv); text != "" {
		os.Exit(childMain(text))
	}
	pgtest.Main(m)
}
