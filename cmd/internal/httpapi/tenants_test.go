package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// sentinel is in every text of the source that tenants do not see, and of the whole installation; mainSentinel is in those of the
// desk's own database. No uuid has them.
const sentinel, mainSentinel = "zzyx", "zzyq"

// stock is what a source has at the desk, by what a parameter may name.
type stock struct {
	source, entry, group, operation, event, subject, letter string
}

// unknown has the form of a stock, and exists nowhere.
func unknown() stock {
	id := func() string { return uuid.NewString() }
	return stock{"nowhere", id(), id(), id(), id(), "nowhere/" + id(), "nowhere/event:" + id() + ":1"}
}

// fill replaces placeholders by the ids of a stock.
func (s stock) fill(text string) string {
	return strings.NewReplacer("{source}", s.source, "{entry}", s.entry, "{group}", s.group, "{operation}", s.operation, "{event}", s.event,
		"{subject}", s.subject, "{letter}", s.letter).Replace(text)
}

// letterOf is a dead letter of event n of a source, with words in all its texts.
func letterOf(source, words string, n int) dlq.Letter {
	record := dlqtest.Event(n, 1)
	if source != dlq.MainSource {
		record = dlqtest.From(source, record)
	}
	l := dlq.Decode(record)
	l.Key, l.Payload = []byte(words+"-key"), fmt.Appendf(nil, `{"of": %q}`, words)
	l.OriginTopic, l.ErrorCode, l.ErrorMessage, l.ConsumerGroup = words+".topic", strings.ToUpper(words)+"_CODE", words+" failed at the "+words, ""
	return l
}

// stockOf writes investigations of a source, and what people do with them: comments, notes, operations, redrives, closings.
func (r *rig) stockOf(source, words string, n int) stock {
	r.t.Helper()
	var s stock
	var entries []string
	for i := range 4 {
		l := letterOf(source, words, n+i)
		entries = append(entries, r.record(l))
		s = stock{source: source, entry: entries[0], event: l.EventID.String(), letter: l.ID, subject: l.Subject.ID}
	}
	s.group = r.ask("GET", "/dlq/"+s.entry, "").is(200).text("group_uuid")
	for _, at := range []string{"/dlq/" + s.entry, "/groups/" + s.group} {
		r.ask("POST", at+"/comments", fmt.Sprintf(`{"text": "%s comment"}`, words)).is(201)
		field := map[bool]string{true: "notes", false: "note"}[strings.HasPrefix(at, "/dlq")]
		r.ask("PATCH", at, fmt.Sprintf(`{%q: "%s note", "assignee": "%s-ann"}`, field, words, words)).is(200)
	}
	plan := func(by, scope string) string {
		body := fmt.Sprintf(`{"kind": "resolve", "name": "%s by %s", "reason": "%[1]s reason", "scope": %[3]s}`, words, by, scope)
		return r.ask("POST", "/operations", body).is(201).text("operation_uuid")
	}
	s.operation = plan("group", fmt.Sprintf(`{"group": %q}`, s.group))
	plan("id", fmt.Sprintf(`{"ids": [%q]}`, s.entry))
	plan("filter", fmt.Sprintf(`{"filter": {"source": %q}}`, source))
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, entries[1])).is(200)
	r.ask("PATCH", "/dlq/"+entries[2], fmt.Sprintf(`{"resolution_status": "cancelled", "notes": "%s closed"}`, words)).is(200)
	return s
}

