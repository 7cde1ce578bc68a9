package kafka

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
