package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/relay"
)

// Codes of errors that are not the server's own.
const (
	// codeConnectionLost: the connection ended in the middle of something.
	codeConnectionLost = "CONNECTION_LOST"
	// codeUnreachable: no connection could be made.
	codeUnreachable = "DATABASE_UNREACHABLE"
	// codeReadOnlyServer: connections could be made, but only to servers that take no writes.
	codeReadOnlyServer = "READ_ONLY_SERVER"
	// codeRewound: see ErrRewound.
	codeRewound = "LOG_REWOUND"
	// codeNotAdmitted: see ErrNotAdmitted.
	codeNotAdmitted = "NOT_ADMITTED"
	// codeUnreadable: a row has what this version does not expect.
	codeUnreadable = "UNREADABLE_ROW"
	// codeTimeout: no answer in the time that the relay waits for one.
	codeTimeout = "DATABASE_TIMEOUT"
)

// ErrReadOnlyServer is why a connection to a standby is not used; see Writable.
var ErrReadOnlyServer = errors.New("the server takes no writes: it is a standby, or default_transaction_read_only is on")

// HintReadOnlyServer says what to do about it.
const HintReadOnlyServer = "a failover may be under way; otherwise let database.url name the primary"

// meaning is what an SQLSTATE means for the relay.
type meaning struct {
	class relay.StoreClass
	hint  string
}

// Hints that more than one error has.
const (
	hintSchema = "the schema is not the one of this version: run `postrider migrate up`"
	hintGrants = "the login lacks a right: run `postrider migrate roles --apply`, and grant postrider_relay to the login in database.url"
	hintLogin  = "check user, password and database name in database.url, and pg_hba.conf on the server"
	hintServer = "look into the server's log"
)

// states are the SQLSTATEs with a meaning of their own. The relay does the same for all of them: it begins
// anew. So what stands here decides what people read, and whether the pool's connections are given up.
var states = map[string]meaning{
	// Collisions with others. The server took everything back.
	"40P01": {relay.StoreTransient, ""},                                                                                     // deadlock_detected
	"40001": {relay.StoreTransient, ""},                                                                                     // serialization_failure
	"55P03": {relay.StoreTransient, "another session holds a lock for long: look at pg_locks, and give DDL a lock_timeout"}, // lock_not_available
	"55006": {relay.StoreTransient, ""},                                                                                     // object_in_use
	"0A000": {relay.StoreTransient, ""},                                                                                     // feature_not_supported: a cached plan after DDL
	"26000": {relay.StoreTransient, ""},                                                                                     // invalid_sql_statement_name: a prepared statement is gone
	"25P02": {relay.StoreTransient, ""},                                                                                     // in_failed_sql_transaction
	"40003": {relay.StoreUnknownOutcome, ""},                                                                                // statement_completion_unknown

	// The server or an administrator did not wait any longer.
	"57014": {relay.StoreTransient, "the statement was cancelled or took longer than statement_timeout: look for locks and for load"},                                             // query_canceled
	"25P03": {relay.StoreTransient, "the relay was silent in a transaction for longer than idle_in_transaction_session_timeout, which must stay above outbox.publish_timeout_ms"}, // idle_in_transaction_session_timeout
	"25P04": {relay.StoreTransient, "transaction_timeout is shorter than a batch takes: take it away for the relay's login"},                                                      // transaction_timeout
	"57P01": {relay.StoreTransient, ""},                                                                                                                                           // admin_shutdown
	"57P02": {relay.StoreTransient, ""},                                                                                                                                           // crash_shutdown
	"57P03": {relay.StoreTransient, ""},                                                                                                                                           // cannot_connect_now
	"57P05": {relay.StoreTransient, ""},                                                                                                                                           // idle_session_timeout

	// The server has become another one, or a poorer one.
	"25006": {relay.StoreTransient, "the server takes no writes: after a failover the relay connects anew; otherwise let database.url name the primary"}, // read_only_sql_transaction
	"53000": {relay.StoreTransient, hintServer},                                                                                                          // insufficient_resources
	"53100": {relay.StoreTransient, "the database's disk is full: make room"},                                                                            // disk_full
	"53200": {relay.StoreTransient, "the server is out of memory: " + hintServer},                                                                        // out_of_memory
	"53300": {relay.StoreTransient, "the server has no connection left for this login: raise the limit, or run fewer processes"},                         // too_many_connections
	"53400": {relay.StoreTransient, hintServer},                                                                                                          // configuration_limit_exceeded

	// Errors that stay until an operator changes something.
	"42P01": {relay.StorePermanent, hintSchema},                                                                                 // undefined_table
	"42703": {relay.StorePermanent, hintSchema},                                                                                 // undefined_column
	"42883": {relay.StorePermanent, hintSchema},                                                                                 // undefined_function
	"42704": {relay.StorePermanent, hintSchema},                                                                                 // undefined_object
	"3F000": {relay.StorePermanent, hintSchema},                                                                                 // invalid_schema_name
	"42501": {relay.StorePermanent, hintGrants},                                                                                 // insufficient_privilege
	"28000": {relay.StorePermanent, hintLogin},                                                                                  // invalid_authorization_specification
	"28P01": {relay.StorePermanent, hintLogin},                                                                                  // invalid_password
	"3D000": {relay.StorePermanent, hintLogin},                                                                                  // invalid_catalog_name
	"P0001": {relay.StorePermanent, "a function or trigger in the database refuses what the relay writes: the text says which"}, // raise_exception
	"XX001": {relay.StorePermanent, "a table is damaged: " + hintServer},                                                        // data_corrupted
	"XX002": {relay.StorePermanent, "an index is damaged: reindex it"},                                                          // index_corrupted
}

// stateClasses are the meanings of the other SQLSTATEs, by their first two characters.
var stateClasses = map[string]meaning{
	"08": {relay.StoreTransient, ""},         // connection exceptions
	"40": {relay.StoreTransient, ""},         // transaction rollback
	"53": {relay.StoreTransient, hintServer}, // insufficient resources
	"55": {relay.StoreTransient, ""},         // object not in prerequisite state
	"57": {relay.StoreTransient, ""},         // operator intervention
	"58": {relay.StoreTransient, hintServer}, // system errors, for example of a disk
	"XX": {relay.StoreTransient, hintServer}, // internal errors
	"22": {relay.StorePermanent, hintSchema}, // data exceptions
	"23": {relay.StorePermanent, hintSchema}, // constraints
	"28": {relay.StorePermanent, hintLogin},  // authorization
	"42": {relay.StorePermanent, hintSchema}, // syntax and access rules
	"54": {relay.StorePermanent, hintServer}, // limits of the server
	"P0": {relay.StorePermanent, hintServer}, // PL/pgSQL
}

// classify is the one place that decides what an error of the database means:
//
//   - unknown outcome: something was being written, and the answer to its commit did not come: any error
//     that is not the server's own, and any with which the server ended the session, for it may have
//     committed before. pgconn.SafeToRetry is not asked: it says yes to commits that were made.
//   - permanent: schema, rights, login, damage. It stays until an operator acts, and the hint says how.
//   - transient: everything else, also an error that is unknown here.
//
// writing says that a commit was, or may have been, sent.
func classify(err error, writing bool) *relay.StoreError {
	e := &relay.StoreError{Class: relay.StoreTransient, Code: relay.CodeOther, Err: err}
	var scan pgx.ScanArgError
	var connect *pgconn.ConnectError
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, ErrReadOnlyServer):
		e.Code, e.Hint = codeReadOnlyServer, HintReadOnlyServer
		return e
	case errors.Is(err, ErrNotAdmitted): // its text says what to do
		e.Class, e.Code = relay.StorePermanent, codeNotAdmitted
		return e
	case errors.Is(err, ErrRewound): // its text says what to do
		e.Class, e.Code = relay.StorePermanent, codeRewound
		return e
	case errors.As(err, &scan):
		e.Class, e.Code, e.Hint = relay.StorePermanent, codeUnreadable, "a row was changed by hand, or written by another version"
		return e
	case errors.As(err, &pg):
		ended := pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC"
		m, known := states[pg.Code]
		if known {
			e.Code = pg.Code
		} else if len(pg.Code) == 5 {
			m = stateClasses[pg.Code[:2]]
		}
		if m.class != "" {
			e.Class, e.Hint = m.class, m.hint
		}
		if writing && ended && !errors.As(err, &connect) {
			e.Class = relay.StoreUnknownOutcome
		}
		return e
	case errors.As(err, &connect):
		e.Code, e.Hint = codeUnreachable, "check that PostgreSQL runs there, and host and port in database.url"
		return e
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		e.Code, e.Hint = codeTimeout, "check the network to the database, its load and its locks"
	default:
		e.Code = codeConnectionLost
	}
	if writing {
		e.Class = relay.StoreUnknownOutcome
	}
	return e
}

// renewEvery is how often at most the pool's connections are given up because of an error.
const renewEvery = time.Second

// asStoreError makes an error that leaves the store a *relay.StoreError, which says what it means. When the server is
// not what it was, the pool's other connections lead to the wrong one too: they are given up, so that names are resolved
// and hosts are tried anew.
func (s *Store) asStoreError(err *error, writing bool) {
	if *err == nil || errors.Is(*err, context.Canceled) {
		return
	}
	e := classify(*err, writing)
	switch e.Code {
	case "25006", "57P01", "57P02", "57P03":
		now := time.Now().UnixNano()
		if last := s.renewed.Load(); now-last >= int64(renewEvery) && s.renewed.CompareAndSwap(last, now) {
			s.pool.Reset()
		}
	}
	*err = e
}

// Writable refuses a connection to a server that takes no writes, with ErrReadOnlyServer. Servers tell by
// themselves; a pooler that does not pass it on is believed. It is for pgconn.Config.ValidateConnect, where
// target_session_attrs left that empty.
func Writable(_ context.Context, conn *pgconn.PgConn) error {
	if conn.ParameterStatus("in_hot_standby") == "on" || conn.ParameterStatus("default_transaction_read_only") == "on" {
		return ErrReadOnlyServer
	}
	return nil
}
