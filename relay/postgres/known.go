package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay/outbox"
)

// knownMarks are marks of all shards that this relay knows without having written them: nothing of a shard is pending
// up to its mark, as long as the shard's epoch lasts. A mark that is written leaves a dead row, over which every claim
// walks while somebody's snapshot keeps it; what is only known costs nothing. Whoever makes an older event pending ends
// the epoch, and from then on the written mark is what holds, in this relay as in all others. Nobody writes to it once
// it is shared.
//
// A mark that is written is lost in a crash of the server together with what it rests on; one that is known is not.
// So it must rest on what is on the disk (settlements of few events do not wait for that), and is forgotten when the
// server is another: after a restart, or a failover that lost the last transactions.
type knownMarks struct {
	epochs, marks []int64   // by shard; an epoch of 0 is that of no shard
	started       time.Time // when the server did
	behind        string    // the place in the write-ahead log behind all that it rests on
}

// nothingKnown is what a relay begins with.
var nothingKnown = &knownMarks{epochs: make([]int64, outbox.Shards), marks: make([]int64, outbox.Shards)}

// known is what claims may skip now.
func (w *water) known() *knownMarks {
	if k := w.marks.Load(); k != nil {
		return k
	}
	return nothingKnown
}

// holds says whether what is known is of this server.
func (k *knownMarks) holds(started time.Time) bool {
	return k == nothingKnown || k.started.Equal(started)
}

// know looks how far all shards are settled, up to an id of which it is known that none below can still be committed.
// Call it with water.mu held.
func (s *Store) know(ctx context.Context, last int64) error {
	was, k := s.water.known(), &knownMarks{}
	if err := s.pool.QueryRow(ctx, knowWater, last, was.epochs, was.marks).Scan(&k.epochs, &k.marks, &k.started, &k.behind); err != nil {
		return s.unless(err, "look how far the shards are settled")
	}
	s.water.next, s.water.blind = k, false
	return nil
}

// unless is an error of looking, unless the server has no write-ahead log for us, as some that are PostgreSQL by name
// only. Then nothing is known, and the marks are written more often.
func (s *Store) unless(err error, doing string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && slices.Contains([]string{"0A000", "42501", "42883", "55000"}, pg.Code) {
		s.water.next, s.water.blind = nil, true
		s.water.marks.Store(nil)
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// believe uses what was looked at last, once it is on the disk. Call it with water.mu held.
func (s *Store) believe(ctx context.Context) error {
	k := s.water.next
	if k == nil {
		return nil
	}
	var flushed bool
	if err := s.pool.QueryRow(ctx, isFlushed, k.behind).Scan(&flushed); err != nil {
		return s.unless(err, "look how far the write-ahead log is on the disk")
	}
	if flushed {
		s.water.marks.Store(k)
		s.water.next = nil
	}
	return nil
}
