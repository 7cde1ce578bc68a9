package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledgertest"
)

// digest sums up the rows of the database, without the rows and values that reading changes, too.
func (r *rig) digest() string {
	r.t.Helper()
	tables := value[[]string](r, `select array_agg(c.relname order by c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'postrider' and c.relkind = 'r' and c.relname <> 'access_answer'`)
	if len(tables) < 20 {
		r.t.Fatalf("only %d tables", len(tables))
	}
	var sums []string
	for _, table := range tables {
		row := "t::text"
		if table == "access_key" {
			row = "(to_jsonb(t) - 'last_used_at')::text"
		}
		sums = append(sums, table+" "+value[string](r, fmt.Sprintf(`select coalesce(md5(string_agg(%s, '|' order by %[1]s)), '') from postrider.%s t`, row, table)))
	}
	return strings.Join(sums, "\n")
}

// changing is a request that works, for each operation that changes something or shows a payload.
func (r *rig) changing() map[string][3]string {
	r.t.Helper()
	r.furnish()
	entry, purged := r.die(1), r.die(2)
	group := r.ask("GET", "/dlq/"+entry, "").text("group_uuid")
	merged := r.pointing("9")
	r.ask("POST", "/groups/"+r.ask("GET", "/dlq/"+merged, "").text("group_uuid")+"/merge", fmt.Sprintf(`{"into": %q}`, group)).is(200)
	another := value[string](r, `insert into postrider.dlq_group (fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at) values ('1:x', 1, '{}', 'x', now(), now()) returning dlq_group_uuid::text`)
	n := 100
	operation := func(steps ...string) string {
		n++
		id := r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "n%d", "scope": {"ids": [%q]}}`, n, r.die(n))).is(201).text("operation_uuid")
		for _, s := range steps {
			r.ask("POST", "/operations/"+id+"/"+s, "").is(200)
		}
		return "/operations/" + id
	}
	_, event, _ := r.halted(3)
	_, _, hold := r.halted(4)
	halts, _, _ := r.halted(5)
	task, failed := r.task(""), r.task("error")
	r.delivered()
	waits := r.pending()
	key := r.ask("POST", "/keys", `{"name": "x", "scopes": ["read"]}`).is(201).text("id")
	hourAgo := time.Now().Add(-30 * time.Minute).Format(time.RFC3339)
	r.anHourAgo()
	gone := r.archived() // archives all that may be
	flagged, stale, ended := r.task(""), r.task(""), r.task("complete")
	r.exec(`update postrider.tasker_tasks set stale_flagged_at = now(), stale_rule = 'x' where task_uuid = $1`, flagged)
	ledgertest.Age(r.t, r.pool, uuid.MustParse(stale), 25*time.Hour)
	ledgertest.Age(r.t, r.pool, uuid.MustParse(ended), 40*24*time.Hour)
	r.ask("POST", "/detector/pause", "").is(200)
	r.ask("POST", "/archive/pause", "").is(200)
	r.exec(`insert into postrider.dlq_source (source, stopped, stopped_at) values ('orders', null, null), ('billing', 'rewound', now()) on conflict do nothing`)
	return map[string][3]string{
		"rejoinSource":       {"POST", "/sources/billing/rejoin", ""},
		"forgetSource":       {"POST", "/sources/orders/forget", ""},
		"unflagTask":         {"POST", "/tasks/" + flagged + "/unflag", ""},
		"pauseDetector":      {"POST", "/detector/pause", ""},
		"resumeDetector":     {"POST", "/detector/resume", ""},
		"pauseArchiver":      {"POST", "/archive/pause", ""},
		"resumeArchiver":     {"POST", "/archive/resume", ""},
		"runDetector":        {"POST", "/detector/run", `{"dry_run": false}`},
		"runArchive":         {"POST", "/archive/run", `{"dry_run": false}`},
		"requeue":            {"POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, entry)},
		"releaseKeys":        {"POST", "/dlq/release", fmt.Sprintf(`{"ids": [%q]}`, halts)},
		"purgeEntries":       {"POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, purged)},
		"fetchOriginal":      {"POST", "/dlq/" + r.pointing("8") + "/fetch", ""},
		"changeEntry":        {"PATCH", "/dlq/" + entry, `{"notes": "x"}`},
		"revealLetter":       {"GET", "/dlq/" + entry + "/payload", ""},
		"addEntryComment":    {"POST", "/dlq/" + entry + "/comments", `{"text": "x"}`},
		"deleteEntryComment": {"DELETE", "/dlq/" + entry + "/comments/" + r.comment("/dlq/"+entry), ""},
		"addGroupComment":    {"POST", "/groups/" + group + "/comments", `{"text": "x"}`},
		"deleteGroupComment": {"DELETE", "/groups/" + group + "/comments/" + r.comment("/groups/"+group), ""},
		"changeGroup":        {"PATCH", "/groups/" + group, `{"note": "x"}`},
		"resolveGroup":       {"POST", "/groups/" + group + "/resolve", ""},
		"mergeGroup":         {"POST", "/groups/" + another + "/merge", fmt.Sprintf(`{"into": %q}`, group)},
		"splitGroup":         {"POST", "/groups/" + group + "/split", fmt.Sprintf(`{"ids": [%q]}`, merged)},
		"planOperation":      {"POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "n", "scope": {"ids": [%q]}}`, entry)},
		"startOperation":     {"POST", operation() + "/start", ""},
		"pauseOperation":     {"POST", operation("start") + "/pause", ""},
		"resumeOperation":    {"POST", operation("start", "pause") + "/resume", ""},
		"abortOperation":     {"POST", operation("start") + "/abort", ""},
		"createTask":         {"POST", "/tasks", `{"namespace_name": "default", "task_name": "task"}`},
		"actOnStep":          {"PATCH", "/tasks/" + task + "/workflow_steps/" + r.steps(task)["a"], `{"action": "complete_manually"}`},
		"retryTask":          {"POST", "/tasks/" + failed + "/retry", ""},
		"retryTasks":         {"POST", "/tasks/retry", fmt.Sprintf(`{"ids": [%q]}`, r.task("error"))},
		"cancelTask":         {"POST", "/tasks/" + task + "/cancel", ""},
		"deadLetterTask":     {"POST", "/tasks/" + task + "/dlq", `{"reason": "x"}`},
		"applyTemplate":      {"POST", "/templates", `{"name": "t", "namespace_name": "n", "version": "1.0.0", "steps": [{"name": "a", "handler": "h"}]}`},
		"purgeDelivered":     {"POST", "/outbox/purge", `{"older_than": "` + hourAgo + `"}`},
		"revealTask":         {"GET", "/tasks/" + task + "/payload", ""},
		"revealArchivedTask": {"GET", "/archive/tasks/" + gone + "/payload", ""},
		"revealEvent":        {"GET", "/outbox/" + waits + "/payload", ""},
		"skipEvent":          {"POST", "/outbox/" + waits + "/skip", `{"reason": "x"}`},
		"redriveEvent":       {"POST", "/outbox/" + event + "/redrive", ""},
		"releaseHold":        {"POST", "/holds/" + hold + "/release", ""},
		"giveUpHold":         {"POST", "/holds/" + r.breaker("TEST") + "/give-up", ""},
		"createKey":          {"POST", "/keys", `{"name": "y", "scopes": ["read"]}`},
		"revokeKey":          {"DELETE", "/keys/" + key, ""},
	}
}

