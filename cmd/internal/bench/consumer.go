package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// consumerPayload is the size of the records that are consumed.
	consumerPayload = 500
	// consumerSlow is how long the slow handler takes, consumerAtOnce how many of it run at once in order of keys.
	consumerSlow, consumerAtOnce = 10 * time.Millisecond, 256
	// slowInKeys is how many times more records the slow handler gets in order of keys, to run for about as long.
	slowInKeys = 20
)

// consumed is what a member has to do.
type consumed struct {
	Broker, Topic, Group string
	Bare                 bool // a poll loop of the client, and no consumer
	Records              int
	Handler              time.Duration
	Concurrency          int
}

// consume measures the library beside a poll loop on the client that it is made of, and what handling keys at once is
// worth when the handler takes its time.
func consume(ctx context.Context, r *rig, b *broker, t *table) error {
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return err
	}
	defer b.deleteTopic(topic)
	if err := r.fillTopic(ctx, b, topic); err != nil {
		return err
	}
	sides := []consumed{
		{Bare: true, Records: r.o.consumerRecords},
		{Records: r.o.consumerRecords},
		{Records: r.o.consumerSlowRecords, Handler: consumerSlow},
		{Records: r.o.consumerSlowRecords * slowInKeys, Handler: consumerSlow, Concurrency: consumerAtOnce},
	}
	rates, err := inTurns(r.o.runs, sides, func(s consumed) (float64, error) {
		s.Broker, s.Topic, s.Group = b.address, topic, fmt.Sprint("bench-", time.Now().UnixNano())
		rate, err := consumeOnce(ctx, s)
		if err == nil {
			r.say("consumer: %+v: %.0f records/s", s, rate)
		}
		return rate, err
	})
	if err != nil {
		return err
	}
	t.add(b, "poll loop", "the client alone", cell{Name: "records/s", Runs: rates[0]})
	t.add(b, "no-op handler", "in order of offset", cell{Name: "records/s", Runs: rates[1]}, cell{Name: "of poll loop", Runs: paired(rates[1], rates[0])})
	t.add(b, fmt.Sprintf("handler of %v", consumerSlow), "in order of offset", cell{Name: "records/s", Runs: rates[2]})
	t.add(b, fmt.Sprintf("handler of %v", consumerSlow), fmt.Sprintf("in order of keys, %d at once", consumerAtOnce),
		cell{Name: "records/s", Runs: rates[3]}, cell{Name: "times in order of offset", Runs: paired(rates[3], rates[2])})
	t.note("%d records of %d bytes, from the first that is handled until the last is committed; both sides commit once a second. The slow handler has %d records in order of offset and %d in order of keys.",
		r.o.consumerRecords, consumerPayload, sides[2].Records, sides[3].Records)
	return nil
}

// fillTopic writes the records to consume.
func (r *rig) fillTopic(ctx context.Context, b *broker, topic string) error {
	const at = 5000
	for from := 0; from < r.o.consumerRecords; from += at {
		records := make([]*kgo.Record, min(at, r.o.consumerRecords-from))
		for i := range records {
			records[i] = &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", (from+i)%r.o.keys), Value: body(from+i, consumerPayload)}
		}
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("fill topic %s: %w", topic, err)
		}
	}
	return nil
}

// consumeOnce runs a member in a process of its own and returns its rate, in records a second.
func consumeOnce(ctx context.Context, s consumed) (rate float64, err error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	c, err := startSelf("child-consume", "BENCH_CONSUME="+string(raw))
	if err != nil {
		return 0, err
	}
	defer func() {
		if serr := c.stop(); err == nil {
			err = serr
		}
	}()
	if err := c.ready(); err != nil {
		return 0, err
	}
	if err := c.start(); err != nil {
		return 0, err
	}
	ctx, cancel := alive(ctx, c)
	defer cancel()
	type said struct {
		text string
		err  error
	}
	lines := make(chan said, 1)
	go func() {
		text, err := c.line()
		lines <- said{text, err}
	}()
	select {
	case l := <-lines:
		seconds, perr := strconv.ParseFloat(strings.TrimPrefix(l.text, "done "), 64)
		if l.err != nil || perr != nil {
			return 0, fmt.Errorf("the member said %q: %w, %w", l.text, l.err, perr)
		}
		return float64(s.Records) / seconds, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
