package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// sampledOneIn is of how many events one has a writer whose trace is recorded.
const sampledOneIn = 100

// scrapeEvery is how often metrics are scraped.
const scrapeEvery = time.Second

// telemetry drains the same backlog without telemetry, with metrics that are scraped and spans that are exported, and with
// the spans of the clients as well, for information: whoever asks for those wants to see, and pays.
func telemetry(ctx context.Context, r *rig, b *broker, t *table) error {
	d, err := r.newDatabase(ctx, "bench_telemetry", true)
	if err != nil {
		return err
	}
	defer d.drop()
	sink, err := newSpanSink()
	if err != nil {
		return err
	}
	defer sink.close()
	batch, workers := r.o.batches[0], r.o.workers[len(r.o.workers)-1]
	side := relaySide{batch: batch, workers: workers, roles: "relay,http"}
	with := side
	with.spans = sink.url
	clients := with
	clients.plugins = true
	sides := []drainSide{{name: "off", relaySide: side, traced: true}, {name: "metrics and traces", relaySide: with, traced: true, scraped: true},
		{name: "spans of statements and records, too", relaySide: clients, traced: true, scraped: true}}
	bounds := []*target{nil, atLeast(0.95), nil}
	all, err := r.takeTurns(ctx, b, d, sides)
	if err != nil {
		return err
	}
	off := rates(all[0])
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: rates(all[i])}}
		if i > 0 {
			cells = append(cells, cell{"of off", paired(rates(all[i]), off), bounds[i]})
		}
		t.add(b, s.name, s.text(), append(cells, costs(drainCosts(all[i]), "relay")...)...)
	}
	requests, bytes := sink.requests.Load(), sink.bytes.Load()
	if requests == 0 {
		return fmt.Errorf("no spans arrived")
	}
	t.note("%d waiting events, of which one in %d has a recorded trace. Spans of those and of each batch; metrics are scraped once a second. %d requests with %d bytes of spans arrived in all.",
		r.o.events, sampledOneIn, requests, bytes)
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
func scrapeChild(ctx context.Context, c *child) (stop func() error, err error) {
	address, err := c.line()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			if err = scrapeOnce(ctx, address); err == nil {
				err = pause(ctx, scrapeEvery)
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
