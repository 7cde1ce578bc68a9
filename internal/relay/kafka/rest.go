package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// rest is how long a client is left alone after the first answer of a broker. Until then the client has one request in
// flight there, and its loop that sends waits for the answer, to look once more for something to send. The batch may be
// complete, and the client taken for the next one, before the loop has looked: it would send the first records of a batch
// that is not whole. Nothing tells that it has, so it is given time, once for each broker.
const rest = 20 * time.Millisecond

// met is what the publisher has learned of a client: which brokers have answered it. It is a hook of the client.
type met struct {
	introduced, seedless bool // see introduce; only the call that has the client in use reads them

	tooLarge func(bytes int) // see cuts

	mu      sync.Mutex
	brokers map[int32]bool
	last    time.Time       // of the first answers
	cuts    map[int32]*cuts // by broker
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (m *met) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	const produce = 0
	if key != produce {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.cutsOf(meta.NodeID); c.tooLarge(e2e) {
		c.inARow = 0
		go m.tooLarge(e2e.BytesWritten) // it closes the client, which waits for this
	}
	if m.brokers[meta.NodeID] {
		return
	}
	if e2e.Err() == nil {
		if m.brokers == nil {
			m.brokers = map[int32]bool{}
		}
		m.brokers[meta.NodeID] = true
	}
	m.last = time.Now()
}

// wait returns when the client has rested, or ctx ended.
func (m *met) wait(ctx context.Context) {
	m.mu.Lock()
	left := rest - time.Since(m.last)
	m.mu.Unlock()
	_ = loop.Sleep(ctx, left)
}
