package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/dlq/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// mortal is a source that dies instead of committing, after some commits that go well.
type mortal struct {
	*Source
	commits int
	die     context.CancelFunc
}

func (m *mortal) Commit(ctx context.Context, records []dlq.Record) error {
	if m.commits--; m.commits < 0 {
		m.die()
		m.Source.Close()
		return errors.New("killed between store and commit")
	}
	return m.Source.Commit(ctx, records)
}

// letterRecords are records of n events, some with a second episode, of foreign records, and of copies,
// spread over partitions; distinct is how many letters they are, subjects how many investigations.
func letterRecords(topic string, partitions int32, n int) (records []dlq.Record, distinct, subjects int) {
	place := func(r dlq.Record) {
		r.Topic, r.Partition = topic, int32(len(records))%partitions
		records = append(records, r)
	}
	for i := range n {
		first := dlqtest.Event(i, 1)
		place(first)
		distinct, subjects = distinct+1, subjects+1
		switch i % 10 {
		case 3: // a copy elsewhere, as after a crash of the relay
			place(first)
		case 5:
			place(dlqtest.Event(i, 2))
			distinct++
		case 7: // a copy of an older one
			place(dlqtest.Event(i/2, 1))
		case 9:
			place(dlq.Record{Value: []byte("foreign"), Timestamp: first.Timestamp})
			distinct, subjects = distinct+1, subjects+1
		}
	}
	return records, distinct, subjects
}

func TestCollectsEachLetterOnce(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 3, nil)
		records, distinct, subjects := letterRecords(topic, 3, 300)
		produce(t, b, records...)
		pool := pgtest.New(t).Pool(t)
		store, err := postgres.NewStore(postgres.Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		life := func(commits int) {
			ctx, die := context.WithTimeout(t.Context(), patience)
			defer die()
			source := &mortal{newSource(t, b, func(c *Config) { c.MaxRecords = 40 }, topic), commits, die}
			collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: store})
			if err != nil {
				t.Fatal(err)
			}
			if err := collector.Run(ctx); err != nil {
				t.Error(err)
			}
		}
		life(0)
		life(2)
		life(1)
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			source := newSource(t, b, nil, topic)
			collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: store})
			if err != nil {
				t.Error(err)
				return
			}
			if err := collector.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		untilCommitted(t, b, topic, len(records))
		stop()
		<-done

		var letters, entries, occurrences int
		err = pool.QueryRow(t.Context(), `select (select count(*) from postrider.dlq_letter where dlq_entry_uuid is not null),
			count(*), sum(occurrences) from postrider.dlq_entry where resolution_status = 'pending'`).Scan(&letters, &entries, &occurrences)
		if err != nil || letters != distinct || entries != subjects || occurrences != distinct {
			t.Errorf("%d letters, %d investigations, %d occurrences, %v; want %d, %d, %d", letters, entries, occurrences, err, distinct, subjects, distinct)
		}
	})
}

// untilCommitted returns when the group has read and committed everything.
func untilCommitted(t *testing.T, b *kafkatest.Broker, topic string, records int) {
	t.Helper()
	ctx, admin, tick := within(t, patience), b.Admin(t), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		committed, err := admin.FetchOffsets(ctx, topic)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for _, o := range committed[topic] {
			sum += o.At
		}
		if sum == int64(records) {
			return
		}
	}
}

// TestCollectorsShareTheWork runs collectors that come and go in one group.
func TestCollectorsShareTheWork(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		topic := b.Topic(t, 4, nil)
		store := dlqtest.NewRecorder()
		var wg sync.WaitGroup
		var atWork atomic.Int32
		start := func() (stop context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			source := newSource(t, b, func(c *Config) { c.MaxRecords = 20 }, topic)
			collector, err := dlq.NewCollector(dlq.Config{Source: source, Letters: store})
			if err != nil {
				t.Fatal(err)
			}
			atWork.Add(1)
			wg.Go(func() {
				defer atWork.Add(-1)
				if err := collector.Run(ctx); err != nil {
					t.Error(err)
				}
			})
			return stop
		}
		records, distinct, subjects := letterRecords(topic, 4, 400)
		stopFirst := start()
		produce(t, b, records[:100]...)
		stopSecond := start()
		produce(t, b, records[100:200]...)
		stopFirst()
		produce(t, b, records[200:300]...)
		stopThird := start()
		produce(t, b, records[300:]...)
		untilCommitted(t, b, topic, len(records))
		if n := atWork.Load(); n != 2 {
			t.Errorf("%d collectors at work", n)
		}
		stopSecond()
		stopThird()
		wg.Wait()
		if total, occurrences := len(store.Subjects()), len(store.Letters()); total != subjects || occurrences != distinct {
			t.Errorf("%d investigations, %d occurrences; want %d, %d; %s", total, occurrences, subjects, distinct, unrecorded(t, b, topic, store.Letters()))
		}
	})
}

