// Package app puts a process together: it checks the database, connects the adapters to the
// engines, runs the parts that the process has the roles for, and stops them in order.
package app
