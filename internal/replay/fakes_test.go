package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// letters is a topic of dead letters, and topics to send to, in memory. It is a Cluster and a Publisher.
type letters struct {
	name    string
	id      string
	records map[int32][]dlq.Record
	first   map[int32]int64 // what retention has left
	others  []string
	offsets map[string]map[int32]CommittedOffset
	// chunk is how many records a Poll returns.
	chunk int
	// sent are the messages that were acknowledged, in order.
	sent []relay.Message
	// answer, if not nil, decides about a message; the zero outcome is delivered.
	answer func(m *relay.Message) relay.Outcome
	// saving, if not nil, decides about a commit.
	saving func() error
	// asked counts calls of Topics.
	asked int
	away  error
	// silent lets Topics wait until its context ends.
	silent bool
	// waiting, if not empty, is all that a Poll says.
	waiting string
}

const source = "orders.dlq"

func newLetters(partitions int32, others ...string) *letters {
	l := &letters{name: source, id: "one", records: map[int32][]dlq.Record{}, first: map[int32]int64{}, others: others,
		offsets: map[string]map[int32]CommittedOffset{}, chunk: 7}
	for p := range partitions {
		l.records[p] = nil
	}
	return l
}

// add writes a record at the end of a partition.
func (l *letters) add(partition int32, rs ...dlq.Record) {
	for _, r := range rs {
		r.Topic, r.Partition, r.Offset = l.name, partition, int64(len(l.records[partition]))
		l.records[partition] = append(l.records[partition], r)
	}
}

func (l *letters) Topics(ctx context.Context, names ...string) (map[string]Topic, error) {
	l.asked++
	if l.away != nil {
		return nil, l.away
	}
	if l.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	there := map[string]Topic{}
	for _, name := range names {
		if name == l.name {
			there[name] = Topic{ID: l.id, Partitions: int32(len(l.records))}
		} else if slices.Contains(l.others, name) {
			there[name] = Topic{ID: name, Partitions: 3}
		}
	}
	return there, nil
}

func (l *letters) Bounds(context.Context, string) (map[int32]Span, error) {
	bounds := map[int32]Span{}
	for p, rs := range l.records {
		bounds[p] = Span{l.first[p], int64(len(rs))}
	}
	return bounds, nil
}

func (l *letters) CommittedOffsets(_ context.Context, group, _ string) (map[int32]CommittedOffset, error) {
	return maps.Clone(l.offsets[group]), nil
}

func (l *letters) CommitOffsets(_ context.Context, group, _ string, offsets map[int32]CommittedOffset) error {
	if l.saving != nil {
		if err := l.saving(); err != nil {
			return err
		}
	}
	if l.offsets[group] == nil {
		l.offsets[group] = map[int32]CommittedOffset{}
	}
	for id, m := range offsets {
		if len(m.Note) > 4096 {
			return Final(fmt.Errorf("metadata of %d bytes", len(m.Note)))
		}
		l.offsets[group][id] = m
	}
	return nil
}

func (l *letters) Read(_ string, spans map[int32]Span) (Reader, error) {
	return &lettersReader{l, maps.Clone(spans)}, nil
}

type lettersReader struct {
	l    *letters
	left map[int32]Span
}

func (r *lettersReader) Close() {}

func (r *lettersReader) Poll(ctx context.Context) (Chunk, error) {
	if ctx.Err() != nil {
		return Chunk{}, ctx.Err()
	}
	if r.l.waiting != "" {
		return Chunk{Waiting: r.l.waiting}, loop.Sleep(ctx, time.Second)
	}
	c := Chunk{Next: map[int32]int64{}}
	for _, id := range slices.Sorted(maps.Keys(r.left)) {
		s := r.left[id]
		if first := r.l.first[id]; first > s.From {
			c.Missed += min(first, s.To) - s.From
			s.From = min(first, s.To)
			c.Next[id] = s.From
		}
		for s.From < s.To && len(c.Records) < r.l.chunk {
			c.Records = append(c.Records, r.l.records[id][s.From])
			s.From++
			c.Next[id] = s.From
		}
		if r.left[id] = s; s.From == s.To {
			delete(r.left, id)
		}
	}
	return c, nil
}

// Publish answers as the relay's publisher does: a key stops at its first message that did not go.
func (l *letters) Publish(_ context.Context, ms []relay.Message) []relay.Outcome {
	out := make([]relay.Outcome, len(ms))
	stopped := map[string]bool{}
	for i := range ms {
		m := &ms[i]
		key := m.Topic + "\x00" + string(m.Key)
		if m.Key != nil && stopped[key] {
			out[i].Class = relay.Withheld
			continue
		}
		if l.answer != nil {
			out[i] = l.answer(m)
		}
		if out[i].Class == "" {
			out[i].Class = relay.Delivered
			l.sent = append(l.sent, *m)
		} else if m.Key != nil {
			stopped[key] = true
		}
	}
	return out
}

// values are the values of the messages that were sent, in order.
func (l *letters) values() []string {
	var vs []string
	for _, m := range l.sent {
		vs = append(vs, string(m.Value))
	}
	return vs
}

// headerOf returns the last value of a header.
func headerOf(m *relay.Message, name string) string {
	value := ""
	for _, h := range m.Headers {
		if h.Name == name {
			value = string(h.Value)
		}
	}
	return value
}

// foreign is a letter as a consumer of Spring Kafka writes it, with value n.
func foreign(n int, key []byte) dlq.Record {
	h := func(name string, value ...byte) message.Header { return message.Header{Name: name, Value: value} }
	return dlq.Record{
		Timestamp: dlqtest.Start.Add(time.Duration(n) * time.Second), Key: key, Value: []byte(strconv.Itoa(n)),
		Headers: []message.Header{
			h("own", 'x'), h("own"), {Name: "null"},
			h("kafka_dlt-original-topic", []byte("payments")...),
			h("kafka_dlt-original-partition", 0, 0, 0, 1),
			h("kafka_dlt-original-offset", 0, 0, 0, 0, 0, 0, byte(n>>8), byte(n)),
			h("kafka_dlt-original-consumer-group", []byte("billing")...),
			h("kafka_dlt-exception-message", []byte("it timed out")...),
		},
	}
}

// options are checked options of a replay of source.
func optionsOf(change func(*Options)) Options {
	o := Options{From: source}
	if change != nil {
		change(&o)
	}
	return o
}

func newReplay(t interface {
	Helper()
	Fatal(...any)
}, l *letters, o Options, batch int) *Replay {
	t.Helper()
	r, err := New(Config{Cluster: l, Publisher: l, Options: o, Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// replayAll plans and runs.
func replayAll(t *testing.T, l *letters, o Options) (Plan, Result, error) {
	t.Helper()
	r := newReplay(t, l, o, 5)
	p, err := r.Plan(t.Context())
	if err != nil {
		return p, Result{}, err
	}
	res, err := r.Run(t.Context(), p)
	return p, res, err
}

var errNetwork = errors.New("the network is away")
