// Package pgbouncer starts a PgBouncer in transaction mode for a test. It is the installed one: a copy of
// what it does would only show that we know it.
package pgbouncer
