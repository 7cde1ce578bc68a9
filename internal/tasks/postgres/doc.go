// Package postgres is the ledger in PostgreSQL: tasks, steps, their states and history. What changes a task is
// a function of the database, so that services in every language do it in the same way; here are their faces
// in Go.
package postgres
