package mcp

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/relay"
)

func TestPreviewsExpire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newPreviews(time.Minute, func() time.Time { return now })
	a, q := access.Actor{KeyID: "a"}, asked{relay.ActionCleanup, 0}
	shown := preview{Action: relay.ActionCleanup, Cleanup: &relay.CleanupResult{Published: 3}}
	token, expires := p.add(a, q, shown)
	if expires != now.Add(time.Minute) {
		t.Errorf("it expires at %v", expires)
	}
	now = now.Add(time.Minute - 1)
	if got, err := p.take(a, q, token); err != nil || got.Cleanup.Published != 3 {
		t.Errorf("in time: %+v, %v", got, err)
	}
	token, _ = p.add(a, q, shown)
	now = now.Add(time.Minute)
	if _, err := p.take(a, q, token); !is(err, httpapi.Conflict) {
		t.Errorf("too late: %v", err)
	}
	if len(p.byKey) != 0 {
		t.Errorf("%d keys are remembered for nothing", len(p.byKey))
	}
}

// However many previews are asked for, few are kept. The previews of one key never take the place of another key's.
func TestPreviewsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newPreviews(time.Minute, func() time.Time { return now })
	q := asked{relay.ActionProcessPending, 1}
	kept, _ := p.add(access.Actor{KeyID: "b"}, q, preview{})
	var tokens []string
	for range maxPreviews + 5 {
		token, _ := p.add(access.Actor{KeyID: "a"}, q, preview{})
		tokens = append(tokens, token)
	}
	for i, token := range tokens {
		if _, err := p.take(access.Actor{KeyID: "a"}, q, token); (err == nil) != (i >= 5) {
			t.Errorf("preview %d: %v", i, err)
		}
	}
	if _, err := p.take(access.Actor{KeyID: "b"}, q, kept); err != nil {
		t.Errorf("the other key's: %v", err)
	}
	for i := range maxKeys + 1 {
		p.add(access.Actor{KeyID: fmt.Sprint(i)}, q, preview{})
	}
	if len(p.byKey) > maxKeys {
		t.Errorf("%d keys are remembered", len(p.byKey))
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	of := func(r relay.CleanupResult) preview { return preview{Cleanup: &r} }
	shown := relay.CleanupResult{Published: 2, DeadLettered: 2, IdempotencyKeys: 2, DurationMS: 1}
	for name, c := range map[string]struct {
		now  relay.CleanupResult
		want bool
	}{
		"the same":          {relay.CleanupResult{Published: 2, DeadLettered: 2, IdempotencyKeys: 2, DurationMS: 9}, true},
		"less":              {relay.CleanupResult{Published: 1}, true},
		"more published":    {relay.CleanupResult{Published: 3}, false},
		"more dead letters": {relay.CleanupResult{DeadLettered: 3}, false},
		"more keys":         {relay.CleanupResult{IdempotencyKeys: 3}, false},
	} {
		if got := of(shown).covers(of(c.now)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if of(shown).covers(preview{}) || !(preview{}).covers(preview{}) {
		t.Error("previews of other actions")
	}
}
