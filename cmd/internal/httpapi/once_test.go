package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

const oneTask = `{"namespace_name": "default", "task_name": "task", "context": {"order": 1}}`

// TestAnAnswerLostBehindItsCommit: the connection to the database is cut after the commit and before the server knows
// of it. A request that is repeated under the same Idempotency-Key is not carried out again.
func TestAnAnswerLostBehindItsCommit(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	r := newRigBehind(t, map[string]string{"dlq.purge_limit": "2"}, func(url string) string {
		proxy = pgproxy.Start(t, url)
		return proxy.URL()
	})
	r.furnish()
	for n := range 5 {
		r.die(n + 1)
	}
	r.delivered()
	r.delivered()
	group := value[string](r, `select min(dlq_group_uuid::text) from postrider.dlq_entry`)
	failed := r.task("error")
	for n, c := range []struct {
		method, path, body string
		query              string // of the transaction that is cut
		count              string // what a second one would change
		recalled           bool   // the answer is made anew
	}{
		{"POST", "/tasks", oneTask, "create_task", `select count(*) from postrider.tasker_tasks`, true},
		{"POST", "/dlq/purge", `{"older_than": "2099-01-01"}`, "dlq_purge_entries", `select count(*) from postrider.dlq_entry`, false},
		{"POST", "/outbox/purge", `{"older_than": "` + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339) + `", "limit": 6}`, "outbox_purge_events",
			`select count(*) from postrider.v_outbox_event where state = 'published'`, false},
		{"POST", "/groups/" + group + "/resolve", `{}`, "access_audit", `select count(*) from postrider.dlq_entry where resolution_status = 'pending'`, false},
		{"POST", "/tasks/" + failed + "/retry", "", "task", `select count(*) from postrider.v_outbox_event where state = 'pending'`, false},
	} {
		key := []string{"Idempotency-Key", fmt.Sprintf("cut %d", n)}
		before := value[int](r, c.count)
		cuts := proxy.Cuts()
		proxy.CutAfterCommit(1, func(queries []string) bool {
			audited := pgproxy.Containing("insert into postrider.access_audit")(queries)
			return audited && pgproxy.Containing(c.query)(queries)
		})
		if first := r.ask(c.method, c.path, c.body, key...); first.Status < 500 || proxy.Cuts() != cuts+1 {
			t.Fatalf("%s %s: %d cuts, %s", c.method, c.path, proxy.Cuts()-cuts, first.Raw)
		}
		changed := value[int](r, c.count)
		if changed == before {
			t.Fatalf("%s %s changed nothing", c.method, c.path)
		}
		for again := range 2 {
			got := r.ask(c.method, c.path, c.body, key...)
			if !c.recalled {
				got.is(409).says("was carried out", "request id")
				continue
			}
			got.is(201)
			if replayed := got.Header.Get("Idempotency-Replayed") == "true"; replayed != (again == 1) || got.text("namespace_name") != "default" {
				t.Errorf("%s %s, again %d: %+v", c.method, c.path, again, got)
			}
		}
		if now := value[int](r, c.count); now != changed {
			t.Errorf("%s %s was done again: %d, then %d, then %d", c.method, c.path, before, changed, now)
		}
	}
}

// TestErrorsThatChangedNothingMayBeAskedAgain: at once, and under the same Idempotency-Key.
func TestErrorsThatChangedNothingMayBeAskedAgain(t *testing.T) {
	t.Parallel()
	var proxy *pgproxy.Proxy
	r := newRigBehind(t, nil, func(url string) string {
		proxy = pgproxy.Start(t, url)
		return proxy.URL()
	})
	r.furnish()
	proxy.CutBeforeCommit(1, pgproxy.Containing("create_task"))
	if first := r.ask("POST", "/tasks", oneTask, "Idempotency-Key", "k"); first.Status < 500 || proxy.Cuts() != 1 {
		t.Fatalf("%d cuts, %s", proxy.Cuts(), first.Raw)
	}
	r.ask("POST", "/tasks", oneTask, "Idempotency-Key", "k").is(201)
	if n := value[int](r, `select count(*) from postrider.tasker_tasks`); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

// TestWhoGoesAwayIsServed: a change is carried out to its end also when the client does not wait any more, and the
// answer is kept.
func TestWhoGoesAwayIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	lock, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := lock.Exec(t.Context(), `lock table postrider.tasker_tasks in exclusive mode`); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "POST", r.URL+"/v1/tasks", strings.NewReader(oneTask))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-API-Key": r.keys[access.Admin], "Content-Type": "application/json", "Idempotency-Key": "k"} {
		req.Header.Set(name, value)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	const waits = `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`
	for !value[bool](r, waits) {
	}
	leave()
	if err := <-gone; err == nil {
		t.Fatal("it was answered")
	}
	r.ask("POST", "/tasks", oneTask, "Idempotency-Key", "k").is(409).says("in work")
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := r.ask("POST", "/tasks", oneTask, "Idempotency-Key", "k")
	for got.Status == 409 {
		got = r.ask("POST", "/tasks", oneTask, "Idempotency-Key", "k")
	}
	got.is(201)
	if n := value[int](r, `select count(*) from postrider.tasker_tasks`); n != 1 {
		t.Errorf("%d tasks", n)
	}
}
