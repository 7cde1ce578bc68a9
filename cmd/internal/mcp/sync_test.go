package mcp_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// offer is the answer to a call without confirm.
type offer struct {
	Preview struct {
		Action      string
		AtMost      int                  `json:"at_most"`
		Outbox      map[string]int64     `json:"outbox"`
		WouldRemove *relay.CleanupResult `json:"would_remove"`
	}
	Confirm   string
	ExpiresAt time.Time `json:"expires_at"`
	Next      string
}

func (a agent) preview(action string, pairs ...any) offer {
	a.t.Helper()
	result, _ := a.ask("outbox_sync", args(append(pairs, "action", action)...))
	return structured[offer](a.t, result)
}

func (r *rig) states() string {
	r.t.Helper()
	return value[string](r, `select coalesce(string_agg(state || ':' || n, ' ' order by state), '') from (select state::text, count(*) as n from postrider.v_outbox_event group by 1) s`)
}

// Each action is previewed, changes nothing before it is confirmed, does what it said, and is in the audit log.
func TestActions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into postrider.outbox_event (topic, key, payload) select $1, 'k', 'v' from generate_series(1, 10)`, r.topic)
	r.exec(`insert into postrider.outbox_event (topic, key, payload, headers) values ($1, 'bad', 'v', '{"a": 1}')`, r.topic)
	r.exec(`insert into postrider.outbox_event (topic, payload, available_at) values ($1, 'later', now() + interval '1 hour')`, r.topic)
	const before = "pending:11 scheduled:1"
	outboxtest.SettleAll(t, r.pool, outboxtest.Scheduled, `select id from postrider.outbox_event where payload = 'later'`)
	r.exec(`update postrider.outbox_exception set next_attempt_at = now() + interval '1 hour', attempts = 0`)
	endpoint := r.serve(nil)
	sender, cleaner := r.agent(endpoint, access.Redrive), r.agent(endpoint, access.Purge)

	// At most 3 are shown, and at most 3 are sent, whatever there is.
	p := sender.preview("processPending", "limit", 3)
	if p.Preview.Action != "processPending" || p.Preview.AtMost != 3 || p.Preview.Outbox["due"] != 11 || p.Confirm == "" {
		t.Errorf("preview %+v", p)
	}
	if left := time.Until(p.ExpiresAt); left < time.Minute || left > 2*time.Minute {
		t.Errorf("it expires in %v", left)
	}
	if now := r.states(); now != before {
		t.Errorf("after a preview: %s", now)
	}
	result, _ := sender.ask("outbox_sync", args("action", "processPending", "limit", 3, "confirm", p.Confirm))
	first := structured[relay.ActionResult](t, result)
	if first.Action != relay.ActionProcessPending || first.Processed != 3 {
		t.Errorf("processPending: %+v", first)
	}
	p = sender.preview("processPending")
	if p.Preview.AtMost != 1000 || p.Preview.Outbox["due"] != 8 {
		t.Errorf("preview %+v", p)
	}
	result, _ = sender.ask("a2a_outbox_sync", args("action", "processPending", "confirm", p.Confirm))
	if got := structured[map[string]any](t, result); got["processed"] != 8.0 || got["dead_lettered"].(float64)+float64(first.DeadLettered) != 1 || got["duration_ms"] == nil {
		t.Errorf("processPending: %+v", got)
	}
	if n := len(r.broker.ReadAll(t, r.topic, 10)); n != 10 {
		t.Errorf("the topic has %d records, want 10", n)
	}
	if p = sender.preview("processPending"); p.Confirm != "" || p.Next != "There is nothing to do, and so nothing to confirm." {
		t.Errorf("with nothing to do: %+v", p)
	}

	if p = sender.preview("processRetries", "limit", nil, "confirm", nil); p.Preview.AtMost != 1000 {
		t.Errorf("with arguments that are null: %+v", p)
	}
	p = sender.preview("processRetries", "limit", 5)
	if p.Preview.Outbox["scheduled"] != 1 {
		t.Errorf("preview %+v", p)
	}
	r.exec(`update postrider.outbox_exception set next_attempt_at = now() where state = 'scheduled'`)
	result, _ = sender.ask("outbox_sync", args("action", "processRetries", "limit", 5, "confirm", p.Confirm))
	if got := structured[relay.ActionResult](t, result); got.Returned != 1 || got.Succeeded != 1 {
		t.Errorf("processRetries: %+v", got)
	}

	if p = cleaner.preview("cleanup"); p.Confirm != "" || p.Preview.WouldRemove == nil {
		t.Errorf("with nothing to remove: %+v", p)
	}
	age := func(n int) {
		t.Helper()
		// A receipt of each event; the receipts of the first n events are old.
		r.exec(`delete from postrider.outbox_receipt where number > 0`)
		r.exec(`insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, at)
			select e.place, 1, e.id, e.id, int8multirange(int8range(e.id, e.id, '[]')), '{}', case when e.place <= $1 then now() - interval '31 days' else now() end
			from (select e.id, row_number() over (order by e.id) as place from postrider.outbox_event e) e`, n)
	}
	age(2)
	p = cleaner.preview("cleanup")
	if p.Preview.WouldRemove == nil || p.Preview.WouldRemove.Published != 2 || !p.Preview.WouldRemove.DryRun || p.Confirm == "" {
		t.Fatalf("preview %+v", p)
	}
	// By now more would go than was shown: it is shown again, and nothing is done.
	age(5)
	result, _ = cleaner.ask("outbox_sync", args("action", "cleanup", "confirm", p.Confirm))
	again := structured[offer](t, result)
	if again.Preview.WouldRemove == nil || again.Preview.WouldRemove.Published != 5 || again.Confirm == "" || again.Confirm == p.Confirm {
		t.Fatalf("more than was shown: %+v", again)
	}
	if n := value[int](r, `select count(*) from postrider.v_outbox_event where state = 'published'`); n != 11 {
		t.Errorf("%d are left, want 11", n)
	}
	result, _ = cleaner.ask("outbox_sync", args("action", "cleanup", "confirm", again.Confirm))
	if got := structured[relay.CleanupResult](t, result); got.DryRun || got.Published != 5 {
		t.Errorf("cleanup: %+v", got)
	}
	if n := value[int](r, `select count(*) from postrider.v_outbox_event where state = 'published'`); n != 6 {
		t.Errorf("%d are left, want 6", n)
	}

	// Every action that was done has two rows, with key and request; a preview has none.
	want := ""
	for _, row := range [][2]string{{"processPending", "redrive"}, {"processPending", "redrive"}, {"processRetries", "redrive"}, {"cleanup", "purge"}} {
		for _, stage := range []string{"begun", "ended"} {
			want += fmt.Sprintf("outbox.%s %s agent %s %s t mcp\n", row[0], stage, row[1], r.ids[access.Scope(row[1])])
		}
	}
	got := value[string](r, `select string_agg(concat_ws(' ', action, details->>'stage', actor, key_id, request_id <> '', details->>'via') || E'\n', '' order by access_audit_id)
		from postrider.access_audit where action like 'outbox.%'`)
	if got != want {
		t.Errorf("the audit log has\n%swant\n%s", got, want)
	}
	if n := value[int](r, `select (details->'result'->>'published')::int from postrider.access_audit where action = 'outbox.cleanup' and details->>'stage' = 'ended'`); n != 5 {
		t.Errorf("the audit log says that %d were removed", n)
	}
}

// What changes something needs the scope and the switch, also for its preview.
func TestWritesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'v')`, r.topic)
	endpoint := r.serve(nil)
	needs := map[string]access.Scope{"processPending": access.Redrive, "processRetries": access.Redrive, "cleanup": access.Purge}
	for action, scope := range needs {
		for _, other := range access.Scopes() {
			if other == scope || other == access.Admin {
				continue
			}
			a := r.agent(endpoint, other)
			a.refused("outbox_sync", args("action", action), "FORBIDDEN", "needs the scope "+string(scope))
			a.refused("outbox_sync", args("action", action, "confirm", "X"), "FORBIDDEN", "needs the scope "+string(scope))
		}
	}
	locked := r.agent(r.serve(map[string]string{"mcp.allow_writes": "false"}), access.Admin)
	for action := range needs {
		locked.refused("outbox_sync", args("action", action), "FORBIDDEN", "--allow-writes")
		locked.refused("a2a_outbox_sync", args("action", action, "confirm", "X"), "FORBIDDEN", "--allow-writes")
	}
	locked.ask("outbox_sync", args("action", "dlqStats"))
	if now := r.states(); now != "pending:1" {
		t.Errorf("the outbox has %s", now)
	}
}

