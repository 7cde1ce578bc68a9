// Package httpapi serves a process over HTTP: whether it lives (/livez), whether it can do its work (/readyz), its
// metrics (/metrics), and the desk: the operations of openapi.yaml, under /v1 and under /api/v1, for holders of keys.
//
// openapi.yaml is made by TestOpenAPI, of operations.yaml (words about operations), the table of routes, the types that the
// routes name, and the examples that TestOpenAPIExamples asks for.
package httpapi