// tenant is a key that may do everything at some sources.
func (r *rig) tenant(sources ...string) string {
	r.t.Helper()
	ctx := access.WithActor(r.t.Context(), access.Actor{Name: "test"})
	_, token, err := r.services.Access.Create(ctx, access.NewKey{Name: "tenant", Scopes: []access.Scope{access.Admin}, Sources: append(access.Sources{}, sources...)})
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// foreign are all ids of what a source has.
func (r *rig) foreign(source string) []string {
	return value[[]string](r, `with e as (select dlq_entry_uuid as id, dlq_group_uuid as g from postrider.dlq_entry where source = $1)
		select array_agg(distinct id) from (select id::text from e union select g::text from e
			union select letter_id from postrider.dlq_letter where dlq_entry_uuid in (select id from e)
			union select event_id::text from postrider.dlq_letter where event_id is not null and dlq_entry_uuid in (select id from e)
			union select redrive_id from postrider.dlq_redrive where dlq_entry_uuid in (select id from e)
			union select dlq_command_uuid::text from postrider.dlq_command where source = $1
			union select dlq_operation_uuid::text from postrider.dlq_operation where sources && array[$1, '*']) ids(id)`, source)
}

// state is all that a source has at the desk, as text.
func (r *rig) state(source string) string {
	return value[string](r, `select concat_ws(' | ', (select string_agg(e::text, ' ' order by e) from postrider.dlq_entry e where source = $1),
		(select string_agg(g::text, ' ' order by g) from postrider.dlq_group g where source = $1),
		(select string_agg(o::text, ' ' order by o) from postrider.dlq_operation o where sources && array[$1, '*']),
		(select string_agg(i::text, ' ' order by i) from postrider.dlq_operation_item i join postrider.dlq_operation o using (dlq_operation_uuid) where o.sources && array[$1, '*']),
		(select string_agg(c::text, ' ' order by c) from postrider.dlq_command c where source = $1),
		(select string_agg(d::text, ' ' order by d) from postrider.dlq_redrive d join postrider.dlq_entry e using (dlq_entry_uuid) where e.source = $1),
		(select string_agg(c::text, ' ' order by c) from postrider.dlq_comment c left join postrider.dlq_entry e using (dlq_entry_uuid)
			left join postrider.dlq_group g on g.dlq_group_uuid = c.dlq_group_uuid where $1 in (e.source, g.source)))`, source)
}

// bodies are what operations about sources are sent, by their ids.
var bodies = map[string][]string{
	"requeue":         {`{"ids": ["{entry}"]}`, `{"ids": ["{entry}"], "dry_run": true}`},
	"releaseKeys":     {`{"ids": ["{entry}"]}`},
	"purgeEntries":    {`{"ids": ["{entry}"]}`, `{"older_than": "2099-01-01", "source": "{source}", "release_keys": true}`, `{"older_than": "2099-01-01", "group": "{group}", "release_keys": true}`, `{"older_than": "2099-01-01", "event_id": "{event}"}`},
	"changeEntry":     {`{"notes": "x"}`, `{"resolution_status": "cancelled"}`},
	"fetchOriginal":   {``},
	"addEntryComment": {`{"text": "x"}`}, "addGroupComment": {`{"text": "x"}`}, "deleteEntryComment": {``}, "deleteGroupComment": {``},
	"changeGroup": {`{"note": "x"}`, `{"muted": true}`}, "resolveGroup": {``}, "mergeGroup": {`{"into": "{own}"}`, `{"into": "{group}"}`},
	"splitGroup": {`{"ids": ["{own-entry}"]}`, `{"ids": ["{entry}"]}`},
	"planOperation": {`{"kind": "purge", "name": "n", "scope": {"ids": ["{entry}"]}}`, `{"kind": "purge", "name": "n", "scope": {"ids": ["{own-entry}", "{entry}"]}}`,
		`{"kind": "resolve", "name": "n", "scope": {"group": "{group}"}}`, `{"kind": "resolve", "name": "n", "scope": {"filter": {"source": "{source}"}}}`,
		`{"kind": "resolve", "name": "n", "scope": {"filter": {"group": "{group}"}}}`, `{"kind": "resolve", "name": "n", "scope": {"filter": {"event_id": "{event}"}}}`},
	"startOperation": {``}, "pauseOperation": {``}, "resumeOperation": {``}, "abortOperation": {``},
}

// parameters are the values of parameters of lists that name something of a source.
var parameters = map[string]string{"source": "{source}", "group": "{group}", "event_id": "{event}", "subject_id": "{subject}", "letter_id": "{letter}",
	"after": "{operation}", "target_id": "{entry}"}

// requests are what an operation is asked about a stock: its path with the id that it takes, each of its bodies, and each parameter.
func requests(o *operation, about, own stock) [][2]string {
	first, _, _ := strings.Cut(strings.TrimPrefix(o.path, "/"), "/")
	id := map[string]string{"dlq": "{entry}", "groups": "{group}", "operations": "{operation}", "outbox": "1001", "holds": "1"}[first]
	if id == "" {
		id = nowhere
	}
	path := strings.NewReplacer("{id}", id, "{step}", nowhere, "{comment}", "1", "{namespace}", "x", "{name}", "{source}").Replace(o.path)
	fill := func(text string) string {
		return about.fill(strings.NewReplacer("{own}", own.group, "{own-entry}", own.entry).Replace(text))
	}
	paths := []string{path}
	for _, name := range o.params {
		if parameter, is := parameters[name]; is {
			paths = append(paths, path+"?"+name+"="+parameter)
			if strings.Contains(path, "{") && own != about { // the same, of what the caller has
				paths = append(paths, own.fill(path)+"?"+name+"="+parameter)
			}
		}
	}
	var all [][2]string
	for _, body := range bodies[o.id] { // what the caller has, with something of the other
		if strings.Contains(path, "{") && strings.Contains(body, "{group}") || strings.Contains(body, `["{entry}"]`) && strings.Contains(path, "/groups/") {
			all = append(all, [2]string{own.fill(path), fill(body)})
		}
	}
	for _, p := range paths {
		for _, body := range append(bodies[o.id], "")[:max(1, len(bodies[o.id]))] {
			all = append(all, [2]string{fill(p), fill(body)})
		}
	}
	return all
}

var variable = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|"[0-9-]{10}T[0-9:.]+Z"|"(request_id|key_id|next)":"[^"]*"|"id":"[0-9]+"|"oldest_due_seconds":[0-9.]+`)

