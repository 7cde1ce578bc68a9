package adopt

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// NoFenceError says that a server cannot note the fence of a cutover, why, and what to do.
type NoFenceError struct{ text string }

func (e *NoFenceError) Error() string { return e.text }

func noFence(format string, args ...any) error { return &NoFenceError{fmt.Sprintf(format, args...)} }

// checkPrimary refuses a standby; the readers of a managed database are standbys.
func checkPrimary(ctx context.Context, db querier) error {
	var standby bool
	var server, database string
	if err := db.QueryRow(ctx, `select pg_is_in_recovery(), coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a local socket'), current_database()`).
		Scan(&standby, &server, &database); err != nil {
		return fmt.Errorf("ask whether the server is a standby: %w", err)
	}
	if standby {
		return noFence("the server of database.url (%s, database %s) is a standby, which takes no changes, and nothing was changed: "+
			"give the address of its primary; on Aurora that is the cluster endpoint and not the reader endpoint, elsewhere the primary's and not that of a replica or reader", server, database)
	}
	return nil
}

// CanFence refuses a server on which a cutover cannot note its fence: a standby, and one that refuses to say the position in its
// write-ahead log: a NoFenceError. It changes nothing.
func CanFence(ctx context.Context, db querier) error {
	if err := checkPrimary(ctx, db); err != nil {
		return err
	}
	var position string
	err := db.QueryRow(ctx, `select pg_current_wal_insert_lsn()::text`).Scan(&position)
	// object_not_in_prerequisite_state, feature_not_supported, undefined_function, insufficient_privilege
	if refusal, is := errors.AsType[*pgconn.PgError](err); is && (refusal.Code == "55000" || refusal.Code == "0A000" || refusal.Code == "42883" || refusal.Code == "42501") {
		return noFence("the server of database.url refuses pg_current_wal_insert_lsn() (SQLSTATE %s: %s), and a cutover notes this position as its fence; nothing was changed: "+
			"give the endpoint that the connector reads (its database.hostname), and no pooler's or reader's; on Aurora that is the cluster endpoint, with rds.logical_replication = 1 in the cluster's parameters", refusal.Code, refusal.Message)
	} else if err != nil {
		return fmt.Errorf("ask for the position in the write-ahead log: %w", err)
	}
	return nil
}
