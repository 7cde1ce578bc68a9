package httpapi

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/cluster"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

// refusals are the errors of services that clients are told, each with its code. The first that fits counts.
var refusals = []struct {
	err  error
	code Code
}{
	{dlq.ErrNotFound, NotFound},
	{dlq.ErrClosed, Conflict},
	{dlq.ErrHoldsKey, Conflict},
	{dlq.ErrUnderWay, Conflict},
	{dlq.ErrAlike, Conflict},
	{dlq.ErrNotAuthor, Conflict},
	{dlq.ErrTaken, Conflict},
	{dlq.ErrState, Conflict},
	{dlq.ErrSource, Conflict},
	{dlq.ErrExists, Conflict},
	{dlq.ErrRequest, Validation},
	{ledger.ErrNotFound, NotFound},
	{ledger.ErrNotArchived, NotFound},
	{ledger.ErrInvalid, Validation},
	{ledger.ErrRefused, Conflict},
	{ledger.ErrExists, Conflict},
	{postgres.ErrNotFound, NotFound},
	{postgres.ErrRefused, Conflict},
	{relay.ErrMiscounted, Conflict},
	{cluster.ErrBrokers, Unavailable},
	{access.ErrNotFound, NotFound},
	{access.ErrInvalid, Validation},
	{actions.ErrRequest, Validation},
	{actions.ErrBusy, Conflict},
}

// Describe is what clients are told of errors of the services; nil is nothing.
func Describe(err error) *Error {
	var invalid *task.InvalidError
	if errors.As(err, &invalid) {
		return &Error{Code: Validation, Message: err.Error(), Details: invalid.Problems}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &Error{Code: r.code, Message: err.Error()}
		}
	}
	return describeDatabase(err)
}

// describeDatabase tells errors that are the request's fault, and errors that pass, from errors of our own.
func describeDatabase(err error) *Error {
	var refused *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, new(*pgconn.ConnectError)): // whatever the server says: a database that takes no connections is away
		return &Error{Code: Unavailable, Message: "the database is away; try again", Database: true}
	case errors.As(err, &refused):
		switch {
		case strings.HasPrefix(refused.Code, "22"): // data exceptions: NUL characters, numbers out of range
			return refuse(Validation, "the database cannot hold a value of the request: %s", shown(refused.Message))
		case strings.HasPrefix(refused.Code, "08"), strings.HasPrefix(refused.Code, "53"), strings.HasPrefix(refused.Code, "57P"), refused.Code == "25006":
			return &Error{Code: Unavailable, Message: "the database is busy or away; try again", Database: true}
		case slices.Contains([]string{"40001", "40P01", "55P03", "57014"}, refused.Code): // a conflict, a deadlock, a lock, a statement that was cancelled
			return refuse(Unavailable, "the database is busy; try again")
		}
	case errors.Is(err, context.DeadlineExceeded): // a net.Error, too; it says that the request's own time is over
	case errors.As(err, &network):
		return &Error{Code: Unavailable, Message: "the database is away; try again", Database: true}
	}
	return nil
}
