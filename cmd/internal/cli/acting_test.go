package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// rig is a database with investigations, and the addresses for people with different rights.
type rig struct {
	*testing.T
	db              *pgtest.DB
	owner, operator string
	entries         []string
}

func newRig(t *testing.T, entries int) *rig {
	t.Helper()
	db := pgtest.New(t)
	store, err := app.NewServices(db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &rig{T: t, db: db, owner: db.URL, operator: asRole(t, db, "postrider_operator")}
	for i := range entries {
		d.entries = append(d.entries, record(t, store, int64(i+1), []byte("k"), []byte("payload \x1b[2J")))
	}
	kept(t, db)
	return d
}

// run runs a command as an operator, and demands its exit code and what it says on either stream.
func (d *rig) run(code int, command string, want ...string) string {
	d.Helper()
	return d.runAs(d.operator, code, command, want...)
}

func (d *rig) runAs(url string, code int, command string, want ...string) string {
	d.Helper()
	r := postrider(d.T, []string{"DATABASE_URL=" + url}, strings.Fields(command)...)
	if r.code != code {
		d.Fatalf("%s: exit code %d, want %d: %s%s", command, r.code, code, r.stdout, r.stderr)
	}
	contains(d.T, r.stdout+r.stderr, want...)
	if strings.ContainsAny(r.stdout+r.stderr, "\x1b\u202e") {
		d.Errorf("%s: control characters in %q", command, r.stdout+r.stderr)
	}
	return r.stdout
}

func (d *rig) ask(sql string) string {
	d.Helper()
	return ask(d.T, d.db.Conn(d.T), sql)
}

// TestRequeueByHand: the message goes out once; who asks again is told, and so are scripts.
func TestRequeueByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 3)
	a, b, c := d.entries[0], d.entries[1], d.entries[2]
	d.run(ExitOK, "dlq requeue "+a+" --actor ada", "1 on their way, 0 skipped")
	d.run(ExitPartly, "dlq requeue "+a+" "+b, "1 on their way, 1 skipped", "already_queued", "a redrive of it is on its way")
	view := decode[api.Requeued](t, d.run(ExitPartly, "dlq requeue "+a+" -o json"))
	if len(view.Requeued) != 0 || len(view.Skipped) != 1 || view.Skipped[0].Reason != "already_queued" || view.Skipped[0].Explanation == "" {
		t.Errorf("requeued again: %+v", view)
	}
	if got := d.ask(`select count(*) || ' ' || count(distinct topic) from postrider.outbox_event where headers::text like '%replay_id%'`); got != "2 1" {
		t.Errorf("events and topics: %s", got)
	}
	d.run(ExitFailure, "dlq requeue "+c+" 0192aaaa-0000-7000-8000-000000000000", "0192aaaa-0000-7000-8000-000000000000", "not found", "postrider dlq list")
	d.run(ExitUsage, "dlq requeue "+c+" --payload x --tombstone", "payload and is a tombstone")
	d.run(ExitUsage, "dlq requeue "+c+" --header novalue", "NAME=VALUE")
	d.run(ExitUsage, "dlq requeue "+c+" --target not/a/topic", "target")
	d.run(ExitUsage, "dlq requeue x", `"x" is not the id of an investigation`)
	d.run(ExitUsage, "dlq requeue", "takes ID..., but was given 0 arguments")
	d.run(ExitOK, "dlq requeue "+c+" --payload mended --header h=v --target elsewhere")
	if got := d.ask(`select topic || ' ' || convert_from(payload, 'UTF8') || ' ' || (headers @> '[["h","v"]]')::text from postrider.outbox_event where topic = 'elsewhere'`); got != "elsewhere mended true" {
		t.Errorf("the edited message: %s", got)
	}
	if got := d.ask(`select string_agg(actor || ' ' || action, ', ' order by access_audit_id) from postrider.access_audit`); !strings.HasPrefix(got, "cli:") ||
		!strings.Contains(got, " (ada) dlq.requeue, cli:") || strings.Count(got, "dlq.requeue") != 3 {
		t.Errorf("the audit log: %s", got)
	}
	d.run(ExitOK, "audit list --action dlq.requeue --limit 2", "dlq.requeue", "cli:")
	login := d.ask(`select distinct 'cli:' || session_user_name from postrider.access_audit`)
	d.run(ExitOK, "audit list --by "+login, "(ada)", login)
	d.run(ExitOK, "audit list --by "+login+"x", "Nothing of the kind")
	d.run(ExitOK, "audit list --from 1h --to 2020-01-01T00:00:00Z", "Nothing of the kind")
	d.run(ExitUsage, "audit list --from yesterday", "--from", "30d")
}

