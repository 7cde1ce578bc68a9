package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/dlq"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	if translate("do", nil) != nil {
		t.Error("an error out of nothing")
	}
	for _, test := range []struct {
		err     error
		refused bool
	}{
		{&pgconn.PgError{Code: "22021"}, true},  // invalid byte sequence for the encoding
		{&pgconn.PgError{Code: "22P05"}, true},  // untranslatable character, \u0000 in jsonb
		{&pgconn.PgError{Code: "22P02"}, true},  // invalid JSON, unknown enum value
		{&pgconn.PgError{Code: "22003"}, true},  // numeric out of range
		{&pgconn.PgError{Code: "22008"}, true},  // timestamp out of range
		{&pgconn.PgError{Code: "23502"}, true},  // not null
		{&pgconn.PgError{Code: "23514"}, true},  // check
		{&pgconn.PgError{Code: "23503"}, false}, // predecessor purged at this moment
		{&pgconn.PgError{Code: "23505"}, false}, // opened at this moment
		{&pgconn.PgError{Code: "54000"}, true},  // index row too large
		{&pgconn.PgError{Code: "54001"}, true},  // nested too deeply
		{fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: "22021"}), true},
		{&pgconn.PgError{Code: "08006"}, false}, // connection failure
		{&pgconn.PgError{Code: "25006"}, false}, // read-only standby
		{&pgconn.PgError{Code: "40001"}, false}, // serialization
		{&pgconn.PgError{Code: "40P01"}, false}, // deadlock
		{&pgconn.PgError{Code: "42P01"}, false}, // schema missing
		{&pgconn.PgError{Code: "42501"}, false}, // rights missing
		{&pgconn.PgError{Code: "53100"}, false}, // disk full
		{&pgconn.PgError{Code: "53200"}, false}, // out of memory
		{&pgconn.PgError{Code: "53300"}, false}, // too many connections
		{&pgconn.PgError{Code: "57014"}, false}, // statement timeout
		{&pgconn.PgError{Code: "57P01"}, false}, // terminated
		{&pgconn.PgError{Code: "57P03"}, false}, // starting up
		{&pgconn.PgError{Code: "XX000"}, false}, // internal
		{&pgconn.PgError{Code: ""}, false},
		{&pgconn.ConnectError{}, false},
		{pgx.ErrTxClosed, false},
		{io.ErrUnexpectedEOF, false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{errors.New("anything else"), false},
	} {
		got := translate("do", test.err)
		if errors.Is(got, dlq.ErrLetter) != test.refused {
			t.Errorf("%#v: refused is %v", test.err, !test.refused)
		}
		if !errors.Is(got, test.err) {
			t.Errorf("%v does not wrap its cause", got)
		}
	}
}
