package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/pooler"
)

// Notifications that come closer than this many in this time are more than a relay can use: writers are told to
// stop, and the relay, which is busy, finds the events by itself.
const (
	manyNotifications = 8
	notificationsIn   = 100 * time.Millisecond
)

// closeTimeout bounds saying goodbye.
const closeTimeout = time.Second

// errUnheard: the connection listens, and nothing arrives.
var errUnheard = errors.New("a notification sent by another connection did not arrive")

// Listen implements relay.Notifier. A connection that was lost is made again.
func (n *Notifier) Listen(ctx context.Context) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	loop.Repeat(ctx, func(ctx context.Context) time.Duration {
		err := n.listen(ctx, pause.Reset)
		n.setAlive(false)
		wait := pause.NextBackOff()
		switch {
		case ctx.Err() != nil: // told to stop
		case errors.Is(err, errUnheard):
			n.say(slog.LevelWarn, "writers cannot wake this relay, so it polls: notifications do not arrive through this address, as behind a pooler in transaction mode; "+
				"give a database URL that leads to PostgreSQL itself or to a pooler in session mode, or switch the notifier off (outbox.notifier)", "err", err)
			wait = n.o.lookAgain
		default:
			n.say(slog.LevelWarn, "writers cannot wake this relay, so it polls until the connection that listens is there again", "err", err)
		}
		return wait
	})
}

// listen works on one connection until that fails. works is called when it is proven.
func (n *Notifier) listen(ctx context.Context, works func()) error {
	conn, err := n.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := n.prove(ctx, conn); err != nil {
		return err
	}
	works()
	n.setAlive(true)
	defer n.leave(ctx, conn)
	n.say(slog.LevelInfo, "writers can wake this relay")
	var first time.Time // of the notifications counted
	notifications := 0
	for {
		payload, err := n.hear(ctx, conn)
		switch {
		case err != nil:
			return err
		case payload == disarmed:
			n.over(0)
			continue
		case payload != "":
			continue // a relay proves its connection
		}
		n.notify()
		if now := time.Now(); now.Sub(first) > notificationsIn {
			first, notifications = now, 0
		}
		if notifications++; notifications == manyNotifications {
			if err := n.disarm(ctx, conn); err != nil {
				return err
			}
			first, notifications = time.Time{}, 0
		}
	}
}

// connect makes the connection as the pool does, and listens.
func (n *Notifier) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := n.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] += " notifier"
	if err := pooler.Refresh(cfg, n.o.Password); err != nil {
		return nil, err
	}
	conn, err := pooler.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, n.o.patience)
	defer cancel()
	if _, err := conn.Exec(bounded, "listen "+channel); err != nil {
		_ = conn.Close(bounded)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// prove sends a notification by another connection and waits for it. Listening succeeds behind a pooler in
// transaction mode too, for a session that serves another client the next moment.
func (n *Notifier) prove(ctx context.Context, conn *pgx.Conn) error {
	bounded, cancel := context.WithTimeout(ctx, n.o.patience)
	defer cancel()
	token := uuid.NewString()
	if _, err := n.pool.Exec(bounded, notifySelf, token); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		heard, err := conn.WaitForNotification(bounded)
		switch {
		case err == nil && heard.Payload == token:
			return nil
		case err == nil:
			continue
		case ctx.Err() == nil && bounded.Err() != nil && !conn.IsClosed():
			n.unlisten(conn)
			return errUnheard
		default:
			return err
		}
	}
}

// unlisten lets a session that a pooler keeps forget the channel, as far as it can be reached.
func (n *Notifier) unlisten(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "unlisten "+channel)
}

// hear returns the payload of the next notification. When there is none for long, it makes sure that the
// connection is still one.
func (n *Notifier) hear(ctx context.Context, conn *pgx.Conn) (string, error) {
	for {
		bounded, cancel := context.WithTimeout(ctx, n.o.checkup)
		heard, err := conn.WaitForNotification(bounded)
		cancel()
		switch {
		case err == nil:
			return heard.Payload, nil
		case ctx.Err() != nil || conn.IsClosed() || !errors.Is(err, context.DeadlineExceeded):
			return "", err
		}
		asking, cancel := context.WithTimeout(ctx, n.o.patience)
		err = conn.Ping(asking)
		cancel()
		if err != nil {
			return "", fmt.Errorf("the connection that listens does not answer: %w", err)
		}
	}
}

// disarm has writers notify no more.
func (n *Notifier) disarm(ctx context.Context, conn *pgx.Conn) error {
	bounded, cancel := context.WithTimeout(ctx, n.o.patience)
	defer cancel()
	var off string
	var mark int64
	if err := conn.QueryRow(bounded, disarmNotifier).Scan(&off, &mark, nil); err != nil {
		return fmt.Errorf("ask writers to notify no more: %w", err)
	}
	n.over(mark)
	return nil
}

// leave asks writers to notify no more when the relay is told to stop: there may be no relay left to hear them.
func (n *Notifier) leave(ctx context.Context, conn *pgx.Conn) {
	if ctx.Err() == nil || !n.Armed() || conn.IsClosed() {
		return
	}
	bounded, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = n.disarm(bounded, conn) // otherwise it ends by itself, a little later
}
