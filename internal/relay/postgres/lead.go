package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
)

// leadTimeout bounds each step of a leadership.
const leadTimeout = 5 * time.Second

// codeNotLeading is the SQLSTATE of outbox_assert_leader.
const codeNotLeading = "PR001"

var (
	logBegin        = query("log_begin")
	logHolds        = query("log_holds")
	logHoldIDs      = query("log_hold_ids")
	logReceipt      = query("log_receipt")
	logFree         = query("log_free")
	logGlance       = query("log_glance")
	logGlanceEvents = query("log_glance_events")
	logGlanceDue    = query("log_glance_due")
)

// leadership implements relay.Leadership.
type leadership struct {
	log    *Store
	worker string
	nonce  int64
	began  relay.Began

	number, position int64 // of the newest receipt; the settler's alone
	lastRead         int   // events that the last read had; the reader's alone

	// answered is when the session was last asked something that it answered, in nanoseconds of the monotonic clock since start: at
	// first the locks.
	answered atomic.Int64
	start    time.Time
	glances  chan glance // for the session that leads
	pooled   bool        // that session belongs to a pooler
	shares   bool        // it was asked for the locks
	lost     chan struct{}
	once     sync.Once
	stop     context.CancelFunc
	stopped  chan struct{}
}

// Lead implements relay.Store.
func (s *Store) Lead(ctx context.Context, worker string) (_ relay.Leadership, err error) {
	defer s.asStoreError(&err, false)
	bounded, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(bounded)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	d := &leadership{log: s, worker: worker, nonce: rand.Int64(), start: time.Now(), glances: make(chan glance), lost: make(chan struct{}),
		stopped: make(chan struct{})}
	leads, err := d.tryLocks(bounded, conn.Conn())
	if err != nil || !leads {
		d.letGo(conn)
		return nil, err
	}
	if ctx.Err() != nil { // told to stop: the term would be over at once
		d.letGo(conn)
		return nil, ctx.Err()
	}
	// A relay that is told to stop from here on would leave a term behind that it does not hand over.
	beginning, cancelBeginning := context.WithTimeout(context.WithoutCancel(ctx), leadTimeout)
	defer cancelBeginning()
	if err := d.begin(beginning); err != nil {
		d.letGo(conn)
		return nil, fmt.Errorf("begin a term: %w", err)
	}
	watching, stop := context.WithCancel(context.Background())
	d.stop = stop
	go d.watchSession(watching, conn)
	return d, nil
}

// begin reads where the log stands and writes the receipt that begins the term: from then on the term before can write
// nothing.
func (d *leadership) begin(ctx context.Context) error {
	var gaps, terms, tried string
	var drawn int64
	began := &d.began
	err := d.log.pool.QueryRow(ctx, logBegin).Scan(&began.Number, &began.Term, &began.Position, &gaps, &terms, &tried, &drawn)
	if err != nil {
		return err
	}
	if drawn >= 0 && drawn < began.Position { // -1: the login may not ask the sequence, which the next look says
		return rewound(drawn, began.Position)
	}
	if d.log.admit != nil {
		if err := d.log.admit(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNotAdmitted, err)
		}
	}
	if began.Gaps, err = parseRanges(gaps); err != nil {
		return err
	}
	if err := d.deaths(terms, tried); err != nil {
		return err
	}
	began.Number, began.Term = began.Number+1, began.Term+1
	b := &pgx.Batch{}
	// Writes that the term before has begun end first; after them nothing of that term is written.
	b.Queue("select pg_advisory_xact_lock($1, $2)", lockClass, lockTerm)
	b.Queue("select postrider.outbox_assert_leader($1)", d.nonce)
	b.Queue(logReceipt, began.Number, began.Term, began.Position, nil, "{}", "{}", rangesText(began.Gaps), nil, nil, "began", d.worker, d.nonce)
	b.Queue(logFree)
	if err := d.log.pool.Send(ctx, b); err != nil {
		return notLeading(err)
	}
	d.number, d.position = began.Number, began.Position
	// The holds are read after the receipt is written: from then on another session changes them only by asking.
	rows, err := d.log.pool.Query(ctx, logHolds)
	if err != nil {
		return err
	}
	began.Holds, err = pgx.CollectRows(rows, scanHold)
	return err
}

