package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"sync"
	"time"
)

// Remembered is for how long a key that worked is taken to work still, by who asks Recently.
const Remembered = 2 * time.Second

// Recently is a store for callers that ask with every request: a key that worked is not looked up again for Remembered.
// When a key expires, or another process revokes it, the key works for at most that long. When this process revokes a key,
// the key ends at once.
type Recently struct{ *Store }

// Use is what a caller is let in for.
type Use int

const (
	// Changing looks the caller up, whatever is remembered.
	Changing Use = iota
	// Reading takes what worked at most Remembered ago.
	Reading
	// Watching is Reading by an open page and not by its person: it does not keep a session from ending without use.
	Watching
)

// Authenticate is the store's, as fresh as the use asks for.
func (r Recently) Authenticate(ctx context.Context, token string, use Use) (Key, error) {
	if use == Changing {
		return r.Store.Authenticate(ctx, token)
	}
	id, hash, err := parseToken(tokenPrefix, token)
	if err != nil {
		return Key{}, errors.Join(ErrUnknownKey, err)
	}
	return r.working.get(id, hash, func() (Key, error) { return r.authenticate(ctx, id, hash) })
}

// Session is the store's, as fresh as the use asks for.
func (r Recently) Session(ctx context.Context, token string, use Use) (Session, error) {
	id, hash, err := parseToken(sessionPrefix, token)
	if err != nil {
		return Session{}, errors.Join(ErrUnknownSession, err)
	}
	switch use {
	case Reading:
		return r.sessions.get(id, hash, func() (Session, error) { return r.session(ctx, id, hash, true) })
	case Watching:
		// It is not remembered: the next page that a person opens would be taken for noted.
		if n, ok := r.sessions.find(id, hash, time.Now()); ok {
			return n, nil
		}
		return r.session(ctx, id, hash, false)
	}
	return r.session(ctx, id, hash, true)
}

// working are the keys, or the sessions, that worked lately, by their ids. Its zero value is empty.
type working[T any] struct {
	mu      sync.Mutex
	known   map[string]remembered[T]
	forgets int
}

type remembered[T any] struct {
	value T
	hash  secretHash
	until time.Time
}

// get returns what is remembered of an id, or else looks for it.
func (w *working[T]) get(id string, hash secretHash, look func() (T, error)) (T, error) {
	began := time.Now()
	if v, ok := w.find(id, hash, began); ok {
		return v, nil
	}
	since := w.changes()
	v, err := look()
	if err == nil {
		w.keep(id, v, hash, began, since)
	}
	return v, err
}

// find returns what is remembered with this secret.
func (w *working[T]) find(id string, hash secretHash, now time.Time) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.known[id]
	return k.value, ok && now.Before(k.until) && subtle.ConstantTimeCompare(k.hash[:], hash[:]) == 1
}

// changes counts how often something was forgotten.
func (w *working[T]) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgets
}

// keep remembers what worked when it was asked for, unless something was ended since: it may have been this.
func (w *working[T]) keep(id string, v T, hash secretHash, began time.Time, since int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forgets != since {
		return
	}
	if w.known == nil || len(w.known) >= maxRemembered {
		w.known = map[string]remembered[T]{}
	}
	w.known[id] = remembered[T]{v, hash, began.Add(Remembered)}
}

// forget forgets one id.
func (w *working[T]) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, id)
	w.forgets++
}

// forgetAll forgets all ids.
func (w *working[T]) forgetAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.known)
	w.forgets++
}
