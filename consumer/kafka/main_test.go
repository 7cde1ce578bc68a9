package kafka

import (
	"testing"

	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }
