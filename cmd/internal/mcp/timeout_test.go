package mcp

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// slow answers nothing before the time is up, and notes how much time there was.
type slow struct{ given time.Duration }

func (s *slow) wait(ctx context.Context) error {
	end, _ := ctx.Deadline()
	s.given = time.Until(end)
	return context.DeadlineExceeded // the test does not wait for it
}

func (s *slow) ProcessPending(ctx context.Context, _ relay.ActionOptions) (relay.ActionResult, error) {
	return relay.ActionResult{}, s.wait(ctx)
}

func (s *slow) ProcessRetries(ctx context.Context, _ relay.ActionOptions) (relay.ActionResult, error) {
	return relay.ActionResult{}, s.wait(ctx)
}

func (s *slow) Cleanup(ctx context.Context, _ relay.CleanupOptions) (relay.CleanupResult, error) {
	return relay.CleanupResult{}, s.wait(ctx)
}

func (s *slow) DLQStats(ctx context.Context) (dlq.Summary, error)                       { return dlq.Summary{}, s.wait(ctx) }
func (s *slow) Status(ctx context.Context) (relay.Status, error)                        { return relay.Status{}, s.wait(ctx) }
func (s *slow) Guard(next http.Handler) http.Handler                                    { return next }
func (s *slow) Look(context.Context, string, string, string, access.Sources, any) error { return nil }

func (s *slow) Call(ctx context.Context, _, _ string, _ url.Values, _ any) (any, error) {
	return nil, s.wait(ctx)
}

func (s *slow) Authenticate(context.Context, string) (access.Key, error) { return access.Key{}, nil }

// Reading is to be quick; an action has almost the minute for which clients wait. The error of a call that takes too
// long says what to do about it: a cleanup cannot be asked for less.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	store := &slow{}
	s, err := New(Config{API: store, Access: store, Actions: store, AllowWrites: true, Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.WithActor(t.Context(), access.Actor{Name: "a", KeyID: "k", Scopes: []access.Scope{access.Admin}, Sources: access.AllSources()})
	for action, want := range map[relay.Action]string{
		actionDLQStats:             "longer than 50s; try again",
		relay.ActionProcessPending: "longer than 50s; call again with a smaller limit",
		relay.ActionProcessRetries: "longer than 50s; call again with a smaller limit",
		relay.ActionCleanup:        "postrider outbox cleanup, which takes as long as it needs",
	} {
		tool := call(s, "outbox_sync", s.cfg.ActionTimeout, hintOf, s.sync)
		_, _, err := tool(ctx, nil, syncInput{Action: action})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ask for less") || !strings.HasPrefix(err.Error(), "UNAVAILABLE") {
			t.Errorf("%s: %v", action, err)
		}
		if store.given < 30*time.Second || store.given > DefaultActionTimeout {
			t.Errorf("%s has %v", action, store.given)
		}
	}
	read := call(s, "dlq_list", s.cfg.Timeout, askLess[listInput], func(ctx context.Context, _ listInput) (_ *sdk.CallToolResult, _ any, err error) {
		_, err = s.ask(ctx, "/dlq", nil)
		return nil, nil, err
	})
	if _, _, err := read(ctx, nil, listInput{}); err == nil || !strings.Contains(err.Error(), "longer than 3s; ask for less, or try again") || store.given > 3*time.Second {
		t.Errorf("reading: %v, with %v", err, store.given)
	}
	// A server whose requests may take longer gives actions as long.
	if s, err = New(Config{API: store, Access: store, Actions: store, Timeout: time.Minute}); err != nil || s.cfg.ActionTimeout != time.Minute {
		t.Errorf("%v, %v", s.cfg.ActionTimeout, err)
	}
}