// TestTenantsSeeTheirSourcesAlone asks each operation of the description, with a key of one source, about another source and about
// what does not exist. No name, id or text of the other source is answered, both are answered alike, and nothing of it changes. An
// operation that is added is asked by itself; one that is not limited to sources fails here.
func TestTenantsSeeTheirSourcesAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	own := r.stockOf("orders", "ours", 100)
	mains := r.stockOf(dlq.MainSource, mainSentinel, 200)
	r.dead(1, func(l *dlq.Letter) { l.OriginTopic = mainSentinel + ".topic" })
	r.cluster.also = sentinel
	r.ask("POST", "/keys", fmt.Sprintf(`{"name": "%s key", "scopes": ["read"]}`, sentinel)).is(201)
	theirs := r.stockOf(sentinel+"-source", sentinel, 300)
	if n := value[int](r, `select count(*) from postrider.access_audit where target_type in ('entry', 'group', 'operation') and (cardinality(sources) <> 1 or sources = '{*}')`); n != 0 {
		t.Errorf("%d rows of the audit log do not say the source", n)
	}
	r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "resolve", "name": "%s of all", "scope": {"filter": {"topic": "ours.topic"}}}`, sentinel)).is(201)
	r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "resolve", "name": "%s of two", "scope": {"ids": [%q, %q]}}`, sentinel, own.entry, theirs.entry)).is(201)
	r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "resolve", "name": "ours late", "scope": {"ids": [%q]}}`, own.entry)).is(201) // others overlap it
	ids, before := r.foreign(theirs.source), r.state(theirs.source)
	if len(ids) < 20 {
		t.Fatalf("only %d ids", len(ids))
	}
	clean := func(who, path, body string, got reply, about stock) string {
		t.Helper()
		raw := got.Raw
		for _, said := range []string{about.letter, about.subject, about.source, about.entry, about.group, about.operation, about.event} {
			raw = strings.ReplaceAll(raw, said, "SAID") // what was asked may be repeated
		}
		banned := append(slices.Clone(ids), sentinel)
		if who != "main" {
			banned = append(banned, mainSentinel)
		}
		for _, id := range banned {
			if strings.Contains(strings.ToLower(raw), id) {
				t.Errorf("%s: %s %s shows %s of another source: %d %s", who, path, body, id, got.Status, got.Raw)
				break
			}
		}
		return variable.ReplaceAllString(raw, "")
	}
	nothing := unknown()
	for who, c := range map[string]struct {
		key  string
		own  stock
		open int // requests that are no refusal
	}{"orders": {r.tenant("orders"), own, 15}, "main": {r.tenant(dlq.MainSource), mains, 25}, "none": {r.tenant(), unknown(), 4}} {
		answered := 0
		for _, o := range r.spec.operations {
			if strings.HasPrefix(o.id, "run") || o.id == "purgeDelivered" {
				continue // they act on the desk's own database as a whole
			}
			others, none := requests(o, theirs, c.own), requests(o, nothing, c.own)
			first := r.ask(o.method, others[0][0], "", "X-API-Key", c.key)
			if _, has := bodies[o.id]; !has && o.method != http.MethodGet && first.Status != http.StatusForbidden && first.Status != http.StatusNotFound && who == "none" {
				t.Errorf("%s is not refused to a key without sources, and has no bodies here: %d %s", o.id, first.Status, first.Raw)
			}
			for i := range others {
				got, as := r.ask(o.method, others[i][0], others[i][1], "X-API-Key", c.key), r.ask(o.method, none[i][0], none[i][1], "X-API-Key", c.key)
				what := o.method + " " + others[i][0]
				if one, other := clean(who, what, others[i][1], got, theirs), clean(who, what, none[i][1], as, nothing); one != other || got.Status != as.Status {
					t.Errorf("%s: %s %s of another source: %d %s\nand of nothing: %d %s", who, what, others[i][1], got.Status, one, as.Status, other)
				}
			}
			if o.method == http.MethodGet { // what the caller has is shown, without the other's
				got := r.ask(o.method, requests(o, c.own, c.own)[0][0], "", "X-API-Key", c.key)
				if clean(who, o.path, "", got, c.own); got.Status == http.StatusOK {
					answered++
				}
			}
		}
		if answered < c.open {
			t.Errorf("%s: only %d lists and things are shown", who, answered)
		}
	}
	if after := r.state(theirs.source); after != before {
		t.Errorf("what another source has changed:\n%s\nbecame\n%s", before, after)
	}
}

// TestTenantsCountTheirsAlone: what a tenant is answered is the same, but for ids and times, in a database in which nothing of other
// sources is.
func TestTenantsCountTheirsAlone(t *testing.T) {
	t.Parallel()
	answers := func(others bool) map[string]string {
		r := newRig(t, nil)
		own := r.stockOf("orders", "ours", 100)
		if others {
			r.stockOf("billing", sentinel, 300)
			r.stockOf(dlq.MainSource, "mains", 200)
		}
		key, got := r.tenant("orders"), map[string]string{}
		for _, o := range r.spec.operations {
			if o.method == http.MethodGet && o.id != "getMe" {
				got[o.id] = variable.ReplaceAllString(r.ask("GET", requests(o, own, own)[0][0], "", "X-API-Key", key).Raw, "")
			}
		}
		for _, path := range []string{"/dlq?reason=" + sentinel, "/dlq?text=failed", "/dlq?resolution_status=pending", "/groups?order_by=worst", "/dlq?topic=ours.topic", "/dlq?page_size=1", "/operations?open=true"} {
			got[path] = variable.ReplaceAllString(r.ask("GET", path, "", "X-API-Key", key).Raw, "")
		}
		return got
	}
	alone, among := answers(false), answers(true)
	for _, name := range slices.Sorted(maps.Keys(alone)) {
		if alone[name] != among[name] {
			t.Errorf("%s alone:\n%s\namong others:\n%s", name, alone[name], among[name])
		}
	}
}
