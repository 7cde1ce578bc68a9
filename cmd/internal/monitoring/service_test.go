package monitoring

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/consumer/inbox"
	"github.com/postrider/postrider/consumer/kafka"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// startService runs a service with the library and its inbox in this process until the test ends. It reads orders, where
// writeTraced writes. The address is where it serves metrics.
func startService(t *testing.T, broker string) (address string) {
	t.Helper()
	reg := prometheus.NewRegistry()
	pool := pgtest.NewEmpty(t).Pool(t)
	if err := inbox.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	processor, err := inbox.New(pool, inbox.Options{Group: "billing", Metrics: inbox.NewMetrics(reg)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kafka.NewClient(kafka.Config{Brokers: []string{broker}, CreateTopics: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}, Registerer: reg},
		consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			_, err := processor.Process(ctx, inbox.IDOf(m), func(context.Context, pgx.Tx) error { return nil })
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Log("the service ended:", c.Run(ctx)) // it cannot leave its group once the broker has ended
	}()
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(func() {
		stop()
		<-ended
		server.Close()
	})
	return strings.TrimPrefix(server.URL, "http://")
}

// awaitService waits until Prometheus knows how fast the service handles messages, for which it must have seen two counts.
func (s server) awaitService() {
	s.t.Helper()
	eventually(s.t, "the service handles messages", func() (bool, string) {
		var data struct{ Result []any }
		ok, why := s.ask("query?query="+url.QueryEscape("sum(rate(postrider_inbox_messages_total[1m])) > 0"), &data)
		return ok && len(data.Result) > 0, why
	})
}
