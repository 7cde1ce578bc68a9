package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrUnknownOutcome is wrapped where the answer to a commit was lost and the database could not be asked again
	// whether the commit was made. Handling the message again is safe: the inbox knows then.
	ErrUnknownOutcome = errors.New("inbox: the outcome of the transaction is not known")
	// ErrTransactionEnded is wrapped where the handler committed or rolled back the transaction that it was given, or
	// where a statement in it failed and the handler returned no error all the same.
	ErrTransactionEnded = errors.New("inbox: the handler left no transaction to commit")
)

// reason is why a transaction is tried again; empty if it is not. The values are also the values of a metric's label.
type reason string

const (
	never         reason = ""
	serialization reason = "serialization"
	deadlock      reason = "deadlock"
	connection    reason = "connection"
	unknown       reason = "unknown_outcome"
)

func reasons() []reason { return []reason{serialization, deadlock, connection, unknown} }

// stateOf returns the SQLSTATE of a server's error, of pgx or of another driver; empty for other errors.
func stateOf(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

// collided says whether the server rolled a transaction back because of concurrent ones: 40001 serialization_failure,
// 40P01 deadlock_detected.
func collided(err error) reason {
	switch stateOf(err) {
	case "40001":
		return serialization
	case "40P01":
		return deadlock
	}
	return never
}

// whyAsk returns the reason for errors before anything was handled, of the begin and of the inbox's query: collisions,
// and connections that are lost or cannot be made. The server would repeat any other error.
func whyAsk(ctx context.Context, err error) reason {
	if ctx.Err() != nil {
		return never
	}
	if why := collided(err); why != never {
		return why
	}
	if state := stateOf(err); state != "" && !endsSession(err, state) {
		return never
	}
	return connection
}

// whyCommit returns the reason for errors of the commit. An error of the server is certain, unless it ended the
// session: the commit may have been made before. pgconn.SafeToRetry is not asked, because it says yes to commits that
// were made.
func whyCommit(err error) reason {
	if why := collided(err); why != never {
		return why
	}
	if errors.Is(err, ErrTransactionEnded) {
		return never
	}
	if state := stateOf(err); state != "" && !endsSession(err, state) {
		return never
	}
	return unknown
}

// endsSession reports whether the server ended the session with this error. Drivers other than pgx do not tell, so
// there the classes of SQLSTATE decide: 08 connection exception, 57P operator intervention, and the timeouts of 25P.
func endsSession(err error, state string) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC"
	}
	return len(state) == 5 && (state[:2] == "08" || state[:3] == "57P" || state == "25P03" || state == "25P04")
}

// ended says what a handler did to its transaction, for the errors that only a handler can cause.
func ended(err error) error {
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("%w: a statement in it failed, and the handler returned no error: %w", ErrTransactionEnded, err)
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return fmt.Errorf("%w: it committed it or rolled it back itself: %w", ErrTransactionEnded, err)
	}
	return err
}

// withHint adds to an error about a missing schema, table or right what to do.
func withHint(err error) error {
	switch stateOf(err) {
	case "42P01", "3F000", "42703":
		return fmt.Errorf("%w; create the table with inbox.Migrate, or with what `postrider inbox schema` prints", err)
	case "42501":
		return fmt.Errorf("%w; the service's login needs select, insert and delete on inbox_message", err)
	}
	return err
}
