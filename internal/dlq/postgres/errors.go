package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/dlq"
)

// SQLSTATE codes that name a case of their own within their class.
const (
	foreignKeyViolation = "23503"
	uniqueViolation     = "23505"
	deadlockDetected    = "40P01"
)

// translate turns an error of a statement into one of the port: it wraps dlq.ErrLetter if and only if
// the server refused what the letters contain:
//
//   - class 22, data exceptions: text or JSON that the database cannot hold, values out of range;
//   - class 23, constraints: a null or a value that a column does not accept. Not a foreign key and not a
//     unique index: both can only be a race with a session that purges or opens, and are gone the next time;
//   - class 54, limits of the server: too large, too deep.
//
// Everything else is passing: connections, timeouts, deadlocks, shutdowns, a full disk, missing rights, a
// schema that is behind, and any error that is not the server's own.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && refused(pg.Code) {
		return fmt.Errorf("%s: %w: %w", doing, dlq.ErrLetter, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isRefused reports whether an error of translate is about what was written, and not passing.
func isRefused(err error) bool { return errors.Is(err, dlq.ErrLetter) }

// passing reports whether a transaction failed only because of other transactions: it can be made again.
func passing(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == deadlockDetected || pg.Code == uniqueViolation)
}

func refused(code string) bool {
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "22", "54":
		return true
	case "23":
		return code != foreignKeyViolation && code != uniqueViolation
	}
	return false
}

// deadlock reports whether the transaction was the one that had to give way to another.
func deadlock(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == deadlockDetected
}
