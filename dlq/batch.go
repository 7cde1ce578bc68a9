package dlq

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// batchLetters is how many letters are recorded in one transaction at most: enough for what a transaction costs to
// count little, and few enough that those of a poll are several.
const batchLetters = 1000

// recordAll records the letters of a poll, in batches and in order. While the store has one the next is decoded. It
// fails only when ctx ends; some of the letters may be recorded then.
func (c *Collector) recordAll(ctx context.Context, records []Record) (Recorded, error) {
	asking := c.originalsTimeout
	if len(records) <= batchLetters {
		return c.recordCounted(ctx, c.decode(ctx, records, &asking))
	}
	batches, stop := make(chan []Letter), make(chan struct{})
	var decoding sync.WaitGroup
	defer decoding.Wait()
	defer close(stop)
	decoding.Go(func() {
		defer close(batches)
		// It ends with the records, or with the store, and not with ctx: what is missing at the end must be an error.
		for some := range slices.Chunk(records, batchLetters) {
			select {
			case batches <- c.decode(ctx, some, &asking):
			case <-stop:
				return
			}
		}
	})
	var total Recorded
	for letters := range batches {
		recorded, err := c.recordCounted(ctx, letters)
		total = total.plus(recorded)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// decode reads letters, and completes those that only point to a record. asking is how long that may yet take for the
// letters of this poll.
func (c *Collector) decode(ctx context.Context, records []Record, asking *time.Duration) []Letter {
	letters := make([]Letter, len(records))
	for i, r := range records {
		letters[i] = Decode(r)
	}
	c.fetch(ctx, letters, asking)
	return letters
}

func (c *Collector) recordCounted(ctx context.Context, letters []Letter) (Recorded, error) {
	spans := c.opening(letters)
	recorded, err := c.record(ctx, letters)
	opened(spans, recorded, err)
	c.metrics.recorded(recorded)
	return recorded, err
}

// record stores the letters: together, or, when the store refuses one of them, its halves, and so on, so that only the
// refused one is reduced, and the others wait for few transactions. It fails only when ctx ends.
func (c *Collector) record(ctx context.Context, letters []Letter) (Recorded, error) {
	if len(letters) == 1 {
		return c.recordOne(ctx, letters[0])
	}
	total, err := c.storeUntilDone(ctx, letters)
	if !errors.Is(err, ErrLetter) {
		return total, err
	}
	half := len(letters) / 2
	for _, some := range [][]Letter{letters[:half], letters[half:]} {
		recorded, err := c.record(ctx, some)
		total = total.plus(recorded)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
