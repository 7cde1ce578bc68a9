package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// actionDLQStats is the action of outbox_sync that only counts.
const actionDLQStats = relay.ActionDLQStats

// defaultLimit and maxLimit bound how many events one call works on, maxLimit also how many rows one cleanup removes.
const (
	defaultLimit = 1000
	maxLimit     = 100_000
)

// writeCost is what a call counts that changes something, as requests of the API do.
const writeCost = 25

// scopes are what a key needs for an action.
var scopes = map[relay.Action]access.Scope{
	actionDLQStats:             access.Read,
	relay.ActionProcessPending: access.Redrive,
	relay.ActionProcessRetries: access.Redrive,
	relay.ActionCleanup:        access.Purge,
}

type syncInput struct {
	Action  relay.Action `json:"action"`
	Limit   int          `json:"limit"`
	Confirm string       `json:"confirm"`
}

// syncSchema are the arguments of outbox_sync, JSON Schema 2020-12.
var syncSchema = json.RawMessage(fmt.Sprintf(`{
  "type": "object",
  "properties": {
    "action": {"type": "string", "enum": ["processPending", "processRetries", "cleanup", "dlqStats"], "description": "what to do"},
    "limit": {"type": "integer", "minimum": 1, "maximum": %d, "description": "of processPending and processRetries: how many events to work on at most; default %d"},
    "confirm": {"type": "string", "maxLength": 64, "description": "the confirm of the preview that is meant, together with the same action and limit"}
  },
  "required": ["action"],
  "additionalProperties": false
}`, maxLimit, defaultLimit))

var syncDescription = fmt.Sprintf(`Works on the outbox, or counts its dead letters. action is one of:
dlqStats: open investigations as {size, oldestAgeMs, byErrorCode, recentSampleIds}; changes nothing, needs the scope read.
processPending: publish events that are pending, at most limit, and send dead letters that are due; needs redrive.
processRetries: bring back failed and delayed events whose time has come, and publish them, at most limit; needs redrive.
cleanup: remove what retention allows to go, by status, about %d rows at most: more says that there may be further ones, for another call; needs purge. It cannot be undone.
All but dlqStats answer first with a preview, a confirm and when that expires, and do nothing; they act when called again with the same arguments and that confirm, once. The server must allow writes.`, maxLimit)

// addSync registers outbox_sync under both of its names.
func (s *Server) addSync() {
	for _, name := range []string{"outbox_sync", "a2a_outbox_sync"} {
		description := syncDescription
		if name != "outbox_sync" {
			description = "The same as outbox_sync. " + description
		}
		destructive, no := true, false
		sdk.AddTool(s.sdk, &sdk.Tool{
			Name: name, Title: "Outbox actions", Description: description, InputSchema: syncSchema, OutputSchema: syncAnswer(),
			Annotations: &sdk.ToolAnnotations{Title: "Outbox actions", DestructiveHint: &destructive, OpenWorldHint: &no},
		}, call(s, name, s.cfg.ActionTimeout, hintOf, s.sync))
	}
}

// sync does outbox_sync.
func (s *Server) sync(ctx context.Context, in syncInput) (*sdk.CallToolResult, any, error) {
	if err := s.admit(ctx, in); err != nil {
		return nil, nil, err
	}
	if in.Action == actionDLQStats {
		stats, err := s.cfg.Actions.DLQStats(ctx)
		if err != nil {
			return nil, nil, err
		}
		return nil, plainCodes(stats), nil
	}
	q := asked{in.Action, in.Limit}
	if q.limit == 0 && q.action != relay.ActionCleanup {
		q.limit = defaultLimit
	}
	if in.Confirm != "" {
		return s.confirm(ctx, q, in.Confirm)
	}
	shown, idle, err := s.preview(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return nil, s.offer(ctx, q, shown, idle), nil
}

// admit checks scope, switch, rate and what the schema cannot say.
func (s *Server) admit(ctx context.Context, in syncInput) error {
	actor, scope := access.ActorOf(ctx), scopes[in.Action]
	if scope == "" {
		return refuse(httpapi.Validation, "there is no such action; there are processPending, processRetries, cleanup and dlqStats")
	}
	cost := 1
	if in.Action != actionDLQStats {
		cost = writeCost
	}
	if err := s.take(ctx, cost); err != nil {
		return err
	}
	if !actor.May(scope) {
		return refuse(httpapi.Forbidden, "%s needs the scope %s, which the key %q does not have", in.Action, scope, actor.Name)
	}
	if in.Action != actionDLQStats {
		if err := httpapi.OwnDatabase.RefuseSources(actor.Sources, actor.Name); err != nil {
			return err
		}
	}
	switch {
	case in.Action == actionDLQStats && (in.Limit != 0 || in.Confirm != ""):
		return refuse(httpapi.Validation, "dlqStats takes neither limit nor confirm")
	case in.Action == relay.ActionCleanup && in.Limit != 0:
		return refuse(httpapi.Validation, "cleanup takes no limit")
	case in.Action != actionDLQStats && !s.cfg.AllowWrites:
		return refuse(httpapi.Forbidden, "this server only reads; its operator may start it with --allow-writes")
	}
	return nil
}

// noteLimit is how long the row of the audit log behind an action may take.
const noteLimit = 10 * time.Second

// offered is the answer of a call without confirm.
type offered struct {
	Preview preview `json:"preview"`
	// Confirm does it; absent where there is nothing to do.
	Confirm   string     `json:"confirm,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Next      string     `json:"next"`
}

// offer keeps a preview and says how to confirm it.
func (s *Server) offer(ctx context.Context, q asked, shown preview, idle bool) offered {
	if idle {
		return offered{Preview: shown, Next: "There is nothing to do, and so nothing to confirm."}
	}
	token, expires := s.previews.add(access.ActorOf(ctx), q, shown)
	expires = expires.UTC()
	return offered{shown, token, &expires, "Nothing was done. To do it call again with the same action and limit, and this confirm; it works once."}
}

// preview looks at what an action would do. idle says that it would do nothing.
func (s *Server) preview(ctx context.Context, q asked) (p preview, idle bool, err error) {
	p.Action = q.action
	if q.action == relay.ActionCleanup {
		r, err := s.cfg.Actions.Cleanup(ctx, relay.CleanupOptions{DryRun: true, MaxRows: maxLimit})
		p.Cleanup = &r
		return p, r.Published+r.DeadLettered+r.IdempotencyKeys == 0, err
	}
	st, err := s.cfg.Actions.Status(ctx)
	if err != nil {
		return p, false, err
	}
	p.AtMost = &q.limit
	p.Outbox = &outboxNumbers{st.Pending, st.Due, st.Processing, st.Failed, st.Scheduled, st.Parked, st.Exhausted, st.HoldCount}
	if q.action == relay.ActionProcessPending {
		return p, st.Due+st.Exhausted == 0, nil
	}
	return p, st.Scheduled+st.Parked+st.Exhausted+st.HoldCount == 0, nil
}

// confirm does what a preview showed.
func (s *Server) confirm(ctx context.Context, q asked, token string) (*sdk.CallToolResult, any, error) {
	shown, err := s.previews.take(access.ActorOf(ctx), q, token)
	if err != nil {
		return nil, nil, err
	}
	if q.action == relay.ActionCleanup {
		now, idle, err := s.preview(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		if !shown.covers(now) {
			again := s.offer(ctx, q, now, idle)
			again.Next = "Nothing was done: by now more would be removed than the preview showed. " + again.Next
			return nil, again, nil
		}
	}
	if err := s.note(ctx, q, map[string]any{"stage": "begun", "via": "mcp", "preview": shown}); err != nil {
		return nil, nil, err
	}
	done, err := s.act(ctx, q)
	details := map[string]any{"stage": "ended", "via": "mcp", "result": done}
	if err != nil {
		details["failed"] = true
	}
	// That it began is noted; that it ended must not hide what it did.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if noteErr := s.note(ending, q, details); noteErr != nil {
		s.log.Error("the end of an action is not in the audit log", "action", q.action, "request_id", access.ActorOf(ctx).RequestID, "err", noteErr)
	}
	if err != nil {
		return failed(done, s.tell(err, access.ActorOf(ctx).RequestID, s.cfg.ActionTimeout, hints[q.action]))
	}
	return nil, done, nil
}

// hints say what to do when a preview or an action took too long. Its finished part stays done.
var hints = map[relay.Action]string{
	actionDLQStats:             "try again",
	relay.ActionProcessPending: "call again with a smaller limit",
	relay.ActionProcessRetries: "call again with a smaller limit",
	relay.ActionCleanup:        "call again, or let the server's operator use postrider outbox cleanup, which takes as long as it needs",
}

func hintOf(in syncInput) string { return hints[in.Action] }

// failed is an answer that says what was done before it failed.
func failed(done any, err error) (*sdk.CallToolResult, any, error) {
	text, encodeErr := json.Marshal(done)
	if encodeErr != nil {
		return nil, nil, encodeErr
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{
		&sdk.TextContent{Text: err.Error()},
		&sdk.TextContent{Text: "What was done before: " + string(text)},
	}}, nil, nil
}

// note writes a row of the audit log.
func (s *Server) note(ctx context.Context, q asked, details map[string]any) error {
	return s.cfg.Access.Look(ctx, "outbox."+string(q.action), "outbox", "", access.Sources{dlq.MainSource}, details)
}

// act does an action.
func (s *Server) act(ctx context.Context, q asked) (any, error) {
	switch q.action {
	case relay.ActionProcessPending:
		return s.cfg.Actions.ProcessPending(ctx, relay.ActionOptions{Limit: q.limit})
	case relay.ActionProcessRetries:
		return s.cfg.Actions.ProcessRetries(ctx, relay.ActionOptions{Limit: q.limit})
	default:
		return s.cfg.Actions.Cleanup(ctx, relay.CleanupOptions{MaxRows: maxLimit})
	}
}

// codeWord is what an error code looks like: a word. A text that others wrote in its place is not shown to an agent.
var codeWord = regexp.MustCompile(`^[A-Za-z0-9_.$:/-]{1,100}$`)

// plainCodes counts a code that is no word as dlq.OtherWord, because this answer has no marks around untrusted data.
func plainCodes(s dlq.Summary) dlq.Summary {
	plain := make(map[string]int64, len(s.ByErrorCode))
	for code, n := range s.ByErrorCode {
		if !codeWord.MatchString(code) {
			code = dlq.OtherWord
		}
		plain[code] += n
	}
	s.ByErrorCode = plain
	return s
}