// comment is the number of a new comment on a subject.
func (r *rig) comment(subject string) string {
	r.t.Helper()
	return fmt.Sprint(r.ask("POST", subject+"/comments", `{"text": "to delete"}`).is(201).at("comment_id"))
}

// Where the audit log cannot be written, nothing is changed and nothing guarded is shown; where it can, each change
// is in it, with who made it, the request, and the source.
func TestNoChangeWithoutAudit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	requests := r.changing()
	for _, o := range r.spec.operations {
		if _, has := requests[o.id]; !has && (o.method != http.MethodGet || strings.HasSuffix(o.path, "/payload")) {
			t.Errorf("%s changes something, and is not tried here", o.id)
		}
	}
	r.exec(`revoke insert on postrider.access_audit from postrider_relay`)
	before := r.digest()
	for name, q := range requests {
		got := r.ask(q[0], q[1], q[2])
		if got.Status != http.StatusInternalServerError || strings.Contains(got.Raw, "permission denied") {
			t.Errorf("%s without the audit log: %s", name, got.Raw)
		}
		if after := r.digest(); after != before {
			t.Errorf("%s changed something without the audit log:\n%s", name, difference(before, after))
			before = after
		}
	}
	r.exec(`grant insert on postrider.access_audit to postrider_relay`)
	// In an order in which each still finds what it needs.
	last := []string{"changeEntry", "revealLetter", "planOperation", "requeue", "changeGroup", "resolveGroup", "actOnStep", "cancelTask"}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(requests)), func(n string) bool {
		return slices.Contains(last, n) || n == "purgeEntries" || n == "revealEvent" || n == "unflagTask"
	})
	names = append(append([]string{"purgeEntries", "revealEvent", "unflagTask"}, names...), last...)
	for _, name := range names {
		q := requests[name]
		if name == "deadLetterTask" { // it must be live, and acting on it comes later
			q[1] = "/tasks/" + r.task("") + "/dlq"
		}
		once := ""
		if q[0] != http.MethodGet && name != "createKey" {
			once = name
		}
		got := r.ask(q[0], q[1], q[2], "X-Request-Id", "audited-"+name, "Idempotency-Key", once)
		if got.Status >= 300 {
			t.Errorf("%s: %s", name, got.Raw)
			continue
		}
		if n := value[int](r, `select count(*) from postrider.access_audit where request_id = $1 and actor = 'key admin' and key_id is not null
				and sources = case target_type when 'key' then array['*'] when 'source' then array[target_id] else array['main'] end`, "audited-"+name); n != 1 {
			t.Errorf("%s: %d rows in the audit log", name, n)
		}
		// The same transaction notes it under the key, so that a lost answer is not made up for by doing it twice.
		if n := value[int](r, `select count(*) from postrider.access_answer a join postrider.access_audit l
				on l.request_id = a.changed_request_id and l.action = a.changed_action and coalesce(l.target_id, '') = a.changed_target_id
			where a.idempotency_key = $1 and a.status = $2`, once, got.Status); once != "" && name != "fetchOriginal" && n != 1 {
			t.Errorf("%s: %d rows of the audit log are noted under its key", name, n)
		}
	}
}

func difference(a, b string) string {
	var out []string
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range as {
		if i < len(bs) && as[i] != bs[i] {
			out = append(out, as[i]+" became "+bs[i])
		}
	}
	return strings.Join(out, "\n")
}
