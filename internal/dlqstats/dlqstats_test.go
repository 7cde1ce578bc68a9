package dlqstats_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlqstats"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// counter counts what it is told to.
type counter struct {
	stats dlq.Stats
	err   error
}

func (c counter) Stats(context.Context) (dlq.Stats, error) { return c.stats, c.err }

// TestCountReports: the action reports where it is told to, also its failure, and nowhere when it is not told.
func TestCountReports(t *testing.T) {
	t.Parallel()
	errAway := errors.New("the database is away")
	for name, from := range map[string]counter{"counted": {stats: dlq.Stats{Pending: 7}}, "failed": {err: errAway}} {
		spans := tracetest.NewSpanRecorder()
		var log logtest.Buffer
		sum, err := dlqstats.Count(t.Context(), from, relay.Report{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		if sum.Size != from.stats.Pending || !errors.Is(err, from.err) {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
		var line map[string]any
		if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
			t.Fatalf("%s: not one line: %s, %v", name, log.String(), err)
		}
		if line["msg"] != "outbox action" || line["action"] != "dlqStats" || line["size"] != float64(from.stats.Pending) ||
			(line["err"] != nil) != (from.err != nil) || (line["level"] == "ERROR") != (from.err != nil) {
			t.Errorf("%s: the line is %v", name, line)
		}
		ended := spans.Ended()
		if len(ended) != 1 || ended[0].Name() != "outbox.dlqStats" || (ended[0].Status().Code == codes.Error) != (from.err != nil) {
			t.Errorf("%s: the spans are %v", name, ended)
		}
		if again, err := dlqstats.Count(t.Context(), from, relay.Report{}); again.Size != sum.Size || !errors.Is(err, from.err) {
			t.Errorf("%s, without a report: %+v, %v", name, again, err)
		}
	}
}
