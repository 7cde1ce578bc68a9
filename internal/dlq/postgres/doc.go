// Package postgres keeps dead letters and investigations in PostgreSQL: a Store takes the letters of the collector, an
// Editor shows and changes investigations, and a Redriver sends their messages again. What is to happen is decided in
// package dlq. Each query is a file of its own, and calls of the schema's functions are in queries.go.
package postgres
