package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// TestChaos: eight workers publish keys of their own while everything fails at random. Then the topics
// must hold every message that was acknowledged, and each key in order.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testChaos(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func testChaos(t *testing.T, random *rand.Rand) {
	b := kafkatest.Virtual(t, kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094))
	topics := []string{b.Topic(t, 3, nil), b.Topic(t, 3, nil)}
	s := &chaos{b: b, topics: topics, random: random}
	dial := dialer(t, b)
	p := newPublisher(t, b, func(c *Config) {
		// Small batches, so that a partition has many of them in flight.
		c.Options = []kgo.Opt{kgo.ProducerBatchMaxBytes(1024), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &lossyConn{conn, &s.losing}, err
		})}
	})
	var workers, weather sync.WaitGroup
	var all []relay.Message
	for w := range 8 {
		var ms []relay.Message
		for i := range 60 {
			for k := range 5 {
				m := messageOf(topics[k%2], fmt.Sprintf("w%d-k%d", w, k), fmt.Sprintf("w%d-k%d-%05d", w, k, i))
				ms = append(ms, m)
			}
		}
		all = append(all, ms...)
		workers.Go(func() {
			for batch := range slices.Chunk(ms, 30) {
				time.Sleep(time.Second)
				if givenUp := carry(t, p, batch); len(givenUp) > 0 {
					t.Errorf("given up: %v", givenUp)
				}
			}
		})
	}
	over := make(chan struct{})
	weather.Go(func() { s.rage(over) })
	workers.Wait()
	close(over)
	weather.Wait()
	for _, topic := range topics {
		v := judge(t, b, topic, all, nil)
		if err := v.Err(); err != nil {
			t.Error(err)
		}
		t.Log(v)
	}
}

// chaos is a broker's bad day.
type chaos struct {
	b      *kafkatest.Broker
	topics []string
	random *rand.Rand
	losing atomic.Bool
}

// rage lets one thing fail after the other, for a minute or so.
func (s *chaos) rage(over chan struct{}) {
	for range 300 {
		s.strike()
		select {
		case <-over:
			return
		case <-time.After(time.Duration(s.random.IntN(400)) * time.Millisecond):
		}
	}
}

// passing are errors of batches that come and go. None of them may cost an event.
var passing = []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend,
	kerr.NotEnoughReplicas, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed,
	kerr.CorruptMessage, kerr.UnknownServerError, kerr.InvalidTimestamp, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID,
	kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.ClusterAuthorizationFailed, kerr.UnknownTopicID, kerr.InvalidRequest}

func (s *chaos) strike() {
	f := kfake.Fault{Topic: s.topics[s.random.IntN(2)], Err: passing[s.random.IntN(len(passing))], Count: 1 + s.random.IntN(5)}
	switch s.random.IntN(8) {
	case 0, 1, 2, 3:
		f.Keys, f.Partitions = []kmsg.Key{kmsg.Produce}, []int32{s.random.Int32N(3)}
		if s.random.IntN(4) == 0 {
			f.Count = -1
		}
	case 4:
		f.Keys = []kmsg.Key{kmsg.Metadata}
	case 5:
		f.Keys, f.Topic = []kmsg.Key{kmsg.InitProducerID}, ""
	case 6:
		s.b.Cluster.ShufflePartitionLeaders()
		return
	case 7:
		if s.random.IntN(2) == 0 {
			s.losing.Store(true)
			return
		}
		// The request does not arrive.
		s.b.Cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("cut"), true
		})
		return
	}
	h := s.b.Cluster.Fault(f)
	time.AfterFunc(time.Duration(s.random.IntN(15000))*time.Millisecond, h.Remove)
}

// lossyConn loses an answer, and the connection with it, when told to.
type lossyConn struct {
	net.Conn
	losing *atomic.Bool
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.losing.CompareAndSwap(true, false) {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
