package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// Route is one operation of the API. It is served under /v1 and under /api/v1.
type Route struct {
	// Method and Path, in the manner of http.ServeMux, without the prefix: GET, /dlq/{id}. Required.
	Method, Path string
	// Scope is what the caller's key must have. Required: nothing of the API is open.
	Scope access.Scope
	// Cost is how many requests it counts as for the rate limit, 1 or more. Defaults to 1.
	Cost int
	// Handle does it. Required.
	Handle func(context.Context, *Request) (any, error)
	// Body is a zero value of what Handle reads from the body, a pointer to one where the body may be left out. Defaults to
	// none: the operation reads no body.
	Body any
	// Answers are zero values of what Handle returns. openapi.yaml describes them.
	Answers []any
	// Limit is how long it may take where that is longer than others may. Defaults to APIConfig.Timeout.
	Limit time.Duration
	// Recall answers a request whose Idempotency-Key was carried out before, by what that did; the answer was lost.
	// Defaults to none: such a request is told that it was carried out.
	Recall func(context.Context, *Request, *access.LostError) (any, error)
	// Reach says which sources a caller needs. Defaults to WholeInstallation: a route is closed to keys with some sources until it
	// says otherwise.
	Reach Reach
	// Of is what {id} in Path names, for Reach PerSource; an id that the caller does not see is answered as an unknown one. Defaults
	// to none: the handler asks.
	Of dlq.Thing
}

// Reach says which sources a caller of a route needs.
type Reach int

const (
	// WholeInstallation is what no source has for itself, such as keys: it needs a key with all sources.
	WholeInstallation Reach = iota
	// OwnDatabase is what the desk's own database has, the source main: it needs a key with that.
	OwnDatabase
	// PerSource is what each source has for itself: the caller sees and changes what is of its sources (dlq.WithSources).
	PerSource
)

// changes reports whether the operation may change something: then a repeated Idempotency-Key is answered from
// memory.
func (r Route) changes() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Request is what an operation is asked.
type Request struct {
	*http.Request
	// Actor is who asks.
	Actor access.Actor
	// Prefix is /v1 or /api/v1, as it was asked.
	Prefix string
	// Body is the whole body, of at most the size that is set.
	Body []byte

	query url.Values
	seen  map[string]bool
}

// Moved is the answer of an operation whose subject is elsewhere for good.
type Moved struct {
	// To is the path without the prefix.
	To string
}

// Created is the answer of an operation that made something.
type Created struct {
	Data any
}
