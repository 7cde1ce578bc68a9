package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
)

// The leadership is advisory locks of a session, which end with it. A relay that wants to lead takes the gate, finds the lock
// of the leader free, and holds that in share mode. The session has no transaction open, so it keeps no vacuum back.
//
// A pooler in transaction mode keeps no session: there the locks are those of an open transaction. Before it grows old another
// one takes the locks over, in share mode too, on another connection. No transaction of the two has a transaction id or a
// snapshot.
const (
	lockClass  = 0x506F7374 // "Post"
	lockGate   = 1
	lockLeader = 2
	lockTerm   = 3 // shared by the transactions of a term, see outbox_assert_leader
)

// renewEach is how old a transaction that leads becomes.
const renewEach = 30 * time.Second

// tryLocks takes the locks of a leader, if no other relay has them. Only a session with the gate asks for the leader's lock: a
// session without the gate could have that lock for a moment, just when its owner shares it.
func (d *leadership) tryLocks(ctx context.Context, conn *pgx.Conn) (leads bool, err error) {
	b := &pgx.Batch{}
	begins := queueBegin(b, conn)
	b.Queue("select set_config('idle_in_transaction_session_timeout', $1, true)", milliseconds(d.log.silence))
	b.Queue("select pg_try_advisory_xact_lock($1, $2), pg_backend_pid()", lockClass, lockGate)
	var gate, alone bool
	var pid uint32
	res := conn.SendBatch(ctx, b)
	err = begun(res, begins+1)
	if err == nil {
		err = res.QueryRow().Scan(&gate, &pid)
	}
	if err = errors.Join(err, res.Close()); err != nil || !gate {
		return false, err
	}
	// PostgreSQL tells its client the process that serves it. If another one answers, the session is not ours, whatever was set.
	d.pooled = pooler.Behind(conn) || pid != conn.PgConn().PID()
	b = &pgx.Batch{}
	b.Queue("savepoint alone")
	b.Queue("select pg_try_advisory_xact_lock($1, $2)", lockClass, lockLeader).QueryRow(func(row pgx.Row) error { return row.Scan(&alone) })
	b.Queue("rollback to savepoint alone")
	if err = conn.SendBatch(ctx, b).Close(); err != nil || !alone {
		return false, err
	}
	return true, d.share(ctx, conn)
}

// share takes the lock of the leader and that of its term, as the gate or another transaction that has them allows. Where the
// session is ours, it has them from then on, and the transaction ends.
func (d *leadership) share(ctx context.Context, conn *pgx.Conn) (err error) {
	var leader, term bool
	d.shares = true
	if d.pooled {
		err = conn.QueryRow(ctx, "select pg_try_advisory_xact_lock_shared($1, $2), pg_try_advisory_xact_lock_shared($3)",
			asText, lockClass, lockLeader, d.nonce).Scan(&leader, &term)
	} else {
		b := &pgx.Batch{}
		b.Queue("select pg_try_advisory_lock_shared($1, $2), pg_try_advisory_lock_shared($3)", lockClass, lockLeader, d.nonce).
			QueryRow(func(row pgx.Row) error { return row.Scan(&leader, &term) })
		// The session ends when its relay is silent, and no lock on a table makes it silent.
		b.Queue("select set_config('idle_session_timeout', $1, false), set_config('lock_timeout', $2, false)", milliseconds(d.log.silence),
			milliseconds(d.log.silence/4))
		b.Queue("commit")
		err = conn.SendBatch(ctx, b).Close()
	}
	if err == nil && !(leader && term) {
		err = relay.ErrNotLeading
	}
	return err
}

// asText is how a transaction that leads is asked: other protocols leave a portal behind, and with it a snapshot.
const asText = pgx.QueryExecModeSimpleProtocol