// TestResolveAndPurgeByHand: closing says who; purging asks first, and wants an answer.
func TestResolveAndPurgeByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 3)
	a, b, c := d.entries[0], d.entries[1], d.entries[2]
	d.run(ExitOK, "dlq resolve "+a+" --notes mended --actor ada", "manually_resolved", "(ada)", "SINCE", "closed now")
	d.run(ExitFailure, "dlq resolve "+a+" --status cancelled", "investigation "+a+": it is closed already: it is manually_resolved since 20", "by cli:", "(ada), and cannot become cancelled")
	d.run(ExitOK, "dlq resolve "+a, a, "manually_resolved", "(ada)", "was closed already")
	// What was done before the one that fails is shown.
	d.run(ExitFailure, "dlq resolve "+b+" "+a+" --status permanently_failed", b, "permanently_failed", "closed")
	d.run(ExitUsage, "dlq resolve "+c+" --status pending", "--status is")
	if got := decode[api.Entry](t, d.run(ExitOK, "dlq show "+a+" -o json")); *got.ResolutionNotes != "mended" || got.Status != "manually_resolved" {
		t.Errorf("resolved: %+v", got)
	}
	d.run(ExitUsage, "dlq purge "+a, "1 investigation will be removed, with the messages of its dead letters", "not confirmed", "--yes")
	d.run(ExitOK, "dlq purge --older-than 90d", "There is nothing to remove")
	d.run(ExitUsage, "dlq purge --older-than 0s", "3 investigations opened before 20", "will be removed, with the messages", "ids of the dead letters are kept", "audit log", "1 of all these are still pending")
	// A list takes a reason that no group has for a text. A purge does not, and so its question does not.
	d.run(ExitOK, "dlq purge --older-than 0s --reason no", "There is nothing to remove", `has the reason "no"`)
	d.run(ExitUsage, "task list --near-stale --flagged", "give --near-stale or --flagged, not both")
	d.run(ExitUsage, "task list --state zzz", `no machine has the state "zzz"`)
	d.run(ExitUsage, "dlq purge --older-than 0s --limit 2", "The oldest 2 of 3 investigations")
	d.run(ExitUsage, "dlq purge --older-than 0s --status pending", "1 investigation opened before 20")
	d.run(ExitOK, "dlq purge --older-than 1h", "There is nothing to remove")
	d.run(ExitUsage, "dlq purge "+c, "1 investigation will be removed", "1 of these is still pending")
	d.run(ExitUsage, "dlq purge", "give either ids or --older-than AGE")
	d.run(ExitUsage, "dlq purge "+a+" --older-than 1h", "give either ids or --older-than AGE")
	d.run(ExitUsage, "dlq purge "+a+" --topic x", "go with --older-than, not with ids")
	d.run(ExitUsage, "dlq purge --older-than soon", "36h or 30d")
	d.run(ExitUsage, "dlq purge --older-than 1h --limit 10001 --yes", "it must be 1 to 10000", "an operation of the kind purge")
	if got := d.ask(`select count(*)::text from postrider.dlq_entry`); got != "3" {
		t.Errorf("%s investigations are left, want 3", got)
	}
	d.run(ExitOK, "dlq purge "+a+" --yes", "1 investigation is removed")
	d.run(ExitOK, "dlq purge --older-than 0s --reason no --yes", "There is nothing to remove", `No investigation that is selected has the reason "no"; --text`)
	d.run(ExitOK, "dlq purge --older-than 0s --text no --limit 1 --yes -o json", `"purged": 1`)
	if got := d.ask(`select count(*)::text || ' ' || (select count(*) from postrider.dlq_letter) from postrider.dlq_entry`); got != "1 3" {
		t.Errorf("investigations and letters left: %s, want 1 and 3", got)
	}
	d.run(ExitFailure, "dlq purge "+a+" --yes", "not found")
}

