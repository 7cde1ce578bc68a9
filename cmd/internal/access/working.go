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

// AuthenticateNow is Authenticate that looks the key up, whatever is remembered.
func (s *Store) AuthenticateNow(ctx context.Context, token string) (Key, error) {
	return s.Authenticate(ctx, token)
}

// Authenticate is the store's, as it was at most Remembered ago.
func (r Recently) Authenticate(ctx context.Context, token string) (Key, error) {
	id, hash, err := parseToken(token)
	if err != nil {
		return Key{}, errors.Join(ErrUnknownKey, err)
	}
	began := time.Now()
	if k, ok := r.working.find(id, hash, began); ok {
		return k, nil
	}
	since := r.working.changes()
	k, err := r.authenticate(ctx, id, hash)
	if err == nil {
		r.working.keep(k, hash, began, since)
	}
	return k, err
}

// working are the keys that worked lately, by their ids. Its zero value is empty.
type working struct {
	mu      sync.Mutex
	keys    map[string]workingKey
	forgets int
}

type workingKey struct {
	Key
	hash  secretHash
	until time.Time
}

// find returns a key that is remembered with this secret.
func (w *working) find(id string, hash secretHash, now time.Time) (Key, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.keys[id]
	return k.Key, ok && now.Before(k.until) && subtle.ConstantTimeCompare(k.hash[:], hash[:]) == 1
}

// changes counts the keys that were forgotten.
func (w *working) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forgets
}

// keep remembers a key that worked when it was asked for, unless one was revoked since: it may have been this one.
func (w *working) keep(k Key, hash secretHash, began time.Time, since int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forgets != since {
		return
	}
	if w.keys == nil || len(w.keys) >= maxRemembered {
		w.keys = map[string]workingKey{}
	}
	w.keys[k.ID] = workingKey{k, hash, began.Add(Remembered)}
}

func (w *working) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, id)
	w.forgets++
}