// letGo gives up the locks that a connection has, and gives the connection back.
func (d *leadership) letGo(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var err error
	if conn.Conn().PgConn().TxStatus() != 'I' {
		_, err = conn.Exec(ctx, "rollback", asText)
	}
	if err == nil && d.shares && !d.pooled {
		_, err = conn.Exec(ctx, "select pg_advisory_unlock_all(); reset idle_session_timeout; reset lock_timeout", asText)
	}
	if err != nil {
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

// glance is a question to the session that leads.
type glance struct {
	position int64
	all      bool
	answer   chan<- glanced // has room for it
}

type glanced struct {
	relay.Glance
	err error
}

// watchSession is alone with the connection that leads. It asks the session whether it lives, at least every third of the time
// for which it may be silent, and passes on what the relay asks. Before a transaction grows old, it hands the locks to another
// one.
func (d *leadership) watchSession(ctx context.Context, conn *pgxpool.Conn) {
	defer close(d.stopped)
	every := min(d.log.silence/3, d.log.renewEach, d.log.askEach)
	old := time.Now().Add(d.log.renewEach)
	due := time.NewTimer(every)
	defer due.Stop()
	for {
		var q glance
		select {
		case <-ctx.Done():
			d.letGo(conn)
			return
		case q = <-d.glances:
		case <-due.C:
		}
		due.Reset(every)
		asked := time.Since(d.start)
		bounded, cancel := context.WithTimeout(ctx, d.log.silence/2)
		err := d.ask(bounded, conn.Conn(), q)
		if err == nil {
			d.answered.Store(int64(asked))
			if d.pooled && time.Now().After(old) {
				old = time.Now().Add(d.log.renewEach)
				if next := d.renew(bounded); next != nil {
					d.letGo(conn)
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
}

// ask asks the session that leads something. An error says that the session did not answer; what it refuses is an answer.
func (d *leadership) ask(ctx context.Context, conn *pgx.Conn, q glance) error {
	if q.answer == nil {
		_, err := conn.Exec(ctx, "select 1", asText)
		return err
	}
	g, err := d.glanceBy(ctx, conn, q.position, q.all)
	q.answer <- glanced{g, err}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !conn.IsClosed() {
		return nil
	}
	return err
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
		err = d.share(ctx, conn.Conn())
	}
	if err != nil {
		d.letGo(conn)
		return nil
	}
	return conn
}

// Glance implements relay.Leadership. The session that leads is asked, so that a quiet outbox has no other one; behind a pooler
// its transaction is left alone, because it would keep locks on the tables.
func (d *leadership) Glance(ctx context.Context, position int64, all bool) (g relay.Glance, err error) {
	defer d.log.asStoreError(&err, false)
	if d.pooled {
		return d.glanceBy(ctx, d.log.pool, position, all)
	}
	answer := make(chan glanced, 1)
	select {
	case d.glances <- glance{position, all, answer}:
	case <-d.stopped:
		return g, relay.ErrNotLeading
	case <-ctx.Done():
		return g, ctx.Err()
	}
	select {
	case a := <-answer:
		return a.Glance, a.err
	case <-ctx.Done():
		return g, ctx.Err()
	}
}

// glanceBy asks with one statement, and with one more where something may be due.
func (d *leadership) glanceBy(ctx context.Context, db querier, position int64, all bool) (g relay.Glance, err error) {
	if !all {
		if err = db.QueryRow(ctx, logGlanceEvents, position).Scan(&g.Events); err != nil {
			err = fmt.Errorf("glance at the log: %w", err)
		}
		return g, err
	}
	err = db.QueryRow(ctx, logGlance, position).Scan(&g.Events, &g.Tend, &g.Letters, &g.Waits)
	if err == nil && g.Waits && !g.Tend {
		err = db.QueryRow(ctx, logGlanceDue, micros(relay.LongestPause(d.log.longestRetry)+time.Minute), micros(d.log.longestRetry+time.Minute)).Scan(&g.Tend)
	}
	if err != nil {
		err = fmt.Errorf("glance at the outbox: %w", err)
	}
	return g, err
}