// counting says how many a purge selects.
type counting struct {
	dlq.Investigations
	all, pending int64
	exact        bool
}

func (c counting) Purgeable(_ context.Context, p dlq.Purge) (int64, bool, error) {
	if p.Filter.Status == dlq.Pending {
		return c.pending, c.exact, nil
	}
	return c.all, c.exact, nil
}

// TestAPurgeAsksWithItsOwnNumbers: the numbers are of all that it selects, and estimates are said to be estimates.
func TestAPurgeAsksWithItsOwnNumbers(t *testing.T) {
	t.Parallel()
	p := dlq.Purge{OlderThan: time.Now(), Limit: 10}
	for exact, want := range map[bool][]string{
		true:  {"The oldest 10 of 50 investigations", " 20 of all these are still pending."},
		false: {"The oldest 10 of about 50 investigations", " about 20 of all these are still pending."},
	} {
		what, err := whatIsPurged(t.Context(), counting{all: 50, pending: 20, exact: exact}, p)
		if err != nil {
			t.Error(err)
		}
		contains(t, what, want...)
	}
}

// TestUnreadableHeadersByHand: they are shown, the message is skipped without a word about them, and sent with one.
func TestUnreadableHeadersByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	store, err := app.NewServices(d.db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(4) {
		d.entries = append(d.entries, record(t, store, n+1, []byte("k"), []byte("payload"), message.Header{Name: "tenant", Value: []byte("acme")},
			message.Header{Name: message.HeaderInvalidHeaders, Value: []byte("{\"tenant\": \"acme\", \"priority\": 5, \"x\": \"\x1b\"}")}))
	}
	a, b, c, e := d.entries[0], d.entries[1], d.entries[2], d.entries[3]
	var numbers []string
	for n := range int64(2) {
		numbers = append(numbers, record(t, store, n+5, []byte("k"), []byte("payload"), message.Header{Name: message.HeaderInvalidHeaders, Value: fmt.Appendf(nil, `{"number": %d}`, n+7)}))
	}
	kept(t, d.db)
	for _, how := range []string{"", " --payload"} {
		d.run(ExitOK, "dlq show "+a+how, `Some cannot be read: {"tenant": "acme", "priority": 5`)
	}
	d.run(ExitPartly, "dlq requeue "+a, "0 on their way, 1 skipped", "unreadable_headers", "--header-none", "dlq show")
	d.run(ExitUsage, "dlq requeue "+a+" --header-none --header a=b", "--header-none sends no headers")
	d.run(ExitUsage, "op plan --all --name n --header a", "NAME=VALUE")
	d.run(ExitUsage, "op plan --all --name n --header postrider-hops=0", "belongs to postrider")
	d.run(ExitUsage, "op plan --all --name n --kind resolve --header-none", "only redriving gives headers")
	d.run(ExitOK, "dlq requeue "+a+" --header priority=5 --header tenant=acme", "1 on their way")
	d.run(ExitOK, "dlq requeue "+b+" --header-none", "1 on their way")
	d.run(ExitOK, "op plan "+c+" --name without", "1 have some that cannot be read, and are skipped", "--header-none")
	d.run(ExitOK, "op plan "+c+" --name with --header priority=5", "are sent with the headers that can be read, and priority")
	d.run(ExitOK, "op plan "+e+" --name none --header-none", "are sent without any")
	d.run(ExitUsage, "dlq requeue "+numbers[0]+" --header-text --header a=b", "--header-text sends the headers that a message has")
	d.run(ExitUsage, "op plan --all --name n --header-text --header-none", "--header-none sends no headers")
	d.run(ExitOK, "op plan "+numbers[0]+" --name texts --header-text", "are sent with the headers that can be read, and the others as texts")
	d.run(ExitOK, "dlq requeue "+strings.Join(numbers, " ")+" --header-text", "2 on their way")
	if got := d.ask(`select string_agg(headers::text, ' ' order by id) from (select id, (select jsonb_agg(h) from jsonb_array_elements(headers) h where h->>0 not like 'replay%' and h->>0 not like 'postrider%') as headers from postrider.outbox_event) e`); got != `[["priority", "5"], ["tenant", "acme"]] [["number", "7"]] [["number", "8"]]` {
		t.Errorf("sent: %s", got)
	}
	// A message on its way is not closed.
	d.run(ExitPartly, "dlq resolve "+a+" "+c, "skipped", a, "already_queued", c, "manually_resolved")
}

