package doctor

import (
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}
