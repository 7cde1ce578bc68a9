// Package baseline has the programs that Postrider is measured beside: what a reader and a producer cost alone, what a
// team writes in a day, and the same with logical decoding. None retries, holds back or dead-letters anything; each ends
// with the first error.
//
// They read the table outbox: id, topic, key and payload.
package baseline

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Work is what a program has to do.
type Work struct {
	// Database and Broker are where it reads and writes.
	Database, Broker string
	// Slot and Publication are what Logical reads.
	Slot, Publication string
}

// idle is how long a program that found nothing waits.
const idle = 10 * time.Millisecond

// producer is franz-go with acks=all, idempotent, without linger, and room for much that is under way. It compresses
// nothing, as the relay does not by default.
type producer struct {
	*kgo.Client
	once   sync.Once
	failed chan error // the first error
}

func newProducer(w Work) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.Broker), kgo.DisableClientMetrics(), kgo.MaxBufferedRecords(200_000),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	return &producer{Client: client, failed: make(chan error, 1)}, err
}

// done is the promise of a record.
func (p *producer) done(_ *kgo.Record, err error) {
	if err != nil {
		p.once.Do(func() { p.failed <- fmt.Errorf("produce: %w", err) })
	}
}

// err returns the first error of a record, if there was one.
func (p *producer) err() error {
	select {
	case err := <-p.failed:
		return err
	default:
		return nil
	}
}