// TestFilterOfAnOperation: a filter is shown by the names of the API, and its empty fields are left out.
func TestFilterOfAnOperation(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	for flags, want := range map[string]string{"--all": `"filter": {}`, "--code INVALID_RECORD": `"error_code": "INVALID_RECORD"`} {
		out := d.run(ExitOK, "op plan "+flags+" --name n"+strings.Fields(flags)[0]+" -o json", want)
		for _, gone := range []string{"0001-01-01", `"Status"`, `"Subject"`, `"group"`} {
			if strings.Contains(out, gone) {
				t.Errorf("%s: %s in %s", flags, gone, out)
			}
		}
	}
}

// TestConfirm: only the whole word is an answer.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"yes\n": true, "yes": true, " yes \n": true, "y\n": false, "": false, "no\n": false, "\nyes\n": false} {
		var asked bytes.Buffer
		err := confirm(strings.NewReader(answer), &asked, "All of \x1b[2J it.")
		var usage *usageError
		if (err == nil) != want || err != nil && !errors.As(err, &usage) || !strings.Contains(asked.String(), `All of \x1b[2J it.`) {
			t.Errorf("%q: %v, asked %q", answer, err, asked.String())
		}
	}
}

// TestStatsAndGroups: the numbers, the groups, and why one is one.
func TestStatsAndGroups(t *testing.T) {
	t.Parallel()
	d := newRig(t, 3)
	d.run(ExitOK, "dlq stats", "3 investigations, 3 pending", "Counted at 20", "undeliverable", "INVALID_RECORD")
	stats := decode[api.Stats](t, d.run(ExitOK, "dlq stats -o json"))
	if stats.Total != 3 || stats.Last24h != 3 || len(stats.Reasons) != 1 || stats.Reasons[0].Pending != 3 {
		t.Errorf("stats: %+v", stats)
	}
	d.run(ExitOK, "dlq groups", "STATE", "orders")
	list := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json"))
	if len(list.Items) != 1 || list.Items[0].Pending != 3 || *list.Total != 1 || list.Next != nil {
		t.Fatalf("groups: %+v", list)
	}
	id := list.Items[0].UUID.String()
	d.run(ExitOK, "dlq groups "+id, "in one group because", "3 of 3", "postrider op plan --group "+id)
	d.run(ExitOK, "dlq groups --state resolved", "no such groups")
	d.run(ExitUsage, "dlq groups --state open", `--state is "open"; it must be one of new, ongoing`)
	d.run(ExitOK, "dlq groups --assignee ada", "no such groups")
	nowhere := uuid.NewString()
	d.run(ExitFailure, "dlq groups "+nowhere, "postrider: group "+nowhere+": not found; postrider dlq groups shows them")
	d.run(ExitFailure, "op plan --name n --group "+nowhere, "postrider: group "+nowhere+": not found; postrider dlq groups shows them")
	d.run(ExitOK, "op plan --group "+id+" --name all-of-it", "3 investigations", "Nothing was done yet")

	// The recommended next command changes with the work that was done.
	d.run(ExitOK, "dlq resolve "+d.entries[0])
	d.run(ExitOK, "dlq groups "+id, "2 of 3", "Plan to send the 2 pending ones again with: postrider op plan --group "+id)
	d.run(ExitOK, "dlq resolve "+d.entries[1]+" "+d.entries[2]+" --status cancelled")
	if text := d.run(ExitOK, "dlq groups "+id, "resolved", "0 of 3", "All of them are closed (1 manually_resolved, 2 cancelled). There is nothing left to do"); strings.Contains(text, "op plan") {
		t.Errorf("a plan of nothing is recommended:\n%s", text)
	}
	d.run(ExitUsage, "op plan --name again --group "+id, "nothing is in its scope: no pending investigation")
	d.run(ExitOK, "dlq purge "+strings.Join(d.entries, " ")+" --yes")
	d.run(ExitOK, "dlq groups "+id, "All of them were purged. There is nothing left to do")
}

