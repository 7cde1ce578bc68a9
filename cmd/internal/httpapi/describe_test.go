package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestABusyDatabaseIsNotAway: pages say that the database does not answer only where it does not.
func TestABusyDatabaseIsNotAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err        error
		told, away bool
	}{
		{&pgconn.PgError{Code: "57014"}, true, false}, {&pgconn.PgError{Code: "40001"}, true, false}, {&pgconn.PgError{Code: "40P01"}, true, false},
		{&pgconn.PgError{Code: "55P03"}, true, false}, {&pgconn.PgError{Code: "57P01"}, true, true}, {&pgconn.PgError{Code: "53300"}, true, true},
		{&pgconn.PgError{Code: "08006"}, true, true}, {&pgconn.PgError{Code: "25006"}, true, true}, {&pgconn.PgError{Code: "42P01"}, false, false},
		{&pgconn.ConnectError{}, true, true}, {errors.Join(&pgconn.ConnectError{}, &pgconn.PgError{Code: "55000"}), true, true}, {&pgconn.PgError{Code: "55000"}, false, false}, {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true, true},
		{context.DeadlineExceeded, false, false}, // the API says that the request took too long
	} {
		got := Describe(fmt.Errorf("read rows: %w", c.err))
		if (got != nil) != c.told || got != nil && (got.Code != Unavailable || got.Database != c.away) {
			t.Errorf("%v: %+v, want told %v and away %v", c.err, got, c.told, c.away)
		}
	}
}
