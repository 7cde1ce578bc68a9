package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/loop"
)

// scrapeEvery is how often metrics are scraped.
const scrapeEvery = time.Second

// telemetrySide is a relay with its metrics served.
type telemetrySide struct {
	postrider
	name string
	seen bool // its metrics are read while it works
}

func (s telemetrySide) title() (name, settings string) { return s.name, "defaults else" }

// telemetry drains the same backlog without telemetry, with metrics that are scraped and spans that are exported, and
// with the spans of the clients as well. The last is for information: an operator asks for these spans, and accepts their
// cost.
func telemetry(ctx context.Context, r *rig, b *broker, t *table) error {
	sink, err := newSpanSink()
	if err != nil {
		return err
	}
	defer sink.close()
	exported := func(plugins bool) map[string]string {
		clients := strconv.FormatBool(plugins)
		return map[string]string{"tracing.enabled": "true", "tracing.endpoint": sink.url, "tracing.sample_percent": "100",
			"tracing.database": clients, "tracing.kafka_client": clients}
	}
	withHeaders := ours
	withHeaders.headers = "headers"
	served := func(changed map[string]string) postrider {
		return postrider{alone: alone{withHeaders}, changed: changed, roles: "relay,http"}
	}
	sides := []side{telemetrySide{served(nil), "off", false}, telemetrySide{served(exported(false)), "metrics and traces", true},
		telemetrySide{served(exported(true)), "spans of statements and records, too", true}}
	all, err := turns(r, sides, func(s side) (drainSample, error) {
		var beside func(context.Context, process) (func() error, error)
		if s.(telemetrySide).seen {
			beside = scrapeChild
		}
		return r.drainOnce(ctx, b, s, beside)
	})
	if err != nil {
		return err
	}
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: rates(all[i])}}
		if i > 0 {
			cells = append(cells, cell{Name: "of off", Runs: paired(rates(all[i]), rates(all[0]))})
		}
		name, settings := s.title()
		t.add(b, name, settings, append(cells, costs(drainCosts(all[i]), "relay")...)...)
	}
	requests, bytes := sink.requests.Load(), sink.bytes.Load()
	if requests == 0 {
		return fmt.Errorf("no spans arrived")
	}
	t.note("%d waiting events; one in %d has a recorded trace. Spans are of these events and of each batch; metrics are scraped once a second. %d requests with %d bytes of spans arrived in all.",
		r.o.events, tracedOneIn, requests, bytes)
	return nil
}

// spanSink takes spans as a collector does, and throws them away.
type spanSink struct {
	url             string
	server          *http.Server
	requests, bytes atomic.Int64
}

func newSpanSink() (*spanSink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &spanSink{url: "http://" + listener.Addr().String()}
	s.server = &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what did not come is not counted
		s.bytes.Add(n)
		s.requests.Add(1)
	})}
	go func() { _ = s.server.Serve(listener) }() // ends with close
	return s, nil
}

func (s *spanSink) close() { _ = s.server.Close() }

// scrapeChild reads the metrics of a child that serves them until it is stopped; then it says what went wrong.
func scrapeChild(ctx context.Context, p process) (stop func() error, err error) {
	address, err := p.(*child).line()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			if err = scrapeOnce(ctx, address); err == nil {
				err = loop.Sleep(ctx, scrapeEvery)
			}
		}
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		ended <- err
	}()
	return func() error { cancel(); return <-ended }, nil
}

func scrapeOnce(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("scrape: %s", response.Status)
	}
	return nil
}
