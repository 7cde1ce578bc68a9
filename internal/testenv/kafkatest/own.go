package kafkatest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// ownTimeout bounds the start of a broker, the first download of its jars included.
const ownTimeout = 5 * time.Minute

// Own starts Apache Kafka from its jars for one test alone, which may kill it, and ends it with the test. The version is
// that of [EnvVersion]. A test that has nowhere to start one, or must not by [EnvKind], is noted as not tested.
func Own(t testing.TB, opts kafkajars.Options) *kafkajars.Broker {
	t.Helper()
	if os.Getenv(EnvKind) == string(KindKfake) {
		logtest.NotTested(t, noBroker(EnvKind+"=kfake"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), ownTimeout)
	defer cancel()
	opts.Version, opts.JVMArgs = kafkaVersion(), []string{"-XX:TieredStopAtLevel=1"}
	b, err := kafkajars.Start(ctx, opts)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		logtest.NotTested(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}
