package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	"github.com/postrider/postrider/internal/replay"
)

const (
	// quietWait is how long a Poll waits for records before it looks whether there can be any.
	quietWait = time.Second
	// quietLimit is how long nothing may come although brokers say that there is something.
	quietLimit = time.Minute
	// fetchMaxBytes bounds the bytes that a broker sends at once, and so the memory.
	fetchMaxBytes = 16 << 20
)

// reader implements replay.Reader.
type reader struct {
	cluster *Cluster
	client  *kgo.Client
	topic   string
	max     int
	left    map[int32]replay.Span // from the next offset to the end
	quiet   time.Time             // since when nothing came
}

// Read implements replay.Cluster.
func (c *Cluster) Read(topic string, spans map[int32]replay.Span) (replay.Reader, error) {
	r := &reader{cluster: c, topic: topic, max: c.cfg.MaxRecords, left: map[int32]replay.Span{}, quiet: time.Now()}
	begin := map[int32]kgo.Offset{}
	for id, s := range spans {
		r.left[id] = s
		begin[id] = kgo.NewOffset().At(s.From)
	}
	client, err := kgo.NewClient(append(c.cfg.options(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin}),
		// If retention deleted records first, go on with the records that are left; never skip to the end.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A letter of an aborted transaction was never sent.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),       // a range may end in one
		kgo.KeepRetryableFetchErrors(), // the client goes on by itself; they say why it waits
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxWait(quietWait/2),
	)...)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r.client = client
	return r, nil
}

// Close implements replay.Reader.
func (r *reader) Close() { r.client.Close() }

// Poll implements replay.Reader.
func (r *reader) Poll(ctx context.Context) (replay.Chunk, error) {
	for {
		c, err := r.poll(ctx)
		if err != nil || len(c.Next) > 0 || c.Waiting != "" {
			r.quiet = time.Now()
			return c, err
		}
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		if c, err = r.look(ctx); err != nil || len(c.Next) > 0 || c.Waiting != "" {
			return c, err
		}
	}
}

func (r *reader) poll(ctx context.Context) (replay.Chunk, error) {
	waiting, cancel := context.WithTimeout(ctx, quietWait)
	defer cancel()
	fetches := r.client.PollRecords(waiting, r.max)
	c := replay.Chunk{Next: map[int32]int64{}}
	var fault error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if why := r.trouble(p); replay.IsFinal(why) {
			fault = why
		} else if why != nil {
			c.Waiting = why.Error()
		}
		for _, record := range p.Records {
			if err := r.take(&c, record, p.LogStartOffset); err != nil {
				fault = err
				return
			}
		}
	})
	if len(c.Next) > 0 {
		c.Waiting = "" // something goes on
	} else if c.Waiting != "" && fault == nil {
		<-waiting.Done() // no faster than this: the same error comes with each answer
	}
	return c, fault
}

// trouble is the error of a partition. Waiting mends what a broker says may pass, and broken connections.
func (r *reader) trouble(p kgo.FetchTopicPartition) error {
	_, wanted := r.left[p.Partition]
	switch err := p.Err; {
	case err == nil, p.Topic == r.topic && !wanted, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
		return replay.Final(fmt.Errorf("topic %s was deleted, or made anew: %w", r.topic, err))
	case errors.Is(err, kgo.ErrClientClosed), errors.As(err, new(*kgo.ErrDataLoss)):
		return replay.Final(fmt.Errorf("topic %s, partition %d: %w", r.topic, p.Partition, err))
	default:
		return fault(fmt.Sprintf("topic %s, partition %d", r.topic, p.Partition), err)
	}
}

// take puts a record into the chunk.
func (r *reader) take(c *replay.Chunk, record *kgo.Record, start int64) error {
	s, reading := r.left[record.Partition]
	switch {
	case !reading:
		return nil
	case record.Offset < s.From:
		return r.restarted(record.Partition, s.From, record.Offset)
	case min(start, record.Offset) > s.From: // the others in between were compacted, or are markers
		c.Missed += min(start, s.To) - s.From
	}
	if record.Offset < s.To && !record.Attrs.IsControl() {
		c.Records = append(c.Records, dlqkafka.Record(record))
	}
	r.pass(c, record.Partition, min(record.Offset+1, s.To))
	return nil
}

func (r *reader) restarted(partition int32, want, found int64) error {
	return fmt.Errorf("topic %s, partition %d goes on at offset %d, but offset %d is wanted: it was cut short or made anew; give another name (--run)",
		r.topic, partition, found, want)
}

// pass moves on in a partition.
func (r *reader) pass(c *replay.Chunk, partition int32, next int64) {
	s := r.left[partition]
	s.From = next
	c.Next[partition] = next
	if s.From < s.To {
		r.left[partition] = s
		return
	}
	delete(r.left, partition)
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {partition}})
}

// look finds out why nothing comes: retention may have deleted the wanted records. If no broker answers, that is why.
func (r *reader) look(ctx context.Context) (replay.Chunk, error) {
	c := replay.Chunk{Next: map[int32]int64{}}
	bounds, err := r.cluster.Bounds(ctx, r.topic)
	if err != nil {
		r.quiet = time.Now()
		switch {
		case ctx.Err() != nil:
			return c, ctx.Err()
		case replay.IsFinal(err):
			return c, err
		}
		c.Waiting = err.Error()
		return c, nil
	}
	for id, s := range r.left {
		b, there := bounds[id]
		switch {
		case !there:
			return c, fmt.Errorf("topic %s, partition %d is gone", r.topic, id)
		case b.To < s.From:
			return c, r.restarted(id, s.From, b.To)
		case b.From >= s.To:
			c.Missed += s.To - s.From
			r.pass(&c, id, s.To)
		case time.Since(r.quiet) > quietLimit:
			return c, fmt.Errorf("topic %s, partition %d: nothing came from offset %d on for %v, though it has offsets up to %d; the same replay goes on when it is started again",
				r.topic, id, s.From, quietLimit, b.To-1)
		}
	}
	return c, nil
}
