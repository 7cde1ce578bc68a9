package mcp

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/relay"
)

// maxPreviews is how many previews of one key wait for their confirmation; a further one takes the place of the
// oldest. maxKeys is of how many keys.
const (
	maxPreviews = 16
	maxKeys     = 10_000
)

// preview is what an action would do, in numbers: nothing of it was written by others.
type preview struct {
	Action relay.Action `json:"action"`
	// AtMost is how many events will be worked on at most, whatever comes meanwhile; nil of a cleanup.
	AtMost *int `json:"at_most,omitempty"`
	// Outbox is the outbox when it was looked at; nil of a cleanup.
	Outbox *outboxNumbers `json:"outbox,omitempty"`
	// Cleanup is what retention allows to go now; nil of other actions.
	Cleanup *relay.CleanupResult `json:"would_remove,omitempty"`
}

// outboxNumbers are the numbers of relay.Status.
type outboxNumbers struct {
	Pending    int64 `json:"pending"`
	Due        int64 `json:"due"`
	Processing int64 `json:"processing"`
	Failed     int64 `json:"failed"`
	Scheduled  int64 `json:"scheduled"`
	Parked     int64 `json:"parked"`
	Exhausted  int64 `json:"exhausted"`
	Holds      int64 `json:"holds"`
}

// covers reports whether an action would do no more now than the preview showed.
func (p preview) covers(now preview) bool {
	if p.Cleanup == nil || now.Cleanup == nil {
		return p.Cleanup == nil && now.Cleanup == nil // the limit holds whatever there is now
	}
	old, fresh := p.Cleanup, now.Cleanup
	return fresh.Published <= old.Published && fresh.DeadLettered <= old.DeadLettered &&
		fresh.IdempotencyKeys <= old.IdempotencyKeys
}

// asked is what was called for. A confirmation must ask for the same.
type asked struct {
	action relay.Action
	limit  int
}

// previews are the previews that wait for their confirmation. They live in this process: a confirmation must come to the
// one that made the preview.
type previews struct {
	ttl time.Duration
	now func() time.Time

	mu    sync.Mutex
	byKey map[string][]waiting // the oldest first
}

type waiting struct {
	token   string
	asked   asked
	shown   preview
	expires time.Time
}

func newPreviews(ttl time.Duration, now func() time.Time) *previews {
	return &previews{ttl: ttl, now: now, byKey: map[string][]waiting{}}
}

// add keeps a preview for an actor, and returns what confirms it.
func (p *previews) add(a access.Actor, q asked, shown preview) (token string, expires time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if _, known := p.byKey[a.KeyID]; !known && len(p.byKey) >= maxKeys {
		for key := range p.byKey {
			p.forget(key, now)
		}
		if len(p.byKey) >= maxKeys {
			clear(p.byKey) // an agent that previews again loses nothing
		}
	}
	p.forget(a.KeyID, now)
	list := p.byKey[a.KeyID]
	if len(list) >= maxPreviews {
		list = list[1:]
	}
	w := waiting{rand.Text(), q, shown, now.Add(p.ttl)}
	p.byKey[a.KeyID] = append(list, w)
	return w.token, w.expires
}

// take returns the preview that a token confirms, once. One of another action or limit stays. The tokens of
// another key are not found.
func (p *previews) take(a access.Actor, q asked, token string) (preview, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(a.KeyID, p.now())
	list := p.byKey[a.KeyID]
	for i, w := range list {
		if w.token != token {
			continue
		}
		if w.asked != q {
			return preview{}, refuse(httpapi.Conflict, "confirm belongs to the preview of %s with the limit %d, and this is %s with the limit %d; nothing was done: call again as previewed, or without confirm", w.asked.action, w.asked.limit, q.action, q.limit)
		}
		p.byKey[a.KeyID] = append(list[:i:i], list[i+1:]...)
		return w.shown, nil
	}
	return preview{}, refuse(httpapi.Conflict, "confirm is not known: it is used once, by the key that it was given to, within %v; nothing was done: call again without confirm", p.ttl)
}

// forget drops what has expired of a key.
func (p *previews) forget(key string, now time.Time) {
	list := p.byKey[key]
	for len(list) > 0 && !now.Before(list[0].expires) {
		list = list[1:]
	}
	if len(list) == 0 {
		delete(p.byKey, key)
		return
	}
	p.byKey[key] = list
}
