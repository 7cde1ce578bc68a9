package check

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(m) }))
}