// A confirmation is good once, for who was shown the preview, and for the same arguments.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into postrider.outbox_event (topic, payload) select $1, 'v' from generate_series(1, 5)`, r.topic)
	endpoint := r.serve(nil)
	sender, admin := r.agent(endpoint, access.Redrive), r.agent(endpoint, access.Admin)
	confirm := func(token string, pairs ...any) map[string]any {
		return args(append(pairs, "action", "processPending", "confirm", token)...)
	}
	sender.refused("outbox_sync", confirm("NOTATOKEN"), "CONFLICT", "not known")
	token := sender.preview("processPending", "limit", 2).Confirm
	admin.refused("outbox_sync", confirm(token, "limit", 2), "CONFLICT", "not known")
	sender.refused("outbox_sync", confirm(token, "limit", 5), "CONFLICT", "limit 2")
	if now := r.states(); now != "pending:5" {
		t.Errorf("after refusals: %s", now)
	}
	sender.ask("outbox_sync", confirm(token, "limit", 2)) // the attempt before did not use it up
	sender.refused("outbox_sync", confirm(token, "limit", 2), "CONFLICT", "not known")
	if now := r.states(); now != "pending:3 published:2" {
		t.Errorf("after one confirmation: %s", now)
	}
	// It ends with the right to do it.
	token = sender.preview("processPending").Confirm
	if _, err := r.access.Revoke(access.WithActor(t.Context(), access.Actor{Name: "test"}), r.ids[access.Redrive]); err != nil {
		t.Fatal(err)
	}
	if _, err := sender.CallTool(t.Context(), &sdk.CallToolParams{Name: "outbox_sync", Arguments: confirm(token)}); err == nil {
		t.Error("a revoked key is taken")
	}
}

