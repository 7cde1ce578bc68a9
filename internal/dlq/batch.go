package dlq

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// batchLetters is about how many letters are recorded in one transaction: so many that the fixed cost of a transaction
	// counts little, and so few that one poll fills several batches.
	batchLetters = 1000
	// writers is how many transactions of a poll run at once. The database runs each on one core. More than two would
	// mostly wait: from the point where they count their investigations, transactions of one group take turns.
	writers = 2
)

// recordAll records the letters of a poll in batches, by several writers. Each writer has the letters of its subjects,
// in order. Letters of other subjects matter to a letter in two ways only: in the counters of its group, and where one
// of them closes the investigation that its message was redriven from. Whether a letter of that investigation comes
// before or after is chance, as between two collectors; after it, a new investigation opens. Meanwhile the next letters
// are decoded. It fails only when ctx ends; some of the letters may be recorded then.
func (c *Collector) recordAll(ctx context.Context, records []Record) (Recorded, error) {
	asking := c.originalsTimeout
	if len(records) <= batchLetters {
		return c.recordCounted(ctx, c.decode(ctx, records, &asking))
	}
	var work [writers]chan []Letter
	var done [writers]struct {
		Recorded
		err error
	}
	var working sync.WaitGroup
	failed, fail := context.WithCancel(context.WithoutCancel(ctx))
	defer fail()
	for i := range work {
		work[i] = make(chan []Letter, 1) // the next, so that a writer need not wait for the other one
		working.Go(func() {
			for letters := range work[i] {
				if done[i].err != nil {
					continue // the letters before these were not recorded: drop all that follow
				}
				recorded, err := c.recordCounted(ctx, letters)
				if done[i].Recorded, done[i].err = done[i].plus(recorded), err; err != nil {
					fail()
				}
			}
		})
	}
	// The loop ends with the records, or when a writer fails, and not with ctx: letters that are missing at the end must be
	// an error. All rounds have the same number of records: a small round would cost nearly as much as a large one.
	rounds := (len(records) + writers*batchLetters - 1) / (writers * batchLetters)
	for some := range slices.Chunk(records, (len(records)+rounds-1)/rounds) {
		if failed.Err() != nil {
			break
		}
		for i, letters := range shares(c.decode(ctx, some, &asking)) {
			if len(letters) == 0 {
				continue
			}
			select {
			case work[i] <- letters:
			case <-failed.Done():
			}
		}
	}
	for i := range work {
		close(work[i])
	}
	working.Wait()
	var total Recorded
	var err error
	for _, d := range done {
		if total = total.plus(d.Recorded); err == nil {
			err = d.err
		}
	}
	return total, err
}

// seed is the seed of the hash that shares subjects out to writers; each process may have another one.
var seed = maphash.MakeSeed()

// shares gives each writer the letters of its subjects, in order.
func shares(letters []Letter) (all [writers][]Letter) {
	for i := range all {
		all[i] = make([]Letter, 0, len(letters)*3/(2*writers))
	}
	for _, l := range letters {
		i := maphash.Comparable(seed, l.Subject) % writers
		all[i] = append(all[i], l)
	}
	return all
}

// decode reads letters, and completes letters that only point to a record. asking is how long that may yet take for the
// letters of this poll.
func (c *Collector) decode(ctx context.Context, records []Record, asking *time.Duration) []Letter {
	letters := make([]Letter, 0, len(records))
	for _, r := range records {
		if desk := c.whose.otherDesk(r); desk != "" {
			c.leaveTo(ctx, desk, r)
			continue
		}
		letters = append(letters, c.decodeOne(r))
	}
	c.fetch(ctx, letters, asking)
	return letters
}

// leaveTo leaves a letter to the desk that its source obeys, and says so once. Only the goroutine that polls decodes.
func (c *Collector) leaveTo(ctx context.Context, desk string, r Record) {
	c.metrics.letters.WithLabelValues(outcomeOtherDesk).Inc()
	if c.others[desk] || len(c.others) >= maxNamedDesks {
		return
	}
	c.others[desk] = true
	c.log.LogAttrs(ctx, slog.LevelWarn, "dead letters of sources that obey another desk are left to that one; give each desk a dead-letter topic of its own (dlq.topic), or name that desk in collector.earlier_desks if this one takes its place",
		slog.String("desk", desk), slog.String("this_desk", c.whose.Desk), slog.String("topic", r.Topic),
		slog.String("source", sourceOf(r.Headers)))
}

// maxNamedDesks is how many other desks are named in the log.
const maxNamedDesks = 64

func (c *Collector) recordCounted(ctx context.Context, letters []Letter) (Recorded, error) {
	spans := c.opening(letters)
	recorded, err := c.record(within(ctx, spans), letters)
	opened(spans, recorded, err)
	c.metrics.recorded(recorded)
	if err == nil {
		c.metrics.of(letters)
	}
	return recorded, err
}

// record stores the letters together. If the store refuses one of them, record stores the halves, and so on: only the
// refused letter is reduced, and the others wait for few transactions. It fails only when ctx ends.
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