// TestOutcome: what a script is told about how an operation ended.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o      dlq.Operation
		partly bool
		fails  bool
	}{
		{dlq.Operation{State: dlq.Completed, Done: 5}, false, false},
		{dlq.Operation{State: dlq.Completed, Done: 5, CameBack: 1}, true, true},
		{dlq.Operation{State: dlq.Completed, Kind: dlq.OpRedrive, Done: 5, Delivered: 5}, false, false},
		{dlq.Operation{State: dlq.Completed, Kind: dlq.OpRedrive, Done: 5}, true, true},
		{dlq.Operation{State: dlq.Completed, Kind: dlq.OpRedrive, Done: 5, Delivered: 4}, true, true},
		{dlq.Operation{State: dlq.Completed, Kind: dlq.OpResolve, Done: 5}, false, false},
		{dlq.Operation{State: dlq.Completed, Failed: 1}, true, true},
		{dlq.Operation{State: dlq.Halted, Error: "too many"}, false, true},
		{dlq.Operation{State: dlq.Paused}, false, true},
	} {
		err := outcome(c.o)
		if (err != nil) != c.fails || errors.Is(err, errPartly) != c.partly {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// TestBar: on a terminal one line that is written over; elsewhere a line for each change.
func TestBar(t *testing.T) {
	t.Parallel()
	var plain, terminal bytes.Buffer
	for _, b := range []*bar{{w: &plain}, {w: &terminal, terminal: true}} {
		o := dlq.Operation{State: dlq.Running, Kind: dlq.OpRedrive, Items: 10}
		for range 2 {
			b.show(o)
		}
		o.Done, o.CameBack = 5, 1
		b.show(o)
		b.end()
	}
	if strings.Count(plain.String(), "\n") != 2 || strings.Contains(plain.String(), "\x1b") {
		t.Errorf("elsewhere: %q", plain.String())
	}
	contains(t, plain.String(), "running: 5 of 10 handled (0 skipped, 0 failed); 0 delivered, 1 dead-lettered again")
	if got := terminal.String(); strings.Count(got, "\r") != 2 || strings.Count(got, "\n") != 1 || !strings.Contains(got, strings.Repeat("█", barWidth/2)+"░") {
		t.Errorf("on a terminal: %q", got)
	}
}

// TestKeysByHand: making keys is not an operator's; the token is shown once and works.
func TestKeysByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	d.run(ExitFailure, "apikey create --name ci --scopes read", "grant postrider_relay")
	d.run(ExitOK, "apikey list", "There are no keys")
	key := decode[api.CreatedKey](t, d.runAs(d.owner, ExitOK, "apikey create --name ci --scopes read,redrive --expires-in 90d --actor ada -o json"))
	if !strings.HasPrefix(key.Token, "pr_"+key.ID+"_") || key.ExpiresAt == nil || len(key.Scopes) != 2 || !strings.HasSuffix(key.CreatedBy, "(ada)") {
		t.Errorf("the key: %+v", key)
	}
	services, err := app.NewServices(d.db.Pool(t), config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := services.Access.Authenticate(t.Context(), key.Token); err != nil {
		t.Error(err)
	}
	if listed := d.run(ExitOK, "apikey list", key.ID, "ci", "works until"); strings.Contains(listed, key.Token) {
		t.Error("the list shows the token")
	}
	d.runAs(asRole(t, d.db, "postrider_relay"), ExitOK, "apikey create --name relay --scopes read", "pr_")
	d.run(ExitOK, "apikey revoke "+key.ID, "works no more")
	d.run(ExitOK, "apikey list", "revoked")
	if _, err := services.Access.Authenticate(t.Context(), key.Token); err == nil {
		t.Error("a revoked key works")
	}
	d.run(ExitFailure, "apikey revoke nobody", "postrider apikey list")
	d.runAs(d.owner, ExitUsage, "apikey create --name x --scopes everything", "everything", "redrive:edit")
	if listed := d.run(ExitOK, "apikey list"); strings.Contains(listed, "SOURCES") {
		t.Errorf("keys have a column of sources, and each has all:\n%s", listed)
	}
	d.ask(`with i as (insert into postrider.dlq_source (source) values ('orders'), ('billing') returning 1) select count(*)::text from i`)
	team := decode[api.CreatedKey](t, d.runAs(d.owner, ExitOK, "apikey create --name team --scopes read --source orders --source billing -o json"))
	if team.Sources.String() != "billing, orders" || !key.Sources.All() {
		t.Errorf("%v, %v", team.Sources, key.Sources)
	}
	d.run(ExitOK, "apikey list", "SOURCES", "billing, orders", "all")
	d.runAs(d.owner, ExitUsage, "apikey create --name x --scopes read --source Orders", "--source", "the name of a source")
	d.runAs(d.owner, ExitUsage, "console link --key "+team.ID+" --source orders", "--source goes with --scopes")
	d.runAs(d.owner, ExitUsage, "apikey create --scopes read", "the name of the API key has 0 bytes")
	d.runAs(d.owner, ExitUsage, "apikey create --name x --scopes read --expires-in never", "--expires-in")
}

// TestEventsByHand: events are listed page by page, and delivered ones purged by who may.
func TestEventsByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	d.ask(`with i as (insert into postrider.outbox_event (topic, key) select 't' || i % 2, E'k\x1b[2J' from generate_series(1, 30) i returning 1) select count(*)::text from i`)
	d.ask(`with r as (insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, at) values (1, 1, 20, 1, '{[1,21)}', '{}', now() - interval '2 days') returning 1) select count(*)::text from r`)
	d.run(ExitOK, "outbox list", "succeeded", "pending", `k\x1b[2J`, "--after 6")
	first := decode[api.List[relay.EventStatus]](t, d.run(ExitOK, "outbox list --topic t1 --status succeeded --limit 4 -o json"))
	if len(first.Items) != 4 || first.Next == nil || first.Items[0].ID != 19 {
		t.Fatalf("first page: %+v", first)
	}
	second := decode[api.List[relay.EventStatus]](t, d.run(ExitOK, "outbox list --topic t1 --status succeeded -o json --after "+*first.Next))
	if len(second.Items) != 6 || second.Next != nil {
		t.Errorf("second page: %d events, next %v", len(second.Items), second.Next)
	}
	d.run(ExitUsage, "outbox list --status sent", "--status is")
	d.run(ExitUsage, "outbox list --event x", "--event is")
	d.run(ExitFailure, "outbox purge --older-than 1d --yes", "grant postrider_relay")
	d.runAs(d.owner, ExitUsage, "outbox purge --older-than 1d", "not confirmed")
	d.runAs(d.owner, ExitOK, "outbox purge --older-than 3d --yes", "0 delivered events are removed")
	d.runAs(asRole(t, d.db, "postrider_relay"), ExitOK, "outbox purge --older-than 1d --yes --actor ada", "20 delivered events are removed")
	if got := d.ask(`select count(*)::text from postrider.outbox_event`); got != "10" {
		t.Errorf("%s events are left, want 10", got)
	}
	d.run(ExitOK, "audit list --action outbox.purge", "(ada)")
	d.run(ExitOK, "outbox skip 25 --reason ticket --actor ada", "is given up")
	d.run(ExitOK, "audit list --action outbox.skip", "(ada)", "ticket")
}

// TestYAML: what -o yaml says is what -o json says, and a parser agrees.
func TestYAML(t *testing.T) {
	t.Parallel()
	d := newRig(t, 2)
	for _, command := range []string{"dlq list", "dlq show " + d.entries[0], "dlq groups", "dlq stats", "outbox status", "op list", "audit list", "version"} {
		var fromJSON, fromYAML any
		if err := json.Unmarshal([]byte(d.run(ExitOK, command+" -o json")), &fromJSON); err != nil {
			t.Fatal(err)
		}
		if command == "outbox status" { // its ages change
			continue
		}
		text := d.run(ExitOK, command+" -o yaml")
		if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
			t.Fatalf("%s: %v in\n%s", command, err, text)
		}
		a, _ := json.Marshal(fromJSON)
		b, _ := json.Marshal(fromYAML)
		if !bytes.Equal(a, b) {
			t.Errorf("%s:\n%s\n%s", command, a, b)
		}
	}
	for encoded, want := range map[string]string{
		`{"a":{"b":[1,{"c":null}],"yes":true},"d e":[],"f":{}}`: "a:\n  b:\n    - 1\n    -\n      c: null\n  \"yes\": true\n\"d e\": []\nf: {}\n",
		`"no"`: "\"no\"\n", `[]`: "[]\n", `["\u001b[2J"]`: "- \"\\u001b[2J\"\n",
	} {
		if got, err := asYAML([]byte(encoded)); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", encoded, got, err, want)
		}
	}
}