// An action that fails midway says so, and how far it came; the audit log has it, too.
func TestActionFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(`insert into postrider.outbox_event (topic, payload) values ($1, 'v')`, r.topic)
	for want, flags := range map[string]map[string]string{
		"no broker answers": {"kafka.brokers": "127.0.0.1:1"},
	} {
		a := r.agent(r.serve(flags), access.Redrive)
		token := a.preview("processPending").Confirm
		a.refused("outbox_sync", args("action", "processPending", "confirm", token), "UNAVAILABLE", want, "What was done before", `"processed":0`)
	}
	if !value[bool](r, `select (details->>'failed')::boolean from postrider.access_audit where action = 'outbox.processPending' and details->>'stage' = 'ended'`) {
		t.Error("the audit log does not say that it failed")
	}
	if now := r.states(); now != "pending:1" {
		t.Errorf("the outbox has %s", now)
	}
}

// An action of an agent has a span and a line in the log, like an action of a command.
func TestActionsReport(t *testing.T) {
	t.Parallel()
	r := newRig(t, letters(3)...)
	r.exec(`insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', 'v')`, r.topic)
	spans := tracetest.NewSpanRecorder()
	var log logtest.Buffer
	endpoint := r.serveAs(app.Options{Config: r.config(map[string]string{"outbox.log": "true"}), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	r.agent(endpoint, access.Read).ask("outbox_sync", args("action", "dlqStats"))
	sender := r.agent(endpoint, access.Redrive)
	for _, action := range []string{"processPending", "processRetries"} {
		if action == "processRetries" {
			r.exec(`insert into postrider.outbox_event (topic, payload, available_at) values ($1, 'later', now() + interval '1 hour')`, r.topic)
			outboxtest.SettleAll(t, r.pool, outboxtest.Scheduled, `select id from postrider.outbox_event where payload = 'later'`)
		}
		sender.ask("outbox_sync", args("action", action, "confirm", sender.preview(action).Confirm))
	}
	r.agent(endpoint, access.Purge).preview("cleanup")
	for action, says := range map[string]string{"dlqStats": "size=3", "processPending": "processed=1 succeeded=1", "processRetries": "returned=1", "cleanup": "dry_run=true"} {
		name, line := "outbox."+action, "component=relay action="+action+" "
		n := 0
		for _, s := range spans.Ended() {
			if s.Name() == name {
				n++
			}
		}
		if lines := strings.Count(log.String(), line); n != 1 || lines != 1 {
			t.Errorf("%s: %d spans, %d lines in %s", action, n, lines, log.String())
		}
		_, after, _ := strings.Cut(log.String(), line)
		if did, _, _ := strings.Cut(after, "\n"); !strings.Contains(did, says) || !strings.Contains(did, "duration_ms=") {
			t.Errorf("the line of %s says %s", action, did)
		}
	}
}
