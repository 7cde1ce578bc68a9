// Package postgres keeps dead letters and investigations in PostgreSQL: a Store takes the letters of the collector,
// Investigations shows and changes them, and a Redriver sends their messages again. Package dlq decides what is to happen.
// Each query is a file of its own, and calls of the schema's functions are in queries.go.
package postgres