// TestCompletion: the shell is offered ids, states and scripts of its own.
func TestCompletion(t *testing.T) {
	t.Parallel()
	d := newRig(t, 2)
	complete := func(words ...string) string {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + d.operator}, append(append([]string{"__complete"}, words...), "")...)
		if r.code != ExitOK {
			t.Fatalf("%v: exit code %d, %s", words, r.code, r.stderr)
		}
		return r.stdout
	}
	offered := complete("dlq", "requeue", d.entries[0])
	contains(t, offered, d.entries[1]+"\tno ")
	if strings.Contains(offered, d.entries[0]) || strings.Contains(offered, "\x1b") {
		t.Errorf("one that is named is offered again: %s", offered)
	}
	d.run(ExitOK, "__complete dlq groups --state r", "regressed")
	group := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json")).Items[0].UUID.String()
	d.run(ExitOK, "__complete op plan --topic o", "orders")
	id := decode[api.Operation](t, d.run(ExitOK, "op plan --all --name x -o json")).UUID.String()
	contains(t, complete("op", "start"), id+"\tplanned x")
	d.run(ExitOK, "__complete dlq list --group "+group[:2], group)
	d.run(ExitOK, "__complete dlq list --group zz", ":4") // ShellCompDirectiveNoFileComp
	d.run(ExitOK, "__complete outbox skip 1", ":4")
	d.run(ExitOK, "__complete serve --roles relay,col", "relay,collector")
	if r := postrider(t, nil, "__complete", "serve", "--roles", "relay,"); strings.Contains(r.stdout, "relay,relay") || !strings.Contains(r.stdout, "relay,http") {
		t.Errorf("roles: %s", r.stdout)
	}
	if r := postrider(t, nil, "__complete", "template", "apply", ""); !strings.Contains(r.stdout, ":0\n") {
		t.Errorf("files are not offered for files: %s", r.stdout)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := postrider(t, nil, "completion", shell); r.code != ExitOK || !strings.Contains(r.stdout, "postrider") {
			t.Errorf("completion for %s: exit code %d, %s", shell, r.code, r.stderr)
		}
	}
	// Without a database nothing is offered, and nothing is said.
	r := postrider(t, nil, "__complete", "dlq", "requeue", "")
	if r.code != ExitOK || strings.Contains(r.stdout, "cannot") {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
}
