package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// Guard lets only holders of keys through to next; access.ActorOf tells next who it is. Others are answered as by the
// API, with the same limits of failures.
func (a *API) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", requestID(r))
		actor, err := a.authenticate(r.Context(), w, r)
		if err != nil {
			a.write(w, r, nil, err, time.Now())
			return
		}
		actor.RequestID = w.Header().Get("X-Request-Id")
		next.ServeHTTP(w, r.WithContext(access.WithActor(r.Context(), actor)))
	})
}

// Failures limits how often an address may present what does not work, for other doors that count together with the API.
func (a *API) Failures() *access.Limiter { return a.cfg.Failures }

// Call runs an operation for the actor of ctx, who is known already, and returns what its handler returned: a type of
// package api. Scope, limits, bounds, audit and errors are as over the wire; errors are of type *Error. path is without
// the prefix, and escaped. body is sent as JSON; nil is none.
func (a *API) Call(ctx context.Context, method, path string, query url.Values, body any) (any, error) {
	actor := access.ActorOf(ctx)
	if actor.Name == "" {
		return nil, refuse(Unauthenticated, "the actor is missing")
	}
	target := prefixes[0] + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("the body for %s %s: %w", method, path, err)
		}
		sent = bytes.NewReader(text)
	}
	got := &called{}
	r, err := http.NewRequestWithContext(context.WithValue(context.WithValue(ctx, knownKey{}, true), calledKey{}, got), method, target, sent)
	if err != nil {
		return nil, refuse(Validation, "%s is not a path", shown(path))
	}
	r.Header.Set("X-Request-Id", actor.RequestID)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w := &discarded{header: http.Header{}}
	a.ServeHTTP(w, r)
	if !got.answered {
		return nil, refuse(NotFound, "%s answers with status %d", shown(path), w.status)
	}
	if created, is := got.data.(Created); is {
		got.data = created.Data
	}
	return got.data, got.err
}

// called takes what an operation returned, for Call.
type called struct {
	data     any
	err      error
	answered bool
}

// calledKey marks a context of Call.
type calledKey struct{}

// knownKey marks a context whose actor has been authenticated.
type knownKey struct{}

// known returns the actor that Call has put into the context; nothing that comes over the wire can.
func known(ctx context.Context) (access.Actor, bool) {
	if is, _ := ctx.Value(knownKey{}).(bool); !is {
		return access.Actor{}, false
	}
	return access.ActorOf(ctx), true
}

// discarded is where an answer goes whose data Call has already.
type discarded struct {
	header http.Header
	status int
}

func (w *discarded) Header() http.Header         { return w.header }
func (w *discarded) WriteHeader(status int)      { w.status = status }
func (w *discarded) Write(b []byte) (int, error) { return len(b), nil }
