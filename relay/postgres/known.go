package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay/outbox"
)

// knownMarks are marks of all shards that this relay knows without having written them: nothing of a shard is pending
// up to its mark, as long as the shard's epoch lasts. A mark that is written leaves a dead row, over which every claim
// walks while somebody's snapshot keeps it; what is only known costs nothing. Whoever makes an older event pending ends
// the epoch, and from then on the written mark is what holds, in this relay as in all others. Nobody writes to it once
// it is shared.
//
// A mark that is written is lost in a crash of the server together with what it rests on; one that is known is not. So
// it is believed when that is on the disk (settlements of few events do not wait for it), and no crash came between,
// after which the server would have written a checkpoint; and it is forgotten when the server is another.
type knownMarks struct {
	epochs, marks []int64 // by shard; an epoch of 0 is that of no shard
	of            server
	behind        string // the place in the write-ahead log behind all that it rests on
	checkpoint    string // the place of the last checkpoint then
}

// server tells a server, and what was restored on it, from another: when it was started, and the file of the shards.
type server struct{ started, file int64 }

// nothingKnown is what a relay begins with.
var nothingKnown = &knownMarks{epochs: make([]int64, outbox.Shards), marks: make([]int64, outbox.Shards)}

// known is what claims may skip now.
func (w *water) known() *knownMarks {
	if k := w.marks.Load(); k != nil {
		return k
	}
	return nothingKnown
}

// isAt says whether this is the server about which all is that is known, and otherwise forgets that: what it had not
// written is pending there, and ids that were final are drawn again.
func (w *water) isAt(here server) bool {
	w.place.Lock()
	defer w.place.Unlock()
	if w.at == here {
		return true
	}
	first := w.at == server{}
	w.at = here
	if first {
		return true
	}
	w.final.Store(0)
	w.marks.Store(nil)
	w.moved.Store(true)
	return false
}

// where is the server about which all is that is known; none at first.
func (w *water) where() server {
	w.place.Lock()
	defer w.place.Unlock()
	return w.at
}

// while does something that is true of a server only, and says whether that is still the one.
func (w *water) while(here server, do func()) bool {
	w.place.Lock()
	defer w.place.Unlock()
	if w.at != here {
		return false
	}
	do()
	return true
}

// know looks how far all shards are settled, up to an id of which it is known that none below can still be committed.
// Where nothing happened since, or the last look is not on the disk yet, it does not. Call it with water.mu held.
func (s *Store) know(ctx context.Context, last int64) error {
	w := &s.water
	was, k := w.known(), &knownMarks{}
	if w.next != nil || slices.Min(was.marks) >= last {
		return nil
	}
	err := s.pool.QueryRow(ctx, knowWater, last, was.epochs, was.marks).Scan(&k.epochs, &k.marks, &k.of.started, &k.of.file, &k.behind, &k.checkpoint)
	if err != nil {
		return w.unless(err, "look how far the shards are settled")
	}
	if w.isAt(k.of) { // otherwise it rests on what was known of the one before
		w.next = k
	}
	return nil
}

// believe uses what was looked at last, once it is on the disk. Call it with water.mu held.
func (s *Store) believe(ctx context.Context) error {
	w := &s.water
	k := w.next
	if k == nil {
		return nil
	}
	var flushed bool
	var here server
	var checkpoint string
	if err := s.pool.QueryRow(ctx, isFlushed, k.behind).Scan(&flushed, &here.started, &here.file, &checkpoint); err != nil {
		return w.unless(err, "look how far the write-ahead log is on the disk")
	}
	w.blind = false
	switch {
	case !w.isAt(here) || here != k.of || checkpoint != k.checkpoint:
		w.next = nil
	case flushed:
		w.while(here, func() { w.marks.Store(k) })
		w.next = nil
	}
	return nil
}

// unless is an error of looking, unless that is the server's: some that are PostgreSQL by name have no write-ahead log
// for us, or give no right to ask for it. Then nothing is known, and the marks are written more often.
func (w *water) unless(err error, doing string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !strings.HasPrefix(pg.Code, "08") && !strings.HasPrefix(pg.Code, "57P") {
		w.next, w.blind = nil, true
		w.marks.Store(nil)
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
