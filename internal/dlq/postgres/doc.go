// Package postgres keeps dead letters and investigations in PostgreSQL: the dlq.Store and the dlq.Reader
// on the tables dlq_letter and dlq_entry. Each query is a file of its own.
package postgres