// ErrNotAdmitted: StoreOptions.Admit refused a term.
var ErrNotAdmitted = errors.New("the outbox must not be led")

// ErrRewound: the ids of the log stand below its position.
var ErrRewound = errors.New("the log was rewound")

func rewound(drawn, position int64) error {
	return fmt.Errorf("%w: the ids of outbox_event stand at %d, below the position %d, so new events would never be read: "+
		"after a restore or a TRUNCATE … RESTART IDENTITY run `select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), %d)`",
		ErrRewound, drawn, position, position)
}

func scanHold(row pgx.CollectableRow) (h relay.Hold, err error) {
	var age int64
	var event *uuid.UUID
	err = row.Scan(&h.ID, &h.Scope, &h.Topic, &h.Key, &h.Partition, &h.Partitions, &h.Code, &h.Cause, &h.ErrorCode, &h.Error, &event, &age,
		&h.Probes, &h.Draining)
	if event != nil {
		h.EventID = *event
	}
	h.Age = time.Duration(age) * time.Microsecond
	return h, err
}

// deaths counts the terms before this one that ended without handing over and got no further than a few batches, although
// events waited when they began, one after the other. A term whose worker began a later one is no death: the process lived
// on.
func (d *leadership) deaths(terms, tried string) error {
	var list []struct {
		Term, Position int64
		Worker         string
		Ended, Waited  bool
	}
	var alone []int64
	if err := errors.Join(json.Unmarshal([]byte(terms), &list), json.Unmarshal([]byte(tried), &alone)); err != nil {
		return fmt.Errorf("read the last terms: %w", err)
	}
	lived, reached := map[string]bool{d.worker: true}, d.began.Position
	for _, t := range list {
		if t.Ended || !t.Waited || reached-t.Position >= deathProgress {
			break
		}
		if !lived[t.Worker] {
			d.began.Deaths++
		}
		lived[t.Worker], reached = true, t.Position
	}
	for _, id := range alone {
		if d.began.Trying == 0 && (id > d.began.Position || d.began.Gaps.Contains(id)) {
			d.began.Trying = id
		}
		if id != d.began.Trying {
			break
		}
		d.began.Tried++
	}
	return nil
}

// deathProgress is how far a term must come to be no death: some batches of the default size, or one large one.
const deathProgress = 20_000

// notLeading wraps an error by which the database refuses the writes of a term that is over in relay.ErrNotLeading.
func notLeading(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == codeNotLeading || pg.Code == "23505" && pg.ConstraintName == "outbox_receipt_pkey") {
		return fmt.Errorf("%w: %w", relay.ErrNotLeading, err)
	}
	return err
}

// Began implements relay.Leadership.
func (d *leadership) Began() relay.Began { return d.began }

// Lost implements relay.Leadership.
func (d *leadership) Lost() <-chan struct{} { return d.lost }

// Sure implements relay.Leadership.
func (d *leadership) Sure() bool {
	select {
	case <-d.lost:
		return false
	default:
		return time.Since(d.start)-time.Duration(d.answered.Load()) < d.log.silence/2
	}
}

// HoldIDs implements relay.Leadership.
func (d *leadership) HoldIDs(ctx context.Context, n int) (ids []int64, err error) {
	defer d.log.asStoreError(&err, false)
	rows, err := d.log.pool.Query(ctx, logHoldIDs, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// End implements relay.Leadership.
func (d *leadership) End(ctx context.Context) {
	if ctx.Err() == nil {
		b := &pgx.Batch{}
		b.Queue("select postrider.outbox_assert_leader($1)", d.nonce)
		b.Queue(logReceipt, d.number+1, d.began.Term, d.position, nil, "{}", "{}", nil, nil, nil, "ended", nil, nil)
		_ = d.log.pool.Send(ctx, b) // a death that was none costs the next term small batches at worst
	}
	d.stop()
	<-d.stopped
}
