// Package httpapi serves a process over HTTP: whether it lives (/livez), whether it can do its
// work (/readyz), and its metrics (/metrics).
package httpapi
