package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay"
)

const (
	// defaultLongestRetry is more than the delay that any sensible policy sets.
	defaultLongestRetry = 48 * time.Hour
	// pullEvery is how often holds are looked through whose probe is too far ahead.
	pullEvery = time.Minute
	// clockSlack is how much further ahead than possible something must be to be taken for a victim of the
	// clock. It leaves room for another relay with longer pauses, and delays nothing for long.
	clockSlack = time.Minute
	// clockStep is how far the clock must have been put back to be noticed.
	clockStep = 10 * time.Second
	// pullLettersAtOnce is how many letters of a topic are pulled in at once.
	pullLettersAtOnce = 1000
)

// clock notices that the database's clock was put back, which all waiting is measured by: everything that
// was to wait for a minute would wait for that much longer.
type clock struct {
	mu     sync.Mutex
	said   time.Time // by the database
	heard  time.Time // by this process's own clock, which only goes forward
	pulled time.Time // when holds were looked through
	back   bool      // put back since scheduled events were looked through
	looked bool      // they were, once at least: nobody knows what happened before
	far    []int16   // shards with scheduled events that are too far ahead
	// letters says that there may be more that are offered too far ahead.
	letters bool
}

// ask queues the question what time it is.
func (c *clock) ask(b *pgx.Batch) {
	b.Queue("select clock_timestamp()").QueryRow(func(row pgx.Row) error {
		var said time.Time
		if err := row.Scan(&said); err != nil {
			return err
		}
		c.hear(said, time.Now())
		return nil
	})
}

func (c *clock) hear(said, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard.IsZero() && heard.Sub(c.heard)-said.Sub(c.said) > clockStep {
		c.back, c.pulled = true, time.Time{}
	}
	c.said, c.heard = said, heard
}

// now is the database's time when it was asked last.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// pullIn makes due what would wait for longer than anything can: holds now and then, and at once after the
// clock was put back; events that wait for a retry, and letters that were refused, after that and at the
// beginning, because they have to be looked for among all others.
func (s *Store) pullIn(ctx context.Context, grace time.Duration) error {
	c := &s.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.pulled) >= pullEvery {
		var causes []string
		var longest []int64
		for cause, pause := range relay.LongestPauses(s.longestRetry) {
			causes = append(causes, string(cause))
			longest = append(longest, micros(max(pause, grace)+clockSlack))
		}
		var n int
		if err := s.pool.QueryRow(ctx, pullProbes, causes, longest).Scan(&n); err != nil {
			return fmt.Errorf("look for holds that the clock was put back under: %w", err)
		}
		c.pulled = time.Now()
	}
	ahead := micros(s.longestRetry + clockSlack)
	if c.back || !c.looked || c.letters {
		letters := relay.LongestLetterPause + clockSlack
		var pulled int
		far := c.far
		err := s.inOneRoundTrip(ctx, func(b *pgx.Batch) {
			if c.back || !c.looked {
				b.Queue(findFarScheduled, ahead).Query(func(rows pgx.Rows) (err error) {
					far, err = pgx.CollectRows(rows, pgx.RowTo[int16])
					return err
				})
			}
			b.Queue(pullLetters, micros(letters), pullLettersAtOnce).QueryRow(func(row pgx.Row) error { return row.Scan(&pulled) })
		})
		if err != nil {
			return fmt.Errorf("look for retries and letters that the clock was put back under: %w", err)
		}
		c.far, c.back, c.looked, c.letters = far, false, true, pulled > 0
	}
	if len(c.far) == 0 {
		return nil
	}
	var locked []int16
	err := s.inOneRoundTrip(ctx, func(b *pgx.Batch) {
		b.Queue(lockFreeShards, c.far).QueryRow(func(row pgx.Row) error { return row.Scan(nil, &locked) })
		b.Queue(pullScheduled, ahead)
	})
	if err != nil {
		return fmt.Errorf("make retries due that the clock was put back under: %w", err)
	}
	c.far = slices.DeleteFunc(c.far, func(shard int16) bool { return slices.Contains(locked, shard) }) // the busy ones next time
	return nil
}
