package httpapi_test

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// driveCommands: investigations of another source are redriven and closed by commands, which the API shows; a source that has not
// answered is said to be asked, and then to be away.
func (r *rig) driveCommands() {
	t := r.t
	of := func(n int) string { return r.record(dlq.Decode(dlqtest.From("orders", dlqtest.Event(n, 1)))) }
	id, closed, halting := of(900), of(901), of(903)
	sent := r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, id)).is(200)
	if got := fmt.Sprint(sent.at("requeued"), sent.at("asked"), sent.at("skipped")); got != fmt.Sprintf("[%[1]s] [%[1]s] []", id) {
		t.Errorf("%s", sent.Raw)
	}
	r.ask("PATCH", "/dlq/"+id, `{"resolution_status": "cancelled"}`).is(409) // it is on its way
	r.ask("PATCH", "/dlq/"+closed, `{"resolution_status": "cancelled"}`).is(200)
	kinds := func(query string, want ...string) reply {
		t.Helper()
		list := r.ask("GET", "/commands?"+query, "").is(200)
		var got []string
		for _, one := range list.at("items").([]any) {
			c := one.(map[string]any)
			got = append(got, fmt.Sprintf("%v %v %v", c["kind"], c["entry_id"], c["state"]))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s", query, list.Raw)
		}
		return list
	}
	newest := kinds("source=orders&page_size=1", "close "+closed+" waiting")
	kinds("source=orders&after="+newest.text("next"), "redrive "+id+" waiting")
	kinds("source=billing")
	let := r.ask("POST", "/dlq/release", fmt.Sprintf(`{"ids": [%q, %q, %q]}`, halting, closed, id)).is(200)
	if got := fmt.Sprint(let.at("released"), let.at("asked"), len(let.at("skipped").([]any))); got != fmt.Sprintf("[%[1]s] [%[1]s] 2", halting) {
		t.Errorf("%s", let.Raw)
	}
	kinds("source=orders&page_size=1", "release "+halting+" waiting")
	kinds("source=orders&state=answered")
	r.exec(`update postrider.dlq_command set created_at = now() - interval '1 minute'`)
	away := r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, of(902))).is(200)
	if len(away.at("requeued").([]any)) != 0 || !strings.Contains(string(away.Raw), `"reason":"source_away","explanation":"the source orders has answered nothing since 20`) {
		t.Errorf("%s", away.Raw)
	}
	r.exec(`update postrider.dlq_command set answered_at = now(), answer = 'refused', detail = 'too odd' where kind = 'redrive'`)
	if list := kinds("state=answered", "redrive "+id+" answered"); !strings.Contains(string(list.Raw), `"answer":"refused","detail":"too odd"`) {
		t.Errorf("%s", list.Raw)
	}
	for query, says := range map[string]string{"state=gone": "waiting, answered", "source=O": "name of a source", "after=x": "after", "page_size=0": "page_size", "kind=close": "kind"} {
		r.ask("GET", "/commands?"+query, "").is(400).says(says)
	}
}

// driveRelease: a key goes on, and the investigation stays open.
func (r *rig) driveRelease() {
	entry, event, hold := r.halted(15)
	body := fmt.Sprintf(`{"ids": [%q]}`, entry)
	if done := r.ask("POST", "/dlq/release", body).is(200); fmt.Sprint(done.at("released")) != "["+entry+"]" {
		r.t.Errorf("%s", done.Raw)
	}
	if asked := value[string](r, `select coalesce(asked, '') from postrider.outbox_hold where hold_id = $1::bigint`, hold); asked != "release" {
		r.t.Errorf("the hold of event %s is asked to %q", event, asked)
	}
	if got := r.ask("GET", "/dlq/"+entry, "").is(200).text("resolution_status"); got != "pending" {
		r.t.Errorf("the investigation is %s", got)
	}
	r.exec(`delete from postrider.outbox_hold where hold_id = $1::bigint`, hold)
	if again := r.ask("POST", "/dlq/release", body).is(200); !strings.Contains(again.Raw, `"reason":"no_key"`) {
		r.t.Errorf("%s", again.Raw)
	}
	r.ask("POST", "/dlq/release", fmt.Sprintf(`{"ids": [%q]}`, nowhere)).is(404).says(nowhere)
	for _, body := range []string{`{}`, `{"ids": []}`, `{"ids": ["1"]}`, fmt.Sprintf(`{"ids": [%q], "wait_seconds": 0}`, entry), fmt.Sprintf(`{"ids": [%q], "wait_seconds": 99}`, entry)} {
		r.ask("POST", "/dlq/release", body).is(400)
	}
}
