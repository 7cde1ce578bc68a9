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
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
)

// The leadership is held by advisory locks of a transaction. A relay that wants to lead takes the gate, finds the
// lock of the leader free, and holds that in share mode. Before the transaction grows old another one takes the lock over,
// in share mode too, on another connection. No transaction of the two has a transaction id or a snapshot, so they keep no
// vacuum back; and the leadership works behind a pooler in transaction mode.
const (
	lockClass  = 0x506F7374 // "Post"
	lockGate   = 1
	lockLeader = 2
	lockTerm   = 3 // shared by the transactions of a term, see outbox_assert_leader
)

const (
	// renewEach is how old a transaction that leads becomes.
	renewEach = 30 * time.Second
	// leadTimeout bounds each step of a leadership.
	leadTimeout = 5 * time.Second
)

// codeNotLeading is the SQLSTATE of outbox_assert_leader.
const codeNotLeading = "PR001"

var (
	logBegin   = query("log_begin")
	logHolds   = query("log_holds")
	logHoldIDs = query("log_hold_ids")
	logReceipt = query("log_receipt")
	logFree    = query("log_free")
)

// leadership implements relay.Leadership.
type leadership struct {
	log    *Store
	worker string
	nonce  int64
	began  relay.Began

	number, position int64 // of the newest receipt; the settler's alone
	lastRead         int   // events that the last read had; the reader's alone

	answered atomic.Int64 // when the session answered last, in nanoseconds of the monotonic clock since start
	start    time.Time
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
	nonce := rand.Int64()
	leads, err := s.tryLocks(bounded, conn.Conn(), nonce)
	if err != nil || !leads {
		endLead(conn)
		return nil, err
	}
	d := &leadership{log: s, worker: worker, nonce: nonce, start: time.Now(), lost: make(chan struct{}), stopped: make(chan struct{})}
	if err := d.begin(bounded); err != nil {
		endLead(conn)
		return nil, fmt.Errorf("begin a term: %w", err)
	}
	watching, stop := context.WithCancel(context.Background())
	d.stop = stop
	go d.watchSession(watching, conn)
	return d, nil
}

// tryLocks begins a transaction that leads, if no other does. Only a session with the gate asks for the leader's
// lock: a session without the gate could have that lock for a moment, just when its owner shares it.
func (s *Store) tryLocks(ctx context.Context, conn *pgx.Conn, nonce int64) (leads bool, err error) {
	b := &pgx.Batch{}
	begins := queueBegin(b, conn)
	b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(s.silence))
	b.Queue("select pg_try_advisory_xact_lock($1, $2)", lockClass, lockGate)
	var gate, alone bool
	res := conn.SendBatch(ctx, b)
	err = begun(res, begins+1)
	if err == nil {
		err = res.QueryRow().Scan(&gate)
	}
	if err = errors.Join(err, res.Close()); err != nil || !gate {
		return false, err
	}
	b = &pgx.Batch{}
	b.Queue("savepoint alone")
	b.Queue("select pg_try_advisory_xact_lock($1, $2)", lockClass, lockLeader).QueryRow(func(row pgx.Row) error { return row.Scan(&alone) })
	b.Queue("rollback to savepoint alone")
	if err = conn.SendBatch(ctx, b).Close(); err != nil || !alone {
		return false, err
	}
	return true, share(ctx, conn, nonce)
}

// share takes the lock of the leader and that of its session, as the gate or another transaction that has them allows.
func share(ctx context.Context, conn *pgx.Conn, nonce int64) error {
	var leader, session bool
	err := conn.QueryRow(ctx, "select pg_try_advisory_xact_lock_shared($1, $2), pg_try_advisory_xact_lock_shared($3)",
		asText, lockClass, lockLeader, nonce).Scan(&leader, &session)
	if err == nil && !(leader && session) {
		err = relay.ErrNotLeading
	}
	return err
}

// asText is how a session that leads is asked: other protocols leave a portal behind, and with it a snapshot.
const asText = pgx.QueryExecModeSimpleProtocol

// endLead ends the transaction that leads, and gives its connection back.
func endLead(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

// watchSession asks the session that leads whether it lives, at least every third of the time for which it may be
// silent. Before the session's transaction grows old, it hands the locks to another one.
func (d *leadership) watchSession(ctx context.Context, conn *pgxpool.Conn) {
	defer close(d.stopped)
	d.answered.Store(int64(time.Since(d.start)))
	every := min(d.log.silence/3, d.log.renewEach, d.log.askEach)
	old := time.Now().Add(d.log.renewEach)
	for loop.Sleep(ctx, every) == nil {
		asked := time.Since(d.start)
		bounded, cancel := context.WithTimeout(ctx, d.log.silence/2)
		_, err := conn.Exec(bounded, "select 1", asText)
		if err == nil {
			d.answered.Store(int64(asked))
			if time.Now().After(old) {
				old = time.Now().Add(d.log.renewEach)
				if next := d.renew(bounded); next != nil {
					endLead(conn)
					conn = next
				}
			}
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			d.once.Do(func() { close(d.lost) })
			_ = conn.Conn().Close(context.Background())
			conn.Release()
			return
		}
	}
	endLead(conn)
}

// renew takes the locks over on another connection. Where that fails the old one goes on, and it is tried again.
func (d *leadership) renew(ctx context.Context) *pgxpool.Conn {
	conn, err := d.log.pool.Acquire(ctx)
	if err != nil {
		return nil
	}
	b := &pgx.Batch{}
	begins := queueBegin(b, conn.Conn())
	b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(d.log.silence))
	res := conn.SendBatch(ctx, b)
	err = errors.Join(begun(res, begins+1), res.Close())
	if err == nil {
		err = share(ctx, conn.Conn(), d.nonce)
	}
	if err != nil {
		endLead(conn)
		return nil
	}
	return conn
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

// deathProgress is how far a term must come to be no death: several batches.
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
