package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

// kinds are the SQLSTATEs with which the ledger's functions refuse.
var kinds = map[string]error{
	"P0002": ledger.ErrNotFound, // no_data_found
	"22023": ledger.ErrInvalid,  // invalid_parameter_value
	"55000": ledger.ErrRefused,  // object_not_in_prerequisite_state
	"23505": ledger.ErrExists,   // unique_violation
}

// ours is how the messages of our functions begin, which tells them from the server's own.
const ours = "postrider: "

// explain says what was being done, and makes a refusal by one of our functions one of the errors of package
// ledger, with its hint.
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, ours) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	kind, known := kinds[refused.Code]
	if !known {
		return fmt.Errorf("%s: %w", doing, err)
	}
	message := strings.TrimPrefix(refused.Message, ours)
	if refused.Hint != "" {
		message += "; " + strings.ToLower(refused.Hint[:1]) + strings.TrimSuffix(refused.Hint[1:], ".")
	}
	return fmt.Errorf("%s: %w: %s", doing, kind, message)
}