// unrecorded names the places of a topic whose records are among no letters, and where each partition ends. A copy of a letter
// is named, too: it has the place of the first.
func unrecorded(t *testing.T, b *kafkatest.Broker, topic string, letters []dlq.Letter) string {
	t.Helper()
	ends, err := b.Admin(t).ListEndOffsets(t.Context(), topic)
	if err != nil {
		return err.Error()
	}
	recorded := map[partition][]int64{}
	for _, l := range letters {
		at := partition{topic, l.DLQPartition}
		recorded[at] = append(recorded[at], l.DLQOffset)
	}
	var said strings.Builder
	ends.Each(func(end kadm.ListedOffset) {
		fmt.Fprintf(&said, "partition %d ends at %d, and has no letter at", end.Partition, end.Offset)
		for offset := range end.Offset {
			if !slices.Contains(recorded[partition{topic, end.Partition}], offset) {
				fmt.Fprintf(&said, " %d", offset)
			}
		}
		said.WriteString("; ")
	})
	return said.String()
}

// gated is a store that holds what it is given first until it is let go.
type gated struct {
	*dlqtest.Recorder
	once        sync.Once
	given, open chan struct{}
}

func (g *gated) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	g.once.Do(func() { close(g.given); <-g.open })
	return g.Recorder.RecordLetters(ctx, letters)
}

// longest is a source that knows its longest poll.
type longest struct {
	*Source
	records *atomic.Int64
}

func (l longest) Poll(ctx context.Context) ([]dlq.Record, error) {
	records, err := l.Source.Poll(ctx)
	if n := int64(len(records)); n > l.records.Load() {
		l.records.Store(n)
	}
	return records, err
}

// TestRebalanceWithinALongPoll has a second member join while the first has the first batch of a poll at the store and
// the next one decoded: the poll is committed whole before its partitions move.
func TestRebalanceWithinALongPoll(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const letters = 3000
		topic := b.Topic(t, 2, nil)
		records := make([]dlq.Record, letters)
		for i := range records {
			records[i] = dlqtest.Event(i, 1)
			records[i].Topic, records[i].Partition = topic, int32(i%2)
		}
		produce(t, b, records...)
		store := &gated{Recorder: dlqtest.NewRecorder(), given: make(chan struct{}), open: make(chan struct{})}
		var most atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var members sync.WaitGroup
		start := func() {
			collector, err := dlq.NewCollector(dlq.Config{Source: longest{newSource(t, b, nil, topic), &most}, Letters: store})
			if err != nil {
				t.Fatal(err)
			}
			members.Go(func() {
				if err := collector.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		start()
		<-store.given
		start()
		untilState(t, b, topic, "PreparingRebalance")
		close(store.open)
		untilCommitted(t, b, topic, letters)
		stop()
		members.Wait()
		if most.Load() <= 1000 {
			t.Errorf("the longest poll had %d records, of one batch", most.Load())
		}
		if total, occurrences := len(store.Subjects()), len(store.Letters()); total != letters || occurrences != letters {
			t.Errorf("%d investigations, %d occurrences, want %d", total, occurrences, letters)
		}
	})
}

// untilState returns when the group is in a state.
func untilState(t *testing.T, b *kafkatest.Broker, group, state string) {
	t.Helper()
	ctx, admin, tick := within(t, patience), b.Admin(t), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		groups, err := admin.DescribeGroups(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		if groups[group].State == state {
			return
		}
	}
}
