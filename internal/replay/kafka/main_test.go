package kafka

import (
	"os"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestMain is also the main of the processes that TestKilled kills.
func TestMain(m *testing.M) {
	if os.Getenv(envBrokers) != "" {
		os.Exit(crashchild())
	}
	kafkatest.Main(m)
}
