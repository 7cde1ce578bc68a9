// Package ledgertest is for tests of the ledger: it puts templates and machines into a test database, creates
// tasks, makes them older, and reads what became of them.
package ledgertest
