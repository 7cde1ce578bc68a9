package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/testenv/history"
)

// logAppendTime is the type of timestamps that the broker gives.
const logAppendTime = 1

// idBytes is the length of the id that begins every payload of the workload.
const idBytes = 36

// Committed reads what the workload's committed transactions wrote.
func Committed(ctx context.Context, pool *pgxpool.Pool) ([]history.Event, error) {
	rows, err := pool.Query(ctx, `select id, subject, seq, poison, at from soak.written`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e history.Event, err error) {
		err = row.Scan(&e.ID, &e.Subject, &e.Seq, &e.Poison, &e.At)
		return e, err
	})
}

// DeadLetters returns the workload's ids of the events that the dead-letter topic holds, each once.
// The topic is the witness; the outbox is only asked which payload an event id stands for.
func DeadLetters(ctx context.Context, pool *pgxpool.Pool, brokers []string, topic string) ([]string, error) {
	records, err := ReadTopics(ctx, []kgo.Opt{kgo.SeedBrokers(brokers...)}, topic)
	if err != nil {
		return nil, err
	}
	return deadLettered(ctx, pool, records)
}

// deadLettered returns the workload's ids of the events that the records are letters of.
func deadLettered(ctx context.Context, pool *pgxpool.Pool, records []*kgo.Record) ([]string, error) {
	var eventIDs []string
	for _, r := range records {
		for _, h := range r.Headers {
			if h.Key == "postrider-event-id" {
				eventIDs = append(eventIDs, string(h.Value))
			}
		}
	}
	rows, err := pool.Query(ctx, `select convert_from(substr(payload, 1, $2), 'UTF8') from postrider.outbox_exception
		where event_id = any ($1::uuid[]) and state = 'dead_lettered'`, eventIDs, idBytes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Reads reads the topics from their beginning to their present end.
func Reads(ctx context.Context, brokers []string, topics ...string) ([]history.Read, error) {
	records, err := ReadTopics(ctx, []kgo.Opt{kgo.SeedBrokers(brokers...)}, topics...)
	if err != nil {
		return nil, err
	}
	return readsOf(records)
}

// readsOf tells the checker what records are.
func readsOf(records []*kgo.Record) ([]history.Read, error) {
	reads := make([]history.Read, 0, len(records))
	for _, r := range records {
		if len(r.Value) < idBytes {
			return nil, fmt.Errorf("%s/%d@%d: a value of %d bytes is not of the workload", r.Topic, r.Partition, r.Offset, len(r.Value))
		}
		subject := ""
		if r.Key != nil {
			subject = r.Topic + "/" + string(r.Key)
		}
		read := history.Read{ID: string(r.Value[:idBytes]), Subject: subject,
			Partition: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Offset: r.Offset}
		if r.Attrs.TimestampType() == logAppendTime {
			read.At = r.Timestamp
		}
		reads = append(reads, read)
	}
	return reads, nil
}

// ReadTopics returns all records of the topics, up to the end offsets at the time of the call. opts say
// where the brokers are.
func ReadTopics(ctx context.Context, opts []kgo.Opt, topics ...string) ([]*kgo.Record, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.ConsumeTopics(topics...), kgo.MetadataMinAge(10 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(8 << 20)}, opts...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := endsOf(ctx, kadm.NewClient(client), topics)
	if err != nil {
		return nil, err
	}
	left := map[string]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[fmt.Sprintf("%s/%d", o.Topic, o.Partition)] = o.Offset
		}
	})
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read %v: %w, with %d partitions unfinished", topics, err, len(left))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			name := fmt.Sprintf("%s/%d", r.Topic, r.Partition)
			if end, ok := left[name]; ok && r.Offset+1 >= end {
				delete(left, name)
			}
		})
	}
	return records, nil
}

// endsOf returns where the topics end. A broker that has just started has no leaders for a while and is asked again.
func endsOf(ctx context.Context, admin *kadm.Client, topics []string) (kadm.ListedOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		ends, err := admin.ListEndOffsets(ctx, topics...)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			return ends, nil
		}
		if loop.Sleep(ctx, 200*time.Millisecond) != nil {
			return nil, fmt.Errorf("list end offsets: %w", err)
		}
	}
}
