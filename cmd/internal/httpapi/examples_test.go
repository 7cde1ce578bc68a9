package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
)

// TestOpenAPIExamples asks each operation once, of a database with known data, and compares what it is asked and answers
// with the example that openapi.yaml shows: the same members of the same types. UPDATE=1 writes the examples anew that differ
// or are missing.
func TestOpenAPIExamples(t *testing.T) {
	r := newRig(t, nil)
	r.furnish()
	s := &showing{r, map[string]example{}}
	s.investigations()
	s.groups()
	s.cluster()
	s.operations()
	s.tasks()
	s.archive()
	s.templates()
	s.outbox()
	s.access()
	s.show("GET", "/status", "")
	s.exec(`update postrider.dlq_entry set created_at = clock_timestamp() - interval '10 minutes'`) // a step that has ended
	s.show("GET", "/series?span=24h", "")
	stored, err := readExamples()
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE") != ""
	for _, o := range r.spec.operations {
		live, is := s.shown[o.id]
		if !is {
			t.Errorf("%s has no example: ask it here", o.id)
			continue
		}
		why := live.differs(stored[o.id])
		if why == "" {
			s.shown[o.id] = stored[o.id]
		} else if !update {
			t.Errorf("the example of %s is not what is asked and answered: %s; UPDATE=1 go test -run TestOpenAPI ./cmd/internal/httpapi writes it anew", o.id, why)
		}
		code, _ := strconv.Atoi(s.shown[o.id].status)
		if err := errors.Join(o.check(code, asJSON(t, s.shown[o.id].answer)), o.takes(asJSON(t, s.shown[o.id].request))); err != nil {
			t.Errorf("the example: %v", err)
		}
	}
	if !update {
		return
	}
	made, err := describe(s.shown)
	if err == nil {
		err = os.WriteFile("openapi.yaml", made, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ofJSON is JSON as YAML writes it.
func ofJSON(t testing.TB, text string) *yaml.Node {
	t.Helper()
	if text == "" {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var inBlocks func(*yaml.Node)
	inBlocks = func(n *yaml.Node) {
		n.Style = 0
		for _, inner := range n.Content {
			inBlocks(inner)
		}
	}
	inBlocks(document.Content[0])
	return document.Content[0]
}

// asJSON is the JSON that an example is of; nil for none.
func asJSON(t testing.TB, n *yaml.Node) []byte {
	t.Helper()
	if n == nil {
		return nil
	}
	var v any
	err := n.Decode(&v)
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		t.Fatalf("openapi.yaml:%d: an example: %v", n.Line, err)
	}
	return text
}

// differs says where an example is of another shape than the one that is kept; empty where it is not.
func (e example) differs(kept example) string {
	if e.status != kept.status {
		return fmt.Sprintf("the status is %s, and %q in the example", e.status, kept.status)
	}
	if path := otherShape(e.request, kept.request); path != "" {
		return "the body" + path
	}
	if path := otherShape(e.answer, kept.answer); path != "" {
		return "the answer" + path
	}
	return ""
}

// otherShape is the path to where two values are not of one shape; empty for none. Null is of any: openapi.yaml says what may
// be null.
func otherShape(a, b *yaml.Node) string {
	switch {
	case a == nil && b == nil:
		return ""
	case a == nil || b == nil:
		return " is only in one of them"
	case a.Tag == "!!null" || b.Tag == "!!null":
		return ""
	case a.Kind != b.Kind:
		return " is of another type"
	case a.Kind == yaml.MappingNode:
		for _, pair := range [][2]*yaml.Node{{a, b}, {b, a}} {
			for i := 0; i < len(pair[0].Content); i += 2 {
				name := pair[0].Content[i].Value
				if path := otherShape(pair[0].Content[i+1], member(pair[1], name)); path != "" {
					return "." + name + path
				}
			}
		}
	case a.Kind == yaml.SequenceNode:
		for _, pair := range [][2]*yaml.Node{{a, b}, {b, a}} {
			for i, item := range pair[0].Content {
				if !slices.ContainsFunc(pair[1].Content, func(other *yaml.Node) bool { return otherShape(item, other) == "" }) {
					return fmt.Sprintf("[%d] is like none of the other", i)
				}
			}
		}
	case number(a) != number(b) || !number(a) && a.Tag != b.Tag:
		return " is of another type"
	}
	return ""
}

func number(n *yaml.Node) bool { return n.Tag == "!!int" || n.Tag == "!!float" }

// showing asks operations for their examples.
type showing struct {
	*rig
	shown map[string]example
}

// show asks for an example.
func (s *showing) show(method, path, body string) reply {
	s.t.Helper()
	got := s.ask(method, path, body)
	if got.Status >= 300 {
		s.t.Errorf("%s %s: %s", method, path, got.Raw)
	}
	o := s.spec.find(method, path)
	if _, again := s.shown[o.id]; again {
		s.t.Errorf("%s has two examples", o.id)
	}
	s.shown[o.id] = example{ofJSON(s.t, body), strconv.Itoa(got.Status), ofJSON(s.t, got.Raw)}
	return got
}

func (s *showing) investigations() {
	one, closed, purged := s.die(1), s.die(2), s.die(3)
	s.show("GET", "/dlq?page_size=1", "")
	s.show("PATCH", "/dlq/"+closed, `{"resolution_status": "manually_resolved", "resolution_notes": "sent by hand", "resolved_by": "ann", "metadata": {"ticket": "OPS-17"}, "assignee": "ann"}`)
	s.show("GET", "/dlq/"+one+"/requeue", "")
	s.show("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q, %q], "max_hops": 5}`, one, closed))
	halts, _, _ := s.halted(4)
	s.show("POST", "/dlq/release", fmt.Sprintf(`{"ids": [%q]}`, halts))
	s.show("GET", "/dlq/"+one, "")
	s.show("GET", "/dlq/"+one+"/payload?why=OPS-17", "")
	s.comments("/dlq/" + one)
	s.show("GET", "/dlq/"+closed+"/neighbours?topic=orders", "")
	s.show("POST", "/dlq/purge", fmt.Sprintf(`{"ids": [%q]}`, purged))
	s.show("GET", "/dlq/stats", "")
	s.originals.set(dlq.Original{State: dlq.OriginalFetched, Value: []byte("found"), Timestamp: dlqtest.Start, Retention: time.Hour})
	s.show("POST", "/dlq/"+s.pointing("5")+"/fetch", "")
}

func (s *showing) groups() {
	group := s.ask("GET", "/dlq/"+s.die(11), "").text("group_uuid")
	other := s.pointing("12")
	s.show("POST", "/groups/"+s.ask("GET", "/dlq/"+other, "").text("group_uuid")+"/merge", fmt.Sprintf(`{"into": %q}`, group))
	s.show("POST", "/groups/"+group+"/split", fmt.Sprintf(`{"ids": [%q]}`, other))
	s.show("GET", "/groups?page_size=1", "")
	s.show("GET", "/groups/"+group, "")
	s.show("PATCH", "/groups/"+group, `{"note": "OPS-17: the schema of orders", "assignee": "ann", "muted": true, "muted_until": "2099-01-01T00:00:00Z"}`)
	s.comments("/groups/" + group)
	s.show("POST", "/groups/"+group+"/resolve", `{"resolution_status": "manually_resolved", "resolution_notes": "OPS-17 is done", "resolved_by": "ann", "until": "2099-01-01"}`)
}

func (s *showing) comments(subject string) {
	written := s.show("POST", subject+"/comments", `{"text": "The partner's release of Monday broke the schema. OPS-17."}`)
	s.show("GET", subject+"/comments", "")
	s.show("DELETE", fmt.Sprintf("%s/comments/%v", subject, written.at("comment_id")), "")
}

func (s *showing) cluster() {
	s.show("GET", "/topics", "")
	s.show("GET", "/consumers", "")
	s.show("GET", "/doctor", "")
	s.show("GET", "/sources", "")
	s.show("GET", "/sources/orders", "")
	s.setBack("billing", 32)
	s.show("POST", "/sources/billing/rejoin", `{"dry_run": true}`)
	s.show("POST", "/sources/billing/forget", "")
	id := s.record(dlq.Decode(dlqtest.From("orders", dlqtest.Event(31, 1))))
	s.ask("PATCH", "/dlq/"+id, `{"resolution_status": "cancelled"}`).is(200)
	s.show("GET", "/commands?source=orders&state=waiting", "")
}

func (s *showing) operations() {
	plan := `{"kind": "redrive", "name": "OPS-17", "reason": "the schema of orders was mended", "scope": {"ids": [%q, %q]}, "options": {"rate": 50, "canary": 1}}`
	planned := s.show("POST", "/operations", fmt.Sprintf(plan, s.die(21), s.die(22)))
	at := "/operations/" + planned.text("operation_uuid")
	s.show("GET", "/operations?open=true&limit=1", "")
	s.show("GET", at, "")
	s.show("GET", at+"/items?limit=1", "")
	for _, command := range []string{"start", "pause", "resume", "abort"} {
		s.show("POST", at+"/"+command, `{"reason": "OPS-17"}`)
	}
	s.ask("POST", "/operations", `{"kind": "redrive", "name": "OPS-18", "scope": {"filter": {"topic": "orders"}}}`).is(201) // for the status
}

func (s *showing) tasks() {
	created := s.show("POST", "/tasks", `{"namespace_name": "default", "task_name": "task", "version": "1.0.0", "context": {"order": 17}, "priority": 3, "idempotency_key": "order 17"}`)
	id := created.text("task_uuid")
	at := "/tasks/" + id
	step := at + "/workflow_steps/" + s.steps(id)["a"]
	s.show("GET", "/tasks?page_size=1", "")
	s.show("GET", at, "")
	s.show("GET", at+"/workflow_steps", "")
	s.show("GET", step, "")
	s.show("PATCH", step, `{"action": "complete_manually", "notes": "done by phone", "results": {"reserved": true}}`)
	s.show("GET", at+"/transitions", "")
	s.show("GET", at+"/step_transitions", "")
	s.show("GET", at+"/payload?why=OPS-17", "")
	s.show("POST", at+"/cancel", `{"notes": "the customer called"}`)
	s.show("POST", "/tasks/"+s.task("error")+"/retry", "")
	s.show("POST", "/tasks/retry", `{"ids": ["`+s.task("error")+`", "`+id+`"]}`)
	s.show("POST", at+"/unflag", `{"notes": "the partner is back"}`)
	s.show("GET", "/detector", "")
	s.show("POST", "/detector/pause", `{"reason": "the database is slow", "for_seconds": 3600}`)
	s.show("POST", "/detector/resume", "")
	s.show("POST", "/detector/run", `{"dry_run": true}`)
	s.show("POST", "/tasks/"+s.task("error")+"/dlq", `{"reason": "no worker knows this order"}`)
}

func (s *showing) archive() {
	id := s.archived()
	at := "/archive/tasks/" + id
	step := value[string](s.rig, `select workflow_step_uuid::text from postrider.tasker_workflow_steps_archive where task_uuid = $1 and step_name = 'a'`, id)
	s.show("GET", "/archive/tasks?limit=1", "")
	s.show("GET", "/archive/statistics", "")
	s.show("POST", "/archive/pause", `{"reason": "the nightly backup is late", "for_seconds": 3600}`)
	s.show("GET", "/archive/status", "")
	s.show("POST", "/archive/resume", "")
	s.show("POST", "/archive/run", `{"dry_run": true}`)
	for _, rest := range []string{"", "/payload?why=OPS-17", "/workflow_steps", "/workflow_steps/" + step, "/transitions", "/step_transitions"} {
		s.show("GET", at+rest, "")
	}
}

func (s *showing) templates() {
	s.show("POST", "/templates", `{"name": "deliver", "namespace_name": "shop", "version": "1.0.0", "description": "Reserves and sends an order.", "steps": [{"name": "reserve", "handler": "stock.reserve"}, {"name": "send", "handler": "parcels.send", "dependencies": ["reserve"]}]}`)
	s.show("GET", "/templates?namespace=shop", "")
	s.show("GET", "/templates/shop/deliver", "")
}

func (s *showing) outbox() {
	id := s.pending()
	s.show("GET", "/outbox?limit=1&topic=orders", "")
	s.show("GET", "/outbox/"+id, "")
	s.show("GET", "/outbox/"+id+"/payload", "")
	s.show("POST", "/outbox/"+id+"/skip", `{"reason": "the order was cancelled"}`)
	outboxtest.SettleAll(s.t, s.pool, outboxtest.Published, outboxtest.Pending, 0)
	s.anHourAgo()
	s.show("POST", "/outbox/purge", `{"older_than": "`+time.Now().Add(-30*time.Minute).UTC().Format(time.RFC3339)+`", "limit": 1000}`)
	_, event, _ := s.halted(31)
	s.show("POST", "/outbox/"+event+"/redrive", "")
	_, _, hold := s.halted(32)
	s.show("POST", "/holds/"+hold+"/release", "")
	breaker := s.breaker("RECORD_TOO_LARGE")
	s.show("GET", "/holds?cause=circuit_breaker", "")
	s.show("POST", "/holds/"+breaker+"/give-up", "")
}

func (s *showing) access() {
	created := s.show("POST", "/keys", `{"name": "ann", "scopes": ["read", "resolve"], "expires_in_seconds": 86400}`)
	s.show("GET", "/me", "")
	s.show("GET", "/keys", "")
	s.show("DELETE", "/keys/"+created.text("id"), "")
	s.show("GET", "/audit?limit=1&action=key.revoke", "")
}
